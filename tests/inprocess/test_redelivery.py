"""The same message again: its body runs once, and its canvas moves once, with no key declared at all."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from celery import chain, chord, signals

from celery_replay import Outcome
from celery_replay.states import Reason, RowStatus
from tests.inprocess.lab import Gate


@pytest.mark.parametrize("options", [{}, {"idempotency_key": "pay:{order_id}"}], ids=["nothing declared", "key"])
def test_a_copy_of_a_finished_job_does_nothing(any_lab, options):
    lab = any_lab

    @lab.task(**options)
    def pay(order_id):
        lab.log.append("paid")
        return order_id

    @lab.task()
    def thank(order_id):
        lab.log.append("thanked")

    result = pay.apply_async((5,), link=thank.s())
    lab.get(result)
    lab.settled(result.id)
    lab.wait(lambda: "thanked" in lab.log)
    for _ in range(3):
        lab.redeliver(lab.messages(result.id)[0])
    lab.idle()

    assert lab.log == ["paid", "thanked"]
    assert lab.names(result.id).count("ignore") == 3


def test_a_copy_that_comes_while_the_first_is_running_waits_and_then_does_nothing(lab):
    gate, failures = Gate(), []

    @lab.task()
    def pay(order_id):
        lab.log.append("paid")
        gate.wait()
        return order_id

    @lab.task()
    def thank(order_id):
        lab.log.append("thanked")

    def on_failure(sender=None, **_):
        failures.append(sender)

    signals.task_failure.connect(on_failure)
    result = pay.apply_async((5,), link=thank.s(), link_error=thank.s())
    gate.await_reached()
    lab.redeliver(lab.messages(result.id)[0])
    lab.wait(lambda: [row for row in lab.store.rows() if row.status is RowStatus.PARKED])
    running = lab.job(result.id)
    gate.open()
    lab.get(result)
    lab.settled(result.id)
    lab.idle()
    signals.task_failure.disconnect(on_failure)

    assert running.status is Outcome.OPEN
    assert lab.log == ["paid", "thanked"]
    assert failures == []
    assert lab.letters() == []


def test_fifty_copies_started_at_once_run_once(lab):
    barrier = threading.Event()

    @lab.task()
    def pay():
        lab.log.append("paid")
        barrier.wait(5)

    result = pay.apply_async(countdown=0.3)
    message = lab.messages(result.id)[0]
    for _ in range(49):
        lab.redeliver(message)
    lab.wait(lambda: lab.log)
    barrier.set()
    lab.get(result)
    lab.idle()

    assert lab.log == ["paid"]


def test_a_copy_of_an_older_attempt_does_nothing(lab):
    @lab.task(bind=True, max_retries=3)
    def pay(self):
        lab.log.append(self.request.retries)
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return "paid"

    result = pay.delay()
    lab.get(result)
    lab.settled(result.id)
    for message in lab.messages(result.id):
        lab.redeliver(message)
        lab.redeliver(message)
    lab.idle()

    assert lab.log == [0, 1, 2]
    assert lab.job(result.id).generation == 2


def test_a_retry_that_arrives_twice_runs_once_and_the_budget_holds(lab):
    @lab.task(bind=True, max_retries=3)
    def pay(self):
        lab.log.append(self.request.retries)
        for message in lab.messages(self.request.id):
            lab.redeliver(message)
        raise self.retry(countdown=0, exc=ValueError("down"))

    result = pay.delay()

    assert isinstance(lab.error(result), ValueError)
    lab.settled(result.id)
    lab.idle()
    assert lab.log == [0, 1, 2, 3]


def test_a_copy_of_a_failed_job_does_nothing(lab):
    @lab.task()
    def pay():
        lab.log.append("tried")
        raise ValueError("declined")

    @lab.task()
    def apologise(task_id):
        lab.log.append("apologised")

    result = pay.apply_async(link_error=apologise.s())
    lab.error(result)
    lab.settled(result.id)
    lab.wait(lambda: "apologised" in lab.log)
    lab.redeliver(lab.messages(result.id)[0])
    lab.idle()

    assert lab.log == ["tried", "apologised"]
    assert len(lab.letters()) == 1


def test_a_chord_counts_a_member_once_and_its_body_runs_once(lab):
    @lab.task()
    def part(n):
        lab.log.append(n)
        return n

    @lab.task()
    def total(parts):
        lab.log.append("total")
        return sum(parts)

    gate = Gate()

    @lab.task()
    def last(n):
        gate.wait()
        return n

    result = chord([part.s(n) for n in range(4)] + [last.s(4)], total.s()).apply_async()
    gate.await_reached()
    lab.wait(lambda: sorted(lab.log) == [0, 1, 2, 3])
    for member in result.parent.results[:4]:
        lab.settled(member.id)
        lab.redeliver(lab.messages(member.id)[0])
        lab.redeliver(lab.messages(member.id)[0])
    lab.wait(lambda: all("ignore" in lab.names(member.id) for member in result.parent.results[:4]))
    gate.open()

    assert lab.get(result) == 10
    lab.idle()
    assert sorted(lab.log, key=str) == [0, 1, 2, 3, "total"]


def test_a_chords_members_may_be_parked_and_copied_on_the_way(lab):
    gate = Gate()

    @lab.task(idempotency_key="part:{group}")
    def part(group, n):
        lab.log.append(group)
        gate.wait()
        return group

    @lab.task()
    def total(parts):
        lab.log.append("total")
        return parts

    holders = [part.delay(group, 1) for group in "ab"]
    lab.wait(lambda: sorted(lab.log) == ["a", "b"])
    result = chord([part.s("a", 1), part.s("b", 1)], total.s()).apply_async()
    lab.wait(lambda: len(list(lab.store.rows())) == 2)
    for member in result.parent.results:
        lab.redeliver(lab.messages(member.id)[0])
    gate.open()

    assert lab.get(result) == ["a", "b"]
    for holder in holders:
        lab.get(holder)
    lab.idle()
    assert sorted(lab.log) == ["a", "b", "total"]


def test_a_chain_moves_on_once_whatever_is_copied(lab):
    @lab.task()
    def add(x, y):
        lab.log.append((x, y))
        return x + y

    result = chain(add.s(1, 1), add.s(10), add.s(100)).apply_async()
    assert lab.get(result) == 112
    ids = [result.parent.parent.id, result.parent.id, result.id]
    for task_id in ids:
        lab.settled(task_id)
        lab.redeliver(lab.messages(task_id)[0])
    lab.idle()

    assert lab.log == [(1, 1), (2, 10), (12, 100)]


# After a death: the tests play the dead worker, as their own process has to live on.


def died_after_close(lab, task_id):
    """Turn a job's record back to where its worker died after CLOSE and before its canvas was sent on."""
    job = lab.job(task_id)
    with lab.store._unit() as unit:
        unit.put(replace(job, canvas_advanced=False, canvas_until=unit.now + lab.runtime.canvas_us))


