"""The broker, the result backend or both go away when a body has ended: its end is announced all the same, later."""

from __future__ import annotations

import logging
import time

import pytest
from kombu.exceptions import OperationalError
from kombu.messaging import Producer

from celery_replay import Outcome, StoreUnavailable
from tests.inprocess.lab import Results

SETTLE_S = 0.5
OWN = ("late outages: pay", "late outages: after")
pytestmark = pytest.mark.filterwarnings("ignore:Exception raised outside body:RuntimeWarning")


class Away:
    """What is away refuses to publish, or to store."""

    def __init__(self, monkeypatch):
        self.broker = self.results = False
        self.refused = []
        publish, store = Producer._publish, Results._store_result

        def refuse_publish(producer, *args, **kwargs):
            if self.broker:
                self.refused.append("published")
                raise OperationalError("the broker is away")
            return publish(producer, *args, **kwargs)

        def refuse_store(backend, task_id, result, state, *args, request=None, **kwargs):
            # Not what other tests left behind: a worker that can't store what it knows no task for ends by that.
            if self.results and getattr(request, "task", None) in OWN:
                self.refused.append(state)
                raise ConnectionError("the backend is away")
            return store(backend, task_id, result, state, *args, request=request, **kwargs)

        monkeypatch.setattr(Producer, "_publish", refuse_publish)
        monkeypatch.setattr(Results, "_store_result", refuse_store)

    def ends(self):
        self.broker = self.results = False


@pytest.fixture
def away(monkeypatch, any_lab):
    any_lab.configure(store_retry_delay=0.3, canvas_ttl=0.3)
    away = Away(monkeypatch)
    yield away
    away.ends()


def job_in_outage(lab, away, **options):
    """Publish a job with a callback, in whose body something goes away; return its result when it was missed."""
    what = options.pop("what")

    @lab.task(name=OWN[0], **options)
    def pay():
        lab.log.append("pay")
        for name in what:
            setattr(away, name, True)
        return "paid"

    @lab.task(name=OWN[1])
    def after():
        lab.log.append("after")

    result = pay.apply_async(link=after.si())
    lab.wait(lambda: away.refused)
    time.sleep(SETTLE_S)
    away.ends()
    return result


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("what", [("results",), ("broker", "results")], ids="+".join)
def test_a_job_that_is_acknowledged_late_is_announced_when_that_is_over(any_lab, away, what, keyed):
    lab = any_lab
    key = {"idempotency_key": "pay"} if keyed else {}

    result = job_in_outage(lab, away, what=what, acks_late=True, **key)

    assert lab.get(result) == "paid"
    lab.wait(lambda: "after" in lab.log)
    job = lab.settled(result.id)
    lab.idle()
    assert lab.log == ["pay", "after"]
    assert (job.status, job.attempts, job.canvas_advanced) == (Outcome.SUCCEEDED, 1, True)
    assert lab.letters() == []


def test_one_that_is_acknowledged_early_comes_again_through_the_broker(any_lab, away, caplog):
    caplog.set_level(logging.WARNING, "celery_replay.aftermath")

    result = job_in_outage(any_lab, away, what=("results",))

    assert any_lab.get(result) == "paid"
    any_lab.idle()
    assert any_lab.log == ["pay", "after"]
    told = [record for record in caplog.records if record.message == "replay.end_not_announced"]
    assert {record.error for record in told} == {"ConnectionError"}
    assert not any(record.exc_info or record.exc_text for record in told), "what an error says may be secret"


def test_a_job_that_could_not_be_announced_as_started_begins_later(any_lab, away):
    lab = any_lab

    @lab.task(name=OWN[0], acks_late=True, track_started=True)
    def pay():
        lab.log.append("pay")

    away.results = True
    result = pay.delay()
    lab.wait(lambda: away.refused)
    time.sleep(SETTLE_S)
    away.ends()

    lab.get(result)
    lab.idle()
    assert lab.log == ["pay"]


def test_a_retry_goes_on_though_it_could_not_be_announced(any_lab, away):
    lab = any_lab

    @lab.task(name=OWN[0], bind=True, acks_late=True, default_retry_delay=0)
    def pay(self):
        lab.log.append(self.request.retries)
        if not self.request.retries:
            away.results = True
            raise self.retry(countdown=0.5)
        away.ends()
        return "paid"

    @lab.task()
    def failed():
        lab.log.append("failed")

    result = pay.apply_async(link_error=failed.si())

    assert lab.get(result) == "paid"
    lab.idle()
    assert "RETRY" in away.refused
    assert lab.log == [0, 1]


