"""Resources that tasks name: one job at a time has each, whatever its task; who lost one is told."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from celery.worker import state

from celery_replay import Outcome, OwnershipLost, step
from celery_replay.exceptions import ConfigurationError
from celery_replay.guards import refusal
from celery_replay.states import Reason, RowStatus
from tests.inprocess.lab import Gate

ORDER = ["order:{order_id}"]


def named(lab, task_id, name):
    return [event for event in lab.events(task_id) if event.name == name]


def parked(lab):
    return [row for row in lab.store.rows() if row.status is RowStatus.PARKED]


def comes_again(lab, condition):
    """Let a refused delivery come again: by the worker's own steward, or by a round of ours."""
    lab.wait(lambda: (lab.release_due(), condition())[1], "its coming again")


def test_tasks_of_any_kind_that_name_one_resource_run_one_after_the_other(any_lab):
    lab = any_lab
    inside, met, guard = [], [], threading.Lock()

    def work(order_id):
        with guard:
            met.append(list(inside))
            inside.append(order_id)
        with guard:
            inside.remove(order_id)
        return order_id

    @lab.task(resources=ORDER)
    def ship(order_id):
        return work(order_id)

    @lab.task(resources=lambda number: f"order:{number}")
    def bill(number, currency="EUR"):
        return work(number)

    results = [task.delay(7) for _ in range(10) for task in (ship, bill)]
    assert [lab.get(result) for result in results] == [7] * 20
    assert met == [[]] * 20
    lab.idle()
    assert lab.store.leases() == []


def test_a_job_waits_in_the_store_and_its_trace_tells_for_whom(lab):
    gate = Gate()

    @lab.task(resources=ORDER)
    def ship(order_id, wait=False):
        if wait:
            gate.wait()
        return order_id

    first = ship.delay(7, wait=True)
    gate.await_reached()
    second = ship.delay(7)
    (row,) = lab.wait(lambda: parked(lab), "parking")
    gate.open()
    lab.get(second)

    owner = lab.job(first.id)
    assert (row.reason, row.subject) == (Reason.LEASE_HELD, "lease:order:7")
    (contended,) = named(lab, second.id, "lease_contended")
    told = contended.attributes
    assert (told["resource"], told["owner"], told["owner_attempt"]) == ("order:7", owner.submission, owner.nonce)
    # Waiting is no retry.
    job = lab.settled(second.id)
    assert (job.generation, job.attempts) == (0, 1)


def test_events_tell_the_resource_and_its_fence(lab):
    @lab.task(resources=["order:{order_id}", "customer:{customer}"], bind=True)
    def ship(self, order_id, customer):
        return [self.attempt.fence_of("order:7"), self.attempt.fence_of("customer:anna")]

    result = ship.delay(7, customer="anna")
    fences = lab.get(result)
    lab.settled(result.id)
    told = {name: named(lab, result.id, name) for name in ("lease_acquired", "lease_released")}
    for events in told.values():
        assert [(event.attributes["resource"], event.fence) for event in events] == [
            ("customer:anna", fences[1]),
            ("order:7", fences[0]),
        ]
    assert min(fences) > 1_600_000_000_000_000
    assert [holding.fence for holding in lab.store.holdings("order:7")] == [fences[0]]


def test_a_later_holder_has_a_higher_fence(lab):
    @lab.task(resources=ORDER, bind=True)
    def ship(self, order_id):
        return self.attempt.fence_of(f"order:{order_id}")

    fences = [lab.get(ship.delay(7)) for _ in range(3)]
    assert fences == sorted(set(fences))


def test_the_fence_of_what_is_not_leased_is_an_error(lab):
    @lab.task(resources=ORDER, bind=True)
    def ship(self, order_id):
        self.attempt.fence_of("order:8")

    error = lab.error(ship.delay(7))
    assert "no lease on 'order:8'" in str(error)
    assert "'order:7'" in str(error)


@pytest.mark.parametrize("declared", [["order:{oid}"], "order:{oid}", lambda oid: oid])
def test_a_name_that_is_no_parameter_is_refused_when_the_task_is_bound(lab, declared):
    with pytest.raises(ConfigurationError, match="no parameter of the task"):

        @lab.task(resources=declared)
        def ship(order_id):
            pass


