"""A store that fails never makes a working job fail: what happens instead is the task's policy."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from celery_replay import Outcome, StoreUnavailable, step
from celery_replay.steward import Steward
from celery_replay.stores.memory import MemoryStore
from tests.inprocess.lab import Gate


class Failing(MemoryStore):
    """A store whose calls fail while it is told so."""

    def __init__(self, now, error=StoreUnavailable):
        super().__init__(now)
        self.error = error
        self.down = set()
        self.refused = []

    def _fail(self, name):
        if name in self.down or "all" in self.down:
            self.refused.append(name)
            raise self.error("down")

    def open(self, *args, **kwargs):
        self._fail("open")
        return super().open(*args, **kwargs)

    def close(self, *args, **kwargs):
        self._fail("close")
        return super().close(*args, **kwargs)

    def flush(self, *args, **kwargs):
        self._fail("flush")
        return super().flush(*args, **kwargs)

    def renew(self, *args, **kwargs):
        self._fail("renew")
        return super().renew(*args, **kwargs)

    def claim_step(self, *args, **kwargs):
        self._fail("claim_step")
        return super().claim_step(*args, **kwargs)

    def amend(self, *args, **kwargs):
        self._fail("amend")
        return super().amend(*args, **kwargs)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for module in ("attempts", "steps"):
        monkeypatch.setattr(f"celery_replay.{module}.TRIES", (0.01, 0.01))


@pytest.fixture
def store(lab, tmp_path):
    lab.configure(spool_dir=str(tmp_path / "spool"), store_retry_delay=0.1)
    store = lab.use(Failing(lab.clock))
    yield store
    store.down.clear()


every_error = pytest.mark.parametrize("error", [StoreUnavailable, ConnectionError, KeyError], ids=lambda e: e.__name__)


# At OPEN


@every_error
def test_an_undeclared_task_runs_while_the_store_is_down_and_says_so(lab, store, error, caplog):
    @lab.task(bind=True)
    def pay(self):
        self.attempt.record("paid")
        return 5

    caplog.set_level(logging.WARNING)
    store.error = error
    store.down = {"all"}

    assert lab.get(pay.delay()) == 5
    (record,) = [record for record in caplog.records if record.getMessage() == "replay.store_down"]
    assert (record.task, record.policy) == (pay.name, "open")


@every_error
def test_a_declared_task_waits_for_the_store_and_spends_no_retry(lab, store, error):
    @lab.task(bind=True, idempotency_key="pay:{order_id}", max_retries=0)
    def pay(self, order_id):
        lab.log.append((self.request.id, self.request.retries))
        return order_id

    store.error = error
    store.down = {"open"}
    result = pay.delay(5)
    lab.wait(lambda: len(store.refused) >= 3)
    store.down.clear()

    assert lab.get(result) == 5
    assert lab.log == [(result.id, 0)]
    assert lab.settled(result.id).status is Outcome.SUCCEEDED
    assert len({str(m.headers["celery_replay"]["s"]) for m in lab.messages(result.id)}) == 1


def test_a_chain_goes_on_after_an_outage(lab, store):
    @lab.task(on_store_error="closed")
    def add(x, y):
        lab.log.append((x, y))
        return x + y

    store.down = {"open"}
    result = (add.s(1, 1) | add.s(10)).apply_async()
    lab.wait(lambda: store.refused)
    store.down.clear()

    assert lab.get(result) == 12
    assert lab.log == [(1, 1), (2, 10)]


def test_a_task_that_runs_without_the_store_may_use_steps(lab, store):
    @step(side_effect=True)
    def charge(amount):
        return amount

    @lab.task()
    def pay():
        return charge(5)

    store.down = {"all"}

    assert lab.get(pay.delay()) == 5


# At CLOSE


@every_error
def test_a_close_that_fails_once_is_tried_again(lab, store, error):
    @lab.task()
    def pay():
        store.down = {"close"}
        threading.Timer(0.005, store.down.clear).start()
        return 5

    store.error = error
    result = pay.delay()

    assert lab.get(result) == 5
    assert lab.settled(result.id).status is Outcome.SUCCEEDED


@every_error
def test_a_close_that_can_not_be_written_is_spooled_and_delivered_later(lab, store, error):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        store.down = {"close", "flush"}
        lab.log.append(order_id)
        return {"paid": order_id}

    @lab.task()
    def thank(paid):
        lab.log.append("thanked")

    store.error = error
    result = pay.apply_async((5,), link=thank.si(1))

    assert lab.get(result) == {"paid": 5}
    lab.wait(lambda: lab.log == [5, "thanked"])
    assert len(list(lab.runtime.spool.waiting())) == 1
    assert lab.job(result.id).status is Outcome.OPEN
    store.down.clear()
    Steward(lab.runtime, leads=False).round()

    assert list(lab.runtime.spool.waiting()) == []
    assert lab.settled(result.id).result == '{"paid": 5}'
    assert lab.get(pay.delay(5)) == {"paid": 5}
    assert lab.log == [5, "thanked"]
    assert {"started", "succeeded"} <= set(lab.names(result.id))


def test_a_failure_is_spooled_too_and_its_letter_comes_later(lab, store):
    @lab.task()
    def pay():
        store.down = {"close", "flush"}
        raise ValueError("declined")

    result = pay.delay()
    assert isinstance(lab.error(result), ValueError)
    lab.wait(lambda: list(lab.runtime.spool.waiting()))
    store.down.clear()
    Steward(lab.runtime, leads=False).round()

    assert lab.letter(result.id).error_message == "declined"


def test_a_retry_goes_on_while_its_bookkeeping_waits(lab, store):
    @lab.task(bind=True, max_retries=2)
    def pay(self):
        lab.log.append(self.request.retries)
        if not self.request.retries:
            store.down = {"close", "flush"}
            raise self.retry(countdown=0.2)
        return "paid"

    result = pay.delay()
    lab.wait(lambda: list(lab.runtime.spool.waiting()))
    store.down.clear()
    Steward(lab.runtime, leads=False).round()

    assert lab.get(result) == "paid"
    assert lab.log == [0, 1]
    outcomes = [attempt.outcome for attempt in lab.store.attempts(lab.settled(result.id).submission)]
    assert outcomes == ["retry_scheduled", "succeeded"]


def test_a_steward_without_a_store_says_so_once_and_again_after_it_was_well(lab, store, caplog, monkeypatch):
    caplog.set_level(logging.WARNING)
    steward = Steward(lab.runtime)

    def lead(*_):
        store._fail("lead")
        return False

    monkeypatch.setattr(store, "lead", lead)
    for down in ({"lead"}, {"lead"}, {"lead"}, set(), {"lead"}):
        store.down = down
        steward.round()

    assert [record.work for record in caplog.records if record.msg == "replay.steward_failed"] == ["lead"] * 2


def test_a_late_close_is_refused_where_somebody_took_over(lab, store):
    @lab.task(bind=True)
    def pay(self):
        lab.log.append(self.attempt.nonce)
        if len(lab.log) == 1:
            store.down = {"close", "flush"}
            return "first"
        return "second"

    result = pay.delay()
    assert lab.get(result) == "first"
    lab.wait(lambda: list(lab.runtime.spool.waiting()))
    store.down.clear()
    lab.clock.forward(3600)
    lab.redeliver(lab.messages(result.id)[0])
    lab.wait(lambda: lab.job(result.id).status is Outcome.SUCCEEDED)
    Steward(lab.runtime, leads=False).round()

    job = lab.settled(result.id)
    assert (job.nonce, job.result) == (lab.log[1], '"second"')
    assert [attempt.outcome for attempt in lab.store.attempts(job.submission)].count("refused") == 1


def test_a_disk_that_is_full_too_does_not_fail_the_job(lab, store, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    @lab.task()
    def pay():
        store.down = {"close", "flush"}
        return 5

    monkeypatch.setattr("celery_replay.spool.Spool.put", full)

    assert lab.get(pay.delay()) == 5
    lab.wait(lambda: "replay.spool_failed" in [record.getMessage() for record in caplog.records])


def test_a_close_whose_answer_got_lost_is_accepted(lab, store):
    class Deaf(Failing):
        def close(self, *args, **kwargs):
            answer = super().close(*args, **kwargs)
            if not lab.log[1:]:
                lab.log.append("answer lost")
                raise StoreUnavailable("the connection broke after the commit")
            return answer

    lab.use(Deaf(lab.clock))

    @lab.task()
    def pay():
        lab.log.append("paid")
        return 5

    result = pay.delay()

    assert lab.get(result) == 5
    assert lab.log == ["paid", "answer lost"]
    assert lab.settled(result.id).status is Outcome.SUCCEEDED
    assert list(lab.store.rows()) == []


# In between


def test_a_step_that_can_not_be_written_ahead_is_not_done(lab, store):
    done = []

    @step(side_effect=True)
    def charge():
        done.append(1)

    @lab.task()
    def pay():
        store.down = {"claim_step"}
        charge()

    assert isinstance(lab.error(pay.delay()), StoreUnavailable)
    assert done == []


def test_events_of_an_outage_arrive_after_it(lab, store):
    gate = Gate()

    @lab.task(bind=True)
    def pay(self):
        store.down = {"flush"}
        self.attempt.record("during")
        lab.wait(lambda: "flush" in store.refused)
        gate.wait()
        return 5

    result = pay.delay()
    gate.await_reached()
    store.down.clear()
    gate.open()
    lab.get(result)
    lab.settled(result.id)

    names = lab.names(result.id)
    assert names.count("during") == 1
    assert names[-1] == "succeeded"


def test_that_the_canvas_moved_is_written_once_the_store_is_back(lab, store):
    @lab.task()
    def pay():
        return 5

    store.down = {"flush"}
    result = pay.delay()
    lab.get(result)
    lab.wait(lambda: "flush" in store.refused)
    waiting = lab.job(result.id).canvas_advanced
    store.down.clear()

    assert waiting is False
    assert lab.settled(result.id).canvas_advanced is True


def test_what_the_store_never_took_leaves_nothing_to_deliver(lab, store):
    @lab.task()
    def pay():
        return 5

    unsent = StoreUnavailable("refused")
    unsent.sent = False
    store.error = lambda _: unsent
    store.down = {"open"}

    assert lab.get(pay.delay()) == 5
    assert list(lab.runtime.spool.waiting()) == []


# Outages around steps


def test_a_step_waits_for_a_store_that_is_away_for_a_moment(lab, store):
    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)
        return "charged"

    @lab.task(bind=True)
    def pay(self, order_id):
        store.down = {"claim_step"}
        threading.Timer(0.005, store.down.clear).start()
        return charge(order_id)

    assert lab.get(pay.delay(5)) == "charged"
    assert lab.log == [5]


def test_steps_of_a_body_that_runs_without_the_store_need_no_lease(lab, store, monkeypatch):
    @step
    def load(order_id):
        return order_id

    @lab.task(lease_ttl=1)
    def pay(order_id):
        time.sleep(1.2)
        return load(order_id)

    store.down = {"all"}

    assert lab.get(pay.delay(5)) == 5


def test_an_attempt_that_lost_its_job_while_the_store_is_away_is_no_failure(lab, store):
    @lab.task(bind=True, lease_ttl=1)
    def pay(self):
        lab.log.append("ran")
        if len(lab.log) == 1:
            store.down = {"all"}
            time.sleep(1.2)
            self.attempt.check()
        return "paid"

    result = pay.delay()
    lab.wait(lambda: list(lab.runtime.spool.waiting()))
    assert result.state != "FAILURE"
    store.down.clear()
    Steward(lab.runtime, leads=False).round()
    lab.release_due()

    assert lab.get(result) == "paid"
    assert lab.settled(result.id).status is Outcome.SUCCEEDED


def never_sent(text):
    error = StoreUnavailable(text)
    error.sent = False
    return error


@pytest.mark.parametrize("raises", [False, True])
def test_callbacks_of_a_job_that_runs_twice_without_the_store_have_one_name(lab, store, raises):
    names = []

    @lab.task()
    def plain():
        if raises:
            raise ValueError("no")
        return 1

    @lab.task(bind=True)
    def after(self, *args):
        names.append(self.attempt.submission)

    store.error = never_sent
    store.down.add("open")
    result = plain.apply_async(**{"link_error" if raises else "link": after.signature((), immutable=not raises)})
    lab.wait(lambda: len(names) == 1, "the callback")
    lab.redeliver(lab.messages(result.id)[0])
    lab.wait(lambda: len(names) == 2, "the callback of the second run")
    assert len(set(names)) == 1
