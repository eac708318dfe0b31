"""What a job's trace tells."""

from __future__ import annotations

import pytest

from celery_replay import current_attempt, record, step
from celery_replay.redaction import REDACTED
from celery_replay.serialization import unpack
from tests.inprocess.lab import Gate


def test_domain_events_stand_among_those_of_the_life_cycle(any_lab):
    lab = any_lab

    @step
    def check(order_id):
        record("checked", order_id=order_id)

    @lab.task(bind=True)
    def pay(self, order_id):
        check(order_id)
        self.attempt.record("paid", amount=5)

    result = pay.delay(7)
    lab.get(result)
    lab.settled(result.id)

    events = lab.events(result.id)
    assert [(event.name, event.domain) for event in events] == [
        ("published", False),
        ("received", False),
        ("started", False),
        ("checked", True),
        ("step_done", False),
        ("paid", True),
        ("succeeded", False),
    ]
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert [event.sequence for event in events] == list(range(1, 8))
    assert {event.job_id for event in events} == {result.id}
    assert {event.attempt for event in events} == {lab.job(result.id).nonce}


@pytest.mark.parametrize("name", ["name", "self", "at", "status", "domain", "attributes", "step"])
def test_an_attribute_may_have_any_name(lab, name):
    @lab.task(bind=True)
    def pay(self):
        record("seen", **{name: "of the module"})
        self.attempt.record("seen", **{name: "of the attempt"})

    result = pay.delay()
    lab.get(result)
    lab.settled(result.id)

    seen = [event.attributes for event in lab.events(result.id) if event.name == "seen"]
    assert seen == [{name: "of the module"}, {name: "of the attempt"}]


def test_secrets_are_not_written_down(lab):
    @lab.task()
    def pay():
        record("called", url="https://ann:hunter2@bank", headers={"Authorization": "Bearer hunter2hunter2"})
        raise ValueError("password=hunter2 was refused")

    result = pay.delay()
    lab.error(result)
    lab.settled(result.id)

    assert all("hunter2" not in str(event) for event in lab.events(result.id))
    assert REDACTED in lab.letter(result.id).error_message


def test_large_values_are_in_blobs(lab):
    @lab.task()
    def pay():
        record("loaded", rows=list(range(10_000)))

    result = pay.delay()
    lab.get(result)
    lab.settled(result.id)

    (event,) = [event for event in lab.events(result.id) if event.name == "loaded"]
    assert unpack(lab.store.blob(event.attributes["rows"]["blob"])) == list(range(10_000))


def test_events_of_a_running_job_can_be_read(lab):
    gate = Gate()

    @lab.task()
    def pay():
        record("first")
        gate.wait()
        record("second")

    result = pay.delay()
    gate.await_reached()
    during = lab.names(result.id)
    gate.open()
    lab.get(result)
    lab.settled(result.id)

    assert during == ["published", "received", "started", "first"]
    assert lab.names(result.id) == [*during, "second", "succeeded"]


def test_a_jobs_state_never_goes_back(lab):
    seen = []
    gate = Gate()

    @lab.task(bind=True, max_retries=3)
    def pay(self):
        seen.append(str(lab.job(self.request.id).status))
        if self.request.retries < 3:
            raise self.retry(countdown=0)
        gate.wait()

    result = pay.delay()
    gate.await_reached()
    running = str(lab.job(result.id).status)
    gate.open()
    lab.get(result)
    lab.settled(result.id)

    assert seen == ["open"] * 4
    assert running == "open"
    assert str(lab.job(result.id).status) == "succeeded"


def test_the_start_says_which_code_ran(lab):
    lab.configure(code_version="abc123")

    @lab.task(acks_late=True, max_retries=7)
    def pay():
        return 5

    result = pay.delay()
    lab.get(result)
    lab.settled(result.id)

    (started,) = [event for event in lab.events(result.id) if event.name == "started"]
    assert started.attributes["code"] == "abc123"
    assert started.attributes["max_retries"] == 7
    assert started.attributes["acks_late"] is True
    assert started.attributes["celery"].startswith("5.")


def test_a_child_is_named_in_its_parents_trace(lab):
    @lab.task()
    def child():
        return current_attempt().submission

    @lab.task()
    def parent():
        return child.delay().id

    result = parent.delay()
    child_id = lab.get(result)
    lab.settled(result.id)
    lab.settled(child_id)

    (published,) = [event for event in lab.events(result.id) if event.name == "child_published"]
    assert (published.attributes["task"], published.attributes["job"]) == (child.name, child_id)
    assert lab.job(child_id).causation_id == lab.job(result.id).submission
    assert lab.job(child_id).trace_id != lab.job(result.id).trace_id


def test_a_refusal_is_in_the_trace_with_its_reason(lab):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        return 5

    lab.get(pay.delay(5))
    result = pay.delay(5)
    lab.get(result)
    lab.settled(result.id)

    (event,) = [event for event in lab.events(result.id) if event.status == "skipped"]
    assert (event.name, event.attributes) == ("first_result", {"reason": "key_done"})


def test_a_receiver_hears_of_every_end(lab):
    from celery_replay.signals import attempt_closed

    heard = []

    def receive(sender, outcome, attempt, **_):
        heard.append((sender.name, str(outcome), attempt.generation))

    @lab.task(bind=True, max_retries=1)
    def pay(self):
        if not self.request.retries:
            raise self.retry(countdown=0)

    attempt_closed.connect(receive)
    try:
        lab.get(pay.delay())
    finally:
        attempt_closed.disconnect(receive)

    assert heard == [(pay.name, "retry_scheduled", 0), (pay.name, "succeeded", 1)]


def test_nothing_of_an_attempt_stays_in_memory(lab):
    import gc
    import weakref

    kept = []

    @lab.task(bind=True)
    def pay(self):
        kept.append(weakref.ref(self.attempt))

    for _ in range(5):
        result = pay.delay()
        lab.get(result)
        lab.settled(result.id)
    lab.idle()
    gc.collect()

    lab.wait(lambda: sum(reference() is not None for reference in kept) <= 1)