@pytest.mark.parametrize("error", [LookupError, ConnectionError, FileNotFoundError])
def test_an_error_of_a_handler_brings_nothing_again(any_lab, away, error):
    lab = any_lab

    class Handled(lab.app.Task):
        def on_failure(self, *args):
            lab.log.append("on_failure")
            raise error("a bug")

    @lab.task(base=Handled, acks_late=True)
    def pay():
        lab.log.append("pay")
        raise ValueError("declined")

    result = pay.delay()

    assert lab.error(result)
    time.sleep(2 * SETTLE_S)
    lab.idle()
    # Celery 5.7 calls it again for its own error.
    assert lab.log[0] == "pay"
    assert set(lab.log[1:]) == {"on_failure"}
    assert len(lab.log) <= 3


def test_a_body_that_has_run_is_not_run_again_where_the_store_is_away_as_well(any_lab, away, monkeypatch):
    lab = any_lab
    store = {"away": False}

    def refusing(method):
        def call(*args, **kwargs):
            if store["away"]:
                raise StoreUnavailable("the store is away")
            return method(*args, **kwargs)

        return call

    for name in ("open", "close", "flush", "renew"):
        monkeypatch.setattr(lab.store, name, refusing(getattr(lab.store, name)))

    @lab.task(name=OWN[0])
    def pay():
        lab.log.append("pay")
        store["away"] = away.results = True

    pay.delay()
    lab.wait(lambda: away.refused, "the result is refused")
    time.sleep(4 * SETTLE_S)
    store["away"] = False
    away.ends()
    time.sleep(2 * SETTLE_S)

    lab.idle()
    assert lab.log == ["pay"]


def test_a_class_with_a_call_of_its_own_runs_its_body_once(any_lab, away):
    lab = any_lab

    class Called(lab.app.Task):
        def __call__(self, *args, **kwargs):
            return self.run(*args, **kwargs)

    @lab.task(name=OWN[0], base=Called)
    def pay():
        lab.log.append("pay")
        away.results = True

    pay.delay()
    lab.wait(lambda: away.refused)
    time.sleep(2 * SETTLE_S)
    away.ends()
    lab.idle()
    assert lab.log == ["pay"]


def test_what_never_comes_back_is_given_up(any_lab, away):
    lab = any_lab
    lab.configure(store_retry_delay=0.01, canvas_ttl=0.05, requeue_cap=2)

    @lab.task(name=OWN[0], acks_late=True)
    def pay():
        lab.log.append("pay")
        away.results = True

    result = pay.delay()
    # As it is, and twice more; each time success and failure.
    lab.wait(lambda: len(away.refused) >= 3)
    counts = [-1, len(away.refused)]
    while counts[-1] != counts[-2] and len(counts) < 12:
        time.sleep(4 * SETTLE_S)
        counts.append(len(away.refused))
    # On a slow machine a copy of it may have been parked: that one is sent each round, as long as the outage lasts.
    parked = lab.store.row(lab.job(result.id).submission) is not None
    assert parked or counts[-1] == counts[-2] <= 12
    away.ends()
    lab.idle()
    assert lab.log == ["pay"]
    assert lab.job(result.id).status is Outcome.SUCCEEDED


def test_an_end_that_comes_late_does_not_expire(any_lab, away):
    lab = any_lab

    @lab.task(name=OWN[0], acks_late=True)
    def pay():
        lab.log.append("pay")
        away.results = True
        return "paid"

    result = pay.apply_async(expires=1)
    lab.wait(lambda: away.refused)
    time.sleep(1.2)
    away.ends()

    assert lab.get(result) == "paid"
    assert lab.log == ["pay"]


def test_a_key_whose_result_celery_could_not_tell_keeps_it(any_lab, away):
    lab = any_lab

    @lab.task(name=OWN[0], acks_late=True, idempotency_key="pay")
    def pay():
        lab.log.append("pay")
        away.broker = True
        return "paid"

    @lab.task(name=OWN[1])
    def after():
        lab.log.append("after")

    first = pay.apply_async(link=after.si())
    lab.error(first)
    away.ends()

    assert lab.get(pay.delay()) == "paid"
    assert lab.log.count("pay") == 1
