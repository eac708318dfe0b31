"""Celery's retry is the next attempt of the same job: nothing of it may get lost or grow on the way."""

from __future__ import annotations

import logging

import pytest
from celery.backends.base import Backend
from celery.exceptions import Ignore

from celery_replay import Outcome, parking
from celery_replay.headers import HEADER


def flaky(lab, fails, **options):
    @lab.task(bind=True, **options)
    def pay(self, order_id=5):
        lab.log.append((order_id, self.request.retries))
        if self.request.retries < fails:
            raise self.retry(countdown=0, exc=ValueError("down"))
        return "paid"

    return pay


def test_a_retried_job_is_one_job_with_several_attempts(any_lab):
    lab = any_lab
    pay = flaky(lab, 2)

    result = pay.delay()

    assert lab.get(result) == "paid"
    job = lab.settled(result.id)
    attempts = lab.store.attempts(job.submission)
    assert [attempt.outcome for attempt in attempts] == ["retry_scheduled", "retry_scheduled", "succeeded"]
    assert [attempt.generation for attempt in attempts] == [0, 1, 2]
    assert len({attempt.nonce for attempt in attempts}) == 3
    assert job.attempts == 3


def test_a_keyed_job_does_not_block_its_own_retry(lab):
    pay = flaky(lab, 3, idempotency_key="pay:{order_id}", max_retries=3)

    assert lab.get(pay.delay(5)) == "paid"
    assert [retries for _, retries in lab.log] == [0, 1, 2, 3]


def test_autoretry_with_backoff_runs_as_often_as_it_may(lab):
    @lab.task(autoretry_for=(ValueError,), retry_backoff=True, retry_backoff_max=0, retry_jitter=False, max_retries=3)
    def pay():
        lab.log.append("tried")
        raise ValueError("down")

    result = pay.delay()

    assert isinstance(lab.error(result), ValueError)
    assert lab.log == ["tried"] * 4
    lab.settled(result.id)
    assert lab.letter(result.id).attempts == 4


def test_a_broad_autoretry_does_not_multiply_explicit_retries(lab):
    @lab.task(bind=True, autoretry_for=(Exception,), max_retries=10, default_retry_delay=0, retry_backoff=False)
    def pay(self):
        lab.log.append("tried")
        raise self.retry(countdown=0)

    result = pay.delay()
    lab.error(result)
    lab.settled(result.id)
    lab.idle()

    assert len(lab.log) == 11
    assert len(lab.letters()) == 1


def test_new_arguments_given_to_a_retry_are_seen(lab):
    @lab.task(bind=True, autoretry_for=(Exception,), max_retries=5)
    def count(self, n):
        lab.log.append(n)
        if n < 3:
            raise self.retry(args=[n + 1], countdown=0)
        return n

    assert lab.get(count.delay(0)) == 3
    assert lab.log == [0, 1, 2, 3]


def test_new_arguments_of_a_keyed_job_are_no_conflict(lab):
    @lab.task(bind=True, idempotency_key="count:{name}", max_retries=5)
    def count(self, name, n=0):
        lab.log.append(n)
        if n < 2:
            raise self.retry(args=[name], kwargs={"n": n + 1}, countdown=0)
        return n

    assert lab.get(count.delay("a")) == 2
    assert lab.log == [0, 1, 2]


@pytest.mark.parametrize("kind", ["explicit", "automatic"])
def test_headers_are_equal_on_every_attempt(lab, kind):
    @lab.task(bind=True, autoretry_for=(ValueError,), max_retries=3, default_retry_delay=0)
    def pay(self):
        headers = dict(self.request.headers)
        stamp = {key: value for key, value in headers.pop(HEADER).items() if key != "a"}
        lab.log.append((headers, stamp))
        if self.request.retries < 3:
            if kind == "explicit":
                raise self.retry(countdown=0)
            raise ValueError("down")

    sent = {"tenant": "x", "trace": {"id": "abc"}, "empty": None}
    lab.get(pay.apply_async(headers=sent))

    assert len(lab.log) == 4
    for headers, stamp in lab.log:
        assert {key: headers.get(key) for key in sent} == sent
        assert stamp == lab.log[0][1]


def test_nested_headers_of_other_integrations_survive_and_carry_the_stamp(lab):
    @lab.task(bind=True, max_retries=2)
    def pay(self):
        lab.log.append((self.attempt.submission, self.request.headers.get("sentry-trace")))
        if self.request.retries < 2:
            raise self.retry(countdown=0)

    nested = {"sentry-trace": "abc"}
    result = pay.apply_async(headers={"sentry-trace": "abc", "headers": nested})
    lab.get(result)

    assert len(lab.log) == 3
    assert len(set(lab.log)) == 1
    assert lab.log[0][1] == "abc"


@pytest.mark.parametrize("headers", [None, {}, {"headers": None}, {"headers": {}}])
def test_missing_header_tables_do_not_raise(lab, headers):
    pay = flaky(lab, 1)

    assert lab.get(pay.apply_async(headers=headers)) == "paid"


@pytest.mark.parametrize("headers", [{}, {"headers": {"trace": "abc"}, "trace": "abc"}], ids=["flat", "nested"])
def test_the_message_stays_as_large_as_it_was_over_fifty_retries(lab, headers):
    pay = flaky(lab, 50, max_retries=50)

    result = pay.apply_async(headers=headers)
    lab.get(result)

    retries = {message.headers["retries"]: message for message in lab.messages(result.id)}
    assert len(retries) == 51
    # From the second on Celery names a parent; the number of retries grows by a digit.
    sizes = [message.size for number, message in retries.items() if number]
    assert max(sizes) - min(sizes) <= 1
    assert set(retries[50].headers) == set(retries[1].headers)