def test_a_copy_after_a_death_before_the_canvas_was_sent_on_sends_it_on(lab):
    @lab.task()
    def pay():
        lab.log.append("paid")
        return 0

    @lab.task()
    def thank(value):
        lab.log.append(("thanked", value))

    result = pay.delay()
    lab.get(result)
    lab.settled(result.id)
    message = lab.messages(result.id)[0]
    died_after_close(lab, result.id)
    lab.redeliver(message)
    row = lab.wait(lambda: list(lab.store.rows()))[0]
    lab.clock.forward(60)
    lab.release_due()
    lab.settled(result.id)
    lab.idle()

    assert row.reason is Reason.CANVAS_IN_PROGRESS
    assert lab.log == ["paid"]
    assert lab.get(result) == 0
    assert list(lab.store.rows()) == []


def test_a_failure_that_nobody_was_told_of_is_raised_again_and_its_errback_still_runs_once(lab):
    @lab.task()
    def pay():
        lab.log.append("tried")
        raise ValueError("declined")

    @lab.task()
    def apologise(task_id):
        lab.log.append("apologised")

    result = pay.apply_async(link_error=apologise.s())
    lab.error(result)
    lab.settled(result.id)
    lab.wait(lambda: "apologised" in lab.log)
    died_after_close(lab, result.id)
    lab.clock.forward(60)
    lab.redeliver(lab.messages(result.id)[0])
    lab.wait(lambda: "raise_again" in lab.names(result.id))
    lab.settled(result.id)
    lab.idle()

    assert lab.log == ["tried", "apologised"]
    assert len(lab.letters()) == 1


def test_an_owner_whose_lease_lapsed_is_taken_over_and_its_late_end_is_refused(lab):
    gate, second = Gate(), Gate()

    @lab.task(bind=True)
    def pay(self):
        lab.log.append(self.attempt.nonce)
        if len(lab.log) == 1:
            gate.wait()
            return "of the zombie"
        second.wait()
        return "of the new owner"

    result = pay.delay()
    gate.await_reached()
    lab.clock.forward(3600)
    lab.redeliver(lab.messages(result.id)[0])
    second.await_reached()
    gate.open()
    lab.wait(lambda: "stale_write_rejected" in lab.names(result.id))
    second.open()

    assert lab.get(result) == "of the new owner"
    job = lab.settled(result.id)
    assert job.nonce == lab.log[1]
    lab.idle()
    assert len(lab.log) == 2


def test_a_late_failure_of_a_zombie_leaves_the_success_as_it_is(lab):
    gate = Gate()

    @lab.task(bind=True)
    def pay(self):
        lab.log.append(self.attempt.nonce)
        if len(lab.log) == 1:
            gate.wait()
            raise ValueError("of the zombie")
        return "paid"

    @lab.task()
    def apologise(task_id):
        lab.log.append("apologised")

    result = pay.apply_async(link_error=apologise.s())
    gate.await_reached()
    lab.clock.forward(3600)
    lab.redeliver(lab.messages(result.id)[0])
    assert lab.get(result) == "paid"
    gate.open()
    lab.wait(lambda: "stale_write_rejected" in lab.names(result.id))
    lab.idle()

    assert lab.get(result) == "paid"
    assert lab.settled(result.id).status is Outcome.SUCCEEDED
    assert "apologised" not in lab.log
    assert lab.letters() == []


def test_the_fence_rises_from_one_attempt_to_the_next(lab):
    @lab.task(bind=True, max_retries=3)
    def pay(self):
        lab.log.append(self.attempt.fence)
        if self.request.retries < 3:
            raise self.retry(countdown=0)

    lab.get(pay.delay())

    assert lab.log == sorted(set(lab.log))
    assert len(lab.log) == 4
