"""SQS by its protocol: a long job's message stays with its worker, a dead worker's comes back soon."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kombu import Connection

from celery_replay import message_leases, signals
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.sending import send
from tests.end_to_end.stage import Stage, fresh, wait_for
from tests.support import sqs_server

VISIBILITY_TIMEOUT_S = 3
LONG_S = 2 * VISIBILITY_TIMEOUT_S + 1
MANY = 12
"""More than SQS takes in one call."""


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with ExitStack() as stack:
        yield sqs_server.url(stack)


@pytest.fixture(scope="module", params=["prefork", "solo"])
def stage(request: pytest.FixtureRequest, broker: str, make_stage: StageMaker) -> Iterator[Stage]:
    settings = {
        "broker_transport_options": sqs_server.transport_options(VISIBILITY_TIMEOUT_S),
        # It has no broadcasts.
        "worker_enable_remote_control": False,
        "replay_lease_ttl": 3,
    }
    with make_stage("jobs", broker=broker, settings=settings) as lent:
        for _ in range(2):
            lent.start(pool=request.param, ready_timeout_s=60)
        yield lent


def test_a_job_longer_than_the_visibility_timeout_runs_once(stage: Stage) -> None:
    running, waiting = fresh(), fresh()
    sent = [
        send(stage, "late", running, LONG_S),
        # Held from its arrival on, like one whose time has not come.
        send(stage, "late", waiting, countdown=LONG_S),
    ]
    for task_id in sent:
        stage.result(task_id)
    # A second holder would have begun within this time.
    time.sleep(VISIBILITY_TIMEOUT_S + 1)
    stage.settle()
    for task_id, reference in zip(sent, (running, waiting), strict=True):
        assert stage.effects(reference) == 1
        assert stage.event_names(stage.job(task_id=task_id)).count("received") == 1


def test_the_job_of_a_killed_worker_is_done_by_the_other_one(stage: Stage) -> None:
    reference = fresh()
    task_id = send(stage, "late", reference, 2)
    wait_for(lambda: stage.effects(reference, "begun") == 1, "one has begun")
    (holder,) = {job.worker for job in stage.jobs(task_id=task_id)}
    (worker,) = (worker for worker in stage.workers.started if worker.hostname == holder)
    worker.kill()
    stage.result(task_id)
    stage.settle()
    assert (stage.effects(reference, "begun"), stage.effects(reference)) == (2, 1)
    worker.start()


@pytest.fixture
def channel(broker: str) -> Iterator[Any]:
    with Connection(broker, transport_options=sqs_server.transport_options(600)) as connection:
        yield connection.default_channel


def _queue(channel: Any, seconds: int) -> tuple[str, str]:
    name = fresh()
    client = channel.sqs()
    return name, client.create_queue(QueueName=name, Attributes={"VisibilityTimeout": str(seconds)})["QueueUrl"]


def test_a_queue_with_a_shorter_time_of_its_own_sets_the_pace_and_is_told_of(
    channel: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (short, _), (same, _) = _queue(channel, 30), _queue(channel, 600)
    with caplog.at_level(logging.WARNING, "celery_replay"):
        assert message_leases.seconds_of(channel, [short, same]) == 30
    told = [record for record in caplog.records if record.message == "replay.visibility_timeout_differs"]
    assert [(record.__dict__["queue"], record.__dict__["queue_s"]) for record in told] == [(short, 30)]


def test_all_that_is_held_is_renewed_and_nothing_else(channel: Any) -> None:
    queue, url = _queue(channel, 5)
    with channel.connection.client.Producer() as producer:
        for number in range(MANY + 2):
            producer.publish({"number": number}, routing_key=queue)
    held = [channel.basic_get(queue) for _ in range(MANY + 2)]
    held.pop().ack()
    renewal = message_leases.renewal_of(channel)
    assert renewal is not None
    gone = held.pop()
    channel.sqs().delete_message(QueueUrl=url, ReceiptHandle=gone.delivery_tag)
    assert message_leases.renew(renewal, channel) == MANY
    time.sleep(5.5)
    assert channel.basic_get(queue) is None, "the queue's own time is over, the renewed one is not"


def test_a_server_that_is_gone_costs_a_renewal_and_no_job() -> None:
    with ExitStack() as stack:
        url = sqs_server.url(stack)
        options = sqs_server.transport_options(600) | {"client-config": {"retries": {"max_attempts": 0}}}
        with Connection(url, transport_options=options) as connection:
            channel: Any = connection.default_channel
            queue, _ = _queue(channel, 1)
            connection.Producer().publish("held", routing_key=queue)
            assert channel.basic_get(queue) is not None
            stack.close()
            renewal = message_leases.renewal_of(channel)
            assert renewal is not None
            before = signals.failed_observations
            assert message_leases.renew(renewal, channel) == 0
            assert signals.failed_observations == before + 1
            channel.qos._delivered.clear()