def test_names_do_not_depend_on_how_arguments_are_passed(lab):
    seen = []

    @lab.task(resources=["stock:{items}", "order:{order_id}", "order:{order_id}"], bind=True)
    def ship(self, order_id, items=None, *, note=""):
        seen.append(self.attempt.resources.names)

    items = {"b": [1, 2.5, {"y": None, "x": "ü"}], "a": (1, 2)}
    shuffled = {"a": [1, 2], "b": [1, 2.5, {"x": "ü", "y": None}]}
    lab.get(ship.delay(7, items))
    lab.get(ship.delay(items=shuffled, order_id="7", note="again"))
    first, second = seen
    assert first == second
    assert first[0] == "order:7"
    assert len(first) == 2


def test_long_names_are_told_apart(lab):
    @lab.task(resources=["file:{path}"], bind=True)
    def read(self, path):
        return [*self.attempt.resources.names, self.attempt.fence_of(f"file:{path}") > 0]

    one, two = (lab.get(read.delay("x" * 5_000 + end)) for end in "ab")
    assert one[0] != two[0]
    assert len(one[0]) <= 200
    assert one[1]


def test_a_call_that_names_nothing_takes_nothing(lab):
    @lab.task(resources=lambda order_id: None, bind=True)
    def ship(self, order_id):
        return list(self.attempt.resources.names)

    assert lab.get(ship.delay(7)) == []


def test_names_that_can_not_be_computed_fail_the_job_before_its_body(lab):
    @lab.task(resources=lambda order_id: [f"order:{order_id['id']}"])
    def ship(order_id):
        lab.log.append("body")

    result = ship.delay(7)
    assert isinstance(lab.error(result), TypeError)
    lab.settled(result.id)
    assert lab.log == []


def test_a_retry_takes_its_resource_again_and_leaves_nothing_behind(lab):
    @lab.task(resources=ORDER, autoretry_for=(ValueError,), max_retries=2, default_retry_delay=0, retry_jitter=False)
    def ship(order_id, fails):
        lab.log.append("body")
        if len(lab.log) <= fails:
            raise ValueError("not yet")
        return "shipped"

    assert lab.get(ship.delay(7, 2)) == "shipped"
    lab.log.clear()
    assert isinstance(lab.error(ship.delay(7, 9)), ValueError)
    assert lab.log == ["body"] * 3
    lab.idle()
    assert lab.store.leases() == []
    assert parked(lab) == []


def _taken_over(lab, order_id):
    """Let the running job's leases lapse, and another job have them."""
    lab.clock.forward(100)
    lab.release_due()


def test_a_job_whose_resource_was_taken_stops_at_its_next_step_and_runs_again_later(lab):
    gate = Gate()
    runs = []

    @step(side_effect=True, key="label:{n}")
    def buy(n):
        lab.log.append(f"bought in run {n}")

    @lab.task(resources=ORDER, bind=True, acks_late=True, lease_ttl=60)
    def ship(self, order_id):
        runs.append(self.attempt.nonce)
        number = len(runs)
        if number == 1:
            lab.runtime.heartbeat.remove(self.attempt)
            gate.wait()
            lab.log.append("woke")
        buy(number)
        return number

    @lab.task(resources=ORDER)
    def bill(order_id):
        lab.log.append("billed")

    slow = ship.delay(7)
    gate.await_reached()
    other = bill.delay(7)
    lab.wait(lambda: parked(lab), "parking")
    _taken_over(lab, 7)
    lab.get(other)
    gate.open()
    lab.wait(lambda: "woke" in lab.log)
    comes_again(lab, lambda: lab.log[-1].startswith("bought"))
    assert lab.get(slow) == 2
    assert lab.log == ["billed", "woke", "bought in run 2"]
    lost = [event for event in named(lab, slow.id, "lease_lost") if event.attempt == runs[0]]
    assert [event.attributes.get("resource") for event in lost] == [None, "order:7"]


def test_the_heartbeat_tells_a_job_that_its_resource_is_another_ones(lab):
    gate, caught = Gate(), []

    @lab.task(resources=ORDER, bind=True, lease_ttl=1)
    def ship(self, order_id, first):
        if first:
            gate.wait()
            lab.wait(lambda: self.attempt.is_lost, "the loss")
            with pytest.raises(OwnershipLost) as error:
                self.attempt.check()
            caught.append(error.type)
            self.attempt.check()
        return "shipped"

    slow = ship.delay(7, True)
    gate.await_reached()
    # Its lease is gone, as after a failover to a replica that did not have it; another job takes the resource.
    lab.store._tables.leases.pop("order:7")
    assert lab.get(ship.delay(7, False)) == "shipped"
    gate.open()
    lab.wait(lambda: caught, "the error")
    assert lab.letters() == []
    assert lab.job(slow.id).status is not Outcome.FAILED


