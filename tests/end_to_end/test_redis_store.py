"""Without Django: records in the broker's Redis, with workers that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from celery_replay.runtime import reset, runtime_of
from celery_replay.states import LetterState, Outcome
from celery_replay.stores.base import Store
from celery_replay.trace import timeline
from tests.end_to_end.apps import redis_app
from tests.end_to_end.stage import wait_for
from tests.support.counting_server import CountingServer
from tests.support.redis_server import RedisServer
from tests.support.workers import WorkerProcess, Workers

APP = "tests.end_to_end.apps.redis_app"


@pytest.fixture
def app(private_redis: RedisServer) -> Iterator[Celery]:
    url = private_redis.url
    # The workers find it by themselves; in this process Django is at hand.
    redis_app.app.conf.update(broker_url=url, result_backend=url, replay_store=url)
    reset(redis_app.app)
    yield redis_app.app
    reset(redis_app.app)


@pytest.fixture
def store(app: Celery) -> Store:
    return runtime_of(app).store


@pytest.fixture
def two_workers(app: Celery, workers: Workers, private_redis: RedisServer) -> list[WorkerProcess]:
    given = {"broker_url": private_redis.url, "result_backend": private_redis.url}
    return [workers.start(APP, **given) for _ in range(2)]


def replay(app: Celery, *arguments: str) -> Any:
    """Run a command and return its JSON."""
    env = {**os.environ, "CELERY_BROKER_URL": app.conf.broker_url, "CELERY_RESULT_BACKEND": app.conf.result_backend}
    command = [sys.executable, "-m", "celery", "-A", APP, "replay", *arguments, "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


def test_a_project_without_django_has_its_records_in_the_brokers_redis(
    app: Celery,
    store: Store,
    two_workers: list[WorkerProcess],
    private_redis: RedisServer,
    counting_server: CountingServer,
) -> None:
    effect = f"{counting_server.url}/charged"

    # One worker is killed, steward and all but the message: the other one gets that, and the effect is had once.
    killed = redis_app.charge.delay("a", f"{effect}?reference=a", dies=1)
    assert killed.get(timeout=30) == "a charged"
    job = store.find_jobs(task_id=killed.id)[0]
    assert (job.status, job.attempts) == (Outcome.SUCCEEDED, 2)
    assert [attempt.outcome for attempt in store.attempts(job.submission)] == [Outcome.UNKNOWN, Outcome.SUCCEEDED]

    assert redis_app.charge.delay("a", f"{effect}?reference=a", dies=1).get(timeout=30) == "a charged"
    assert counting_server.effects("/charged", "a") == 1

    # One part of the chord is a duplicate.
    assert redis_app.charge_all(["b", "c", "b"]).get(timeout=30) == 3

    failed = redis_app.fail.delay("no")
    assert str(failed.get(timeout=30, propagate=False)) == "no"
    (letter,) = store.letters(state=LetterState.OPEN)
    assert (letter.task_id, letter.error_message) == (failed.id, "no")
    wait_for(lambda: "dead_lettered" in {event.name for event in timeline(store, letter.trace_id)}, "its last event")

    # The steward of the worker that was killed had led, perhaps.
    status = wait_for(lambda: (found := replay(app, "status"))["healthy"] and found, "the next leader")
    assert status["store"] == f"{private_redis.url}, keys {{celery-replay}}:*"
    assert replay(app, "dlq", "list")["task_id"] == failed.id
    assert redis_app.modules.delay().get(timeout=30) == []
