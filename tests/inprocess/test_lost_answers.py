"""OPEN or CLOSE was done, and something came in between: an answer that got lost, a time limit that struck."""

from __future__ import annotations

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from celery_replay import Outcome, StoreUnavailable
from celery_replay.steward import Steward
from celery_replay.stores.memory import MemoryStore

# A call that was done and whose answer got lost


class Mute(MemoryStore):
    """A store that does what it is told, and whose answer to OPEN gets lost so many times."""

    lost = 0

    def open(self, *args, **kwargs):
        answer = super().open(*args, **kwargs)
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("no answer")
        return answer


@pytest.fixture
def mute(lab, tmp_path):
    lab.configure(spool_dir=str(tmp_path / "spool"), store_retry_delay=0.3)
    mute = lab.use(Mute(lab.clock))
    mute.lost = 1
    return mute


def test_a_keyed_job_whose_open_was_not_answered_runs_once_and_is_in_no_doubt(lab, mute):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        return "paid"

    result = pay.delay(5)
    lab.wait(lambda: list(lab.runtime.spool.waiting()))
    Steward(lab.runtime, leads=False).round()

    assert lab.get(result) == "paid"
    assert lab.log == [5]
    assert lab.settled(result.id).status is Outcome.SUCCEEDED
    assert lab.letters() == []


@pytest.mark.parametrize("fails", [False, True])
def test_an_undeclared_job_whose_open_was_not_answered_ends_as_its_body_did(lab, mute, fails):
    @lab.task()
    def pay():
        lab.log.append("ran")
        if fails:
            raise ValueError("declined")

    result = pay.delay()
    lab.error(result)
    lab.wait(lambda: list(lab.runtime.spool.waiting()))
    Steward(lab.runtime, leads=False).round()

    assert lab.log == ["ran"]
    assert lab.job(result.id).status is (Outcome.FAILED if fails else Outcome.SUCCEEDED)
    assert [letter.error_message for letter in lab.letters()] == (["declined"] if fails else [])


# Celery's soft time limit in the middle of our own work


def late(calls, then):
    """Raise the soft time limit once, then do what is to be done."""

    def limited(*args, **kwargs):
        calls.append("limit")
        if len(calls) == 1:
            raise SoftTimeLimitExceeded
        return then(*args, **kwargs)

    return limited


def test_a_soft_limit_that_strikes_while_the_store_is_asked_is_no_outage(lab, monkeypatch):
    @lab.task()
    def pay():
        lab.log.append("ran")

    monkeypatch.setattr(lab.store, "open", late([], lab.store.open))

    result = pay.delay()
    lab.idle()

    # It was never opened, so its delivery was parked, and comes again.
    assert lab.log == []
    lab.release_due()
    lab.wait(lambda: lab.log == ["ran"])
    assert lab.settled(result.id).status is Outcome.SUCCEEDED


def test_a_soft_limit_that_strikes_after_the_body_does_not_fail_the_job(lab, monkeypatch):
    @lab.task()
    def pay():
        return "paid"

    monkeypatch.setattr(lab.runtime.heartbeat, "remove", late([], lab.runtime.heartbeat.remove))

    result = pay.delay()

    assert lab.get(result) == "paid"
    assert lab.settled(result.id).status is Outcome.SUCCEEDED
    assert lab.names(result.id).count("succeeded") == 1
