"""A store in Redis that forgets a job while its body runs: the body is told, and the job is done in the end."""

from __future__ import annotations

import time

import pytest
import redis

from celery_replay import Outcome, OwnershipLost, step
from celery_replay.states import Reason
from celery_replay.stores.redis import RedisStore

PAUSE_S = 3
PATIENCE_S = 20


@pytest.fixture
def forgetful(lab, private_redis):
    store = RedisStore(private_redis.url, lease_ttl_max=PAUSE_S)
    lab.use(store)
    with redis.Redis.from_url(private_redis.url) as client:
        yield lab, client
    store.close_connections()


def comes_again(lab, condition):
    lab.wait(lambda: (lab.release_due(), condition())[1], "its coming again")


def looks(attempt):
    """Look at once, as a body does that cares."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        attempt.check()
        time.sleep(0.02)


@pytest.mark.parametrize("told_by", ["check", "step"])
def test_a_body_whose_resource_was_forgotten_is_told_and_its_job_runs_again_after_the_pause(forgetful, told_by):
    lab, client = forgetful
    tokens, lost, effects = [], [], []

    @step(side_effect=True)
    def charge():
        effects.append("charged")

    @lab.task(bind=True, resources=["order:7"], lease_ttl=1, acks_late=True)
    def ship(self):
        tokens.append((time.monotonic(), self.attempt.fence_of("order:7")))
        if len(tokens) > 1:
            return "shipped"
        client.flushall()
        try:
            if told_by == "check":
                looks(self.attempt)
            else:
                charge()
        except OwnershipLost:
            lost.append(self.attempt.is_lost)
            raise
        return "never"

    result = ship.delay()
    comes_again(lab, lambda: lab.jobs(result.id) and lab.job(result.id).status is Outcome.SUCCEEDED)
    assert lab.get(result) == "shipped"
    assert (len(lost), effects) == (1, [])
    (began, first), (again, second) = tokens
    assert second > first
    assert again - began >= PAUSE_S - 0.5
    assert lab.letters() == []


def test_others_wait_until_the_forgotten_holder_must_know(forgetful):
    lab, client = forgetful
    spans = {}

    @lab.task(bind=True, resources=["order:7"], lease_ttl=1, acks_late=True)
    def ship(self, name):
        began = time.monotonic()
        try:
            if name == "first" and name not in spans:
                client.flushall()
                other.append(ship.delay("second"))
                looks(self.attempt)
        finally:
            spans[name] = (began, time.monotonic())

    other = []
    ship.delay("first")
    lab.wait(lambda: other and "first" in spans, "the end of the first")
    lab.wait(lambda: any(row.reason is Reason.GRANTS_PAUSED for row in lab.store.rows()), "the second one waits")
    first = spans["first"]
    comes_again(lab, lambda: "second" in spans)
    assert spans["second"][0] > first[1]


def test_jobs_that_have_nothing_to_lose_run_on(forgetful):
    lab, client = forgetful

    @lab.task(idempotency_key="{number}")
    def add(number):
        return number + 1

    assert lab.get(add.delay(1)) == 2
    client.flushall()
    assert lab.get(add.delay(2)) == 3
    assert lab.store.overview().paused is not None