@pytest.mark.parametrize("taken", [False, True])
def test_a_job_that_ends_after_its_lease_lapsed_is_accepted_unless_somebody_has_it(lab, taken):
    gate = Gate()

    @lab.task(resources=ORDER, bind=True, acks_late=True)
    def ship(self, order_id, slow=False):
        lab.log.append("body")
        if slow and len(lab.log) == 1:
            lab.runtime.heartbeat.remove(self.attempt)
            gate.wait()
        return "shipped"

    result = ship.delay(7, slow=True)
    gate.await_reached()
    lab.clock.forward(100)
    if taken:
        lab.get(ship.delay(7))
    gate.open()
    comes_again(lab, lambda: len(lab.log) == (3 if taken else 1))
    assert lab.get(result) == "shipped"
    assert lab.settled(result.id).status is Outcome.SUCCEEDED
    assert len(lab.log) == (3 if taken else 1)
    assert lab.letters() == []


def test_a_job_that_backs_off_comes_again_by_itself(lab):
    gate = Gate()

    @lab.task(resources=ORDER, on_contention="backoff")
    def ship(order_id, wait=False):
        if wait:
            gate.wait()
        return order_id

    first = ship.delay(7, wait=True)
    gate.await_reached()
    second = ship.delay(7)
    lab.wait(lambda: parked(lab), "parking")
    gate.open()
    lab.get(first)
    lab.clock.forward(2)
    lab.release_due()
    assert lab.get(second) == 7


def test_a_revoked_job_that_waits_lets_the_next_one_go(lab):
    gate = Gate()

    @lab.task(resources=ORDER)
    def ship(order_id, wait=False):
        lab.log.append(wait)
        if wait:
            gate.wait()

    ship.delay(7, wait=True)
    gate.await_reached()
    second = ship.delay(7)
    lab.wait(lambda: len(parked(lab)) == 1)
    third = ship.delay(7)
    lab.wait(lambda: len(parked(lab)) == 2)
    lab.worker.app.control.revoke(second.id)
    lab.wait(lambda: second.id in state.revoked)
    gate.open()
    lab.get(third)
    assert lab.log == [True, False]


def test_who_has_it_is_in_the_store_with_since_when(lab):
    gate = Gate()

    @lab.task(resources=ORDER)
    def ship(order_id):
        gate.wait()

    result = ship.delay(7)
    gate.await_reached()
    (lease,) = lab.store.leases()
    job = lab.job(result.id)
    gate.open()
    assert (lease.resource, lease.submission, lease.nonce) == ("order:7", job.submission, job.nonce)
    assert (lease.operation, lease.worker, lease.pid) == (ship.name, job.worker, job.pid)
    assert (lease.acquired_at, lease.until) == (job.started_at, job.lease_until)


class Target:
    """Registers tokens, and refuses older ones, as a database does."""

    def __init__(self):
        self.calls = []

    @contextmanager
    def fenced(self, using, name, token):
        self.calls.append((using, name, token))
        newest = max(call[2] for call in self.calls if call[1] == name)
        if token < newest:
            raise refusal(name, "a test", token)
        yield

    @contextmanager
    def watch(self):
        yield SimpleNamespace(seen=False)


def test_a_zombies_write_is_refused_by_the_token_of_the_resource_whoever_had_it_since(lab):
    target, gate = Target(), Gate()

    @lab.task(resources=ORDER, bind=True, acks_late=True, replay_target=target)
    def ship(self, order_id):
        if not lab.log:
            lab.log.append("began")
            lab.runtime.heartbeat.remove(self.attempt)
            gate.wait()
        with self.attempt.fenced("order:7", using="shop"):
            lab.log.append("shipped")

    @lab.task(resources=ORDER, bind=True, replay_target=target)
    def bill(self, order_id):
        with self.attempt.fenced("order:7"):
            lab.log.append("billed")

    slow = ship.delay(7)
    gate.await_reached()
    lab.clock.forward(100)
    lab.get(bill.delay(7))
    gate.open()
    comes_again(lab, lambda: lab.log[-1] == "shipped")
    lab.get(slow)
    assert lab.log == ["began", "billed", "shipped"]
    assert [(using, name) for using, name, _ in target.calls] == [
        ("default", "lease:order:7"),
        ("shop", "lease:order:7"),
        ("shop", "lease:order:7"),
    ]
    billed, refused, shipped = (token for _, _, token in target.calls)
    assert refused < billed < shipped
    assert "fence_refused" in lab.names(slow.id)
