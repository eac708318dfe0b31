"""What a job costs: round trips, and commands of the server."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from celery_replay.records import Job
from celery_replay.states import Outcome, StepState, Verdict
from celery_replay.stores.base import Pulse
from celery_replay.stores.redis import RedisStore
from tests.django_store.builders import ask, chunk, ending, step
from tests.redis_store.conftest import round_trips


@pytest.fixture
def store(private_store: RedisStore) -> RedisStore:
    """Lend a store whose connection is open, and whose scripts the server knows."""
    of, job = runs(private_store, "warm")
    private_store.claim_step(job, step(of), of.delivery)
    private_store.close(job, ending(of, Outcome.FAILED))
    of, job = runs(private_store)
    private_store.close(job, ending(of))
    private_store.flush(["nobody"])
    return private_store


def runs(store: RedisStore, key: str = "", **given: Any) -> tuple[Any, Job]:
    of = ask(key=key, **given)
    answer = store.open(of)
    assert answer.verdict is Verdict.RUN
    assert answer.facts.job is not None
    return of, answer.facts.job


@pytest.mark.parametrize("key", ["", "key"])
@pytest.mark.parametrize("canvas", [True, False])
def test_a_job_costs_two_scripts_and_nothing_else(
    store: RedisStore, server: redis.Redis, key: str, canvas: bool
) -> None:
    server.config_resetstat()
    with round_trips(server) as count:
        of, job = runs(store, key)
        assert store.close(job, ending(of, canvas=canvas, result="1"), [chunk(of, 3)]) == (True, ())
        assert count() == 2
    assert server.info("commandstats")["cmdstat_evalsha"]["calls"] == 2
    assert "cmdstat_eval" not in server.info("commandstats")


def test_a_side_effect_costs_one_script(store: RedisStore, server: redis.Redis) -> None:
    of, job = runs(store)
    with round_trips(server) as count:
        assert store.claim_step(job, step(of), of.delivery) == (True, None)
        assert count() == 1
        settled = (step(of, state=StepState.SETTLED, output="1"),)
        assert store.close(job, ending(of, steps=settled)) == (True, ())
        assert count() == 3  # the counter was looked at in between


def test_a_duplicate_costs_one_round_trip_more(store: RedisStore, server: redis.Redis) -> None:
    of, job = runs(store, "key")
    store.close(job, ending(of, result="1"))
    with round_trips(server) as count:
        assert store.open(ask(key="key")).verdict is Verdict.FIRST_RESULT
        assert count() == 2


def test_a_copy_of_what_is_done_costs_one_round_trip(store: RedisStore, server: redis.Redis) -> None:
    of, job = runs(store)
    store.close(job, ending(of, canvas=False))
    with round_trips(server) as count:
        assert store.open(of).verdict is Verdict.IGNORE
        assert count() == 1


def test_the_second_attempt_costs_one_round_trip_more_at_either_end(store: RedisStore, server: redis.Redis) -> None:
    of, job = runs(store, "key")
    store.close(job, ending(of, Outcome.RETRY_SCHEDULED))
    with round_trips(server) as count:
        again = ask(of.delivery.submission, "key", 1)
        answer = store.open(again)
        assert answer.verdict is Verdict.RUN
        assert count() == 2
    with round_trips(server) as count:
        assert store.close(answer.facts.job, ending(again, result="1"), [chunk(again)]) == (True, ())
        assert count() == 2


def test_leases_on_resources_cost_one_round_trip_more_at_either_end(store: RedisStore, server: redis.Redis) -> None:
    with round_trips(server) as count:
        of, job = runs(store, resources=("order:7", "order:8"))
        assert count() == 2
    with round_trips(server) as count:
        assert store.close(job, ending(of, resources=of.resources)) == (True, ())
        assert count() == 2


def test_the_canvases_of_many_jobs_are_noted_in_one_go(store: RedisStore, server: redis.Redis) -> None:
    many = [runs(store) for _ in range(50)]
    for of, job in many:
        store.close(job, ending(of, canvas=True))
    with round_trips(server) as count:
        store.flush([of.delivery.submission for of, _ in many], [chunk(of, 9) for of, _ in many])
        assert count() <= 2
    found = store.jobs_named([of.delivery.submission for of, _ in many])
    assert [job.canvas_advanced for job in found.values()] == [True] * 50


def test_the_leases_of_many_attempts_cost_few_round_trips(store: RedisStore, server: redis.Redis) -> None:
    many = [runs(store)[1] for _ in range(20)]
    pulses = [Pulse(submission=job.submission, nonce=job.nonce, claim=None, lease_us=1) for job in many]
    with round_trips(server) as count:
        assert store.renew(pulses) == set()
        # The server reads what is written at the end in pieces of 16 kB.
        assert count() <= 23