def test_what_a_worker_noted_of_a_message_is_not_sent_on(lab):
    pay = flaky(lab, 1)

    result = pay.delay()
    lab.get(result)

    # A retry that comes before its predecessor has ended is parked, and sent a second time.
    first, *retries = lab.messages(result.id)
    assert retries
    assert all(set(retry.headers) - set(first.headers) <= {"parent_id"} for retry in retries)


def test_a_retry_is_no_error_until_the_last(lab, caplog):
    pay = flaky(lab, 3)

    with caplog.at_level(logging.INFO):
        result = pay.delay()
        lab.get(result)
        lab.settled(result.id)

    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert lab.letters() == []
    assert "dead_lettered" not in lab.names(result.id)


def test_a_job_that_exhausts_its_retries_has_one_letter_with_all_attempts(lab):
    pay = flaky(lab, 99, max_retries=2)

    result = pay.delay()

    assert isinstance(lab.error(result), ValueError)
    lab.settled(result.id)
    (letter,) = lab.letters()
    assert (letter.attempts, letter.error_type, letter.error_message) == (3, "builtins.ValueError", "down")
    assert lab.names(result.id).count("retry_scheduled") == 2
    assert lab.names(result.id).count("failed") == 1


def test_a_key_is_kept_for_the_retry_that_was_scheduled(lab):
    @lab.task(bind=True, idempotency_key="pay:{order_id}", max_retries=1)
    def pay(self, order_id):
        lab.log.append((self.request.id, self.request.retries))
        if not self.request.retries and self.request.id == first_id:
            raise self.retry(countdown=0.3)
        return self.request.id

    first_id = "first"
    first = pay.apply_async((5,), task_id=first_id)
    lab.wait(lambda: lab.jobs(first_id) and lab.job(first_id).status is Outcome.RETRY_SCHEDULED)
    second = pay.delay(5)

    assert lab.get(second) == lab.get(first) == "first"
    assert lab.log == [("first", 0), ("first", 1)]


def test_a_retry_that_came_early_starts_after_celery_has_stored_that_one_was_scheduled(lab, monkeypatch):

    order = []
    publish, store = parking.publish, Backend.mark_as_retry

    def noted_publish(*args, **kwargs):
        order.append("published")
        return publish(*args, **kwargs)

    def noted_store(*args, **kwargs):
        order.append("stored")
        return store(*args, **kwargs)

    @lab.task(bind=True, max_retries=1)
    def pay(self):
        if self.request.retries:
            raise ValueError("declined")
        try:
            raise self.retry(countdown=0)
        finally:
            # The retry is received while this attempt still runs.
            lab.wait(lambda: list(lab.store.rows()), "parking")

    monkeypatch.setattr(parking, "publish", noted_publish)
    monkeypatch.setattr(Backend, "mark_as_retry", noted_store)
    result = pay.delay()

    assert isinstance(lab.error(result), ValueError)
    assert order == ["stored", "published"]


def test_a_retry_that_can_not_be_published_fails_the_job(lab, monkeypatch):
    @lab.task(bind=True)
    def pay(self):
        lab.log.append("tried")
        with monkeypatch.context() as patch:
            patch.setattr(type(self), "apply_async", lambda *_, **__: 1 / 0)
            raise self.retry(countdown=0)

    result = pay.delay()
    lab.wait(lab.letters)

    assert lab.job(result.id).status is Outcome.FAILED
    assert lab.letters()[0].reason == "rejected"


def test_events_tell_the_attempts_apart_on_one_timeline(lab):
    pay = flaky(lab, 1)

    result = pay.delay()
    lab.get(result)
    lab.settled(result.id)

    of_attempt = {}
    for event in lab.events(result.id):
        of_attempt.setdefault(event.attempt, []).append(event.name)
    # A retry that comes before its predecessor has ended is parked, and comes again.
    ran = [tuple(names) for names in of_attempt.values() if "started" in names]
    assert sorted(ran) == [
        ("published", "received", "started", "retry_scheduled"),
        ("published", "received", "started", "succeeded"),
    ]


def test_a_retry_that_is_published_without_raising_runs(lab):
    @lab.task(bind=True, max_retries=3)
    def pay(self):
        lab.log.append(self.request.retries)
        if self.request.retries < 1:
            self.retry(countdown=0.05, throw=False)
        return "paid"

    result = pay.delay()
    lab.wait(lambda: lab.log == [0, 1])
    lab.settled(result.id)

    attempts = lab.store.attempts(lab.job(result.id).submission)
    assert [attempt.outcome for attempt in attempts] == [Outcome.RETRY_SCHEDULED, Outcome.SUCCEEDED]


def test_a_task_that_publishes_itself_anew_under_its_id_runs_again(lab):
    @lab.task(bind=True)
    def poll(self, times):
        lab.log.append(times)
        if times:
            self.apply_async((times - 1,), task_id=self.request.id)
            raise Ignore

    result = poll.delay(2)

    lab.wait(lambda: lab.log == [2, 1, 0])
    lab.wait(lambda: [job for job in lab.jobs(result.id) if job.status is Outcome.SUCCEEDED])
    assert sorted(job.status for job in lab.jobs(result.id)) == [Outcome.IGNORED, Outcome.IGNORED, Outcome.SUCCEEDED]
