"""The store goes away: at OPEN, in the body, at CLOSE, for a moment or for long. Jobs and workers stay well."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest

from celery_replay.states import Outcome
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.sending import send
from tests.end_to_end.stage import Stage, fresh, wait_for
from tests.support.tcp_proxy import TcpProxy
from tests.support.workers import WorkerProcess

LONGER_THAN_A_LEASE_S = 3
pytestmark = pytest.mark.timeout(300)


class Outage:
    """A worker that reaches its store through a proxy, and the store's own address for the test."""

    def __init__(self, stage: Stage, proxy: TcpProxy) -> None:
        self.stage = stage
        self.proxy = proxy
        self.worker = self.start(concurrency=2)

    def start(self, *queues: str, **options: Any) -> WorkerProcess:
        """Start a worker behind the proxy."""
        env = {"REPLAY_DJANGO_DATABASE_URL": self.proxy.through(self.stage.database)}
        return self.stage.start(*queues, env=env, ready_timeout_s=60, **options)

    def send(self, name: str, *args: Any, callback: str = "", **options: Any) -> str:
        """Publish a job."""
        return send(self.stage, name, *args, callback=callback, **options)

    def begun(self, reference: str) -> int:
        """Count how often the body began."""
        return self.stage.effects(reference, "begun")

    def spooled(self) -> list[Path]:
        """Return what waits on disk."""
        return list(Path(self.stage.settings["replay_spool_dir"]).glob("*.json"))


@pytest.fixture(scope="module")
def lent(make_stage: StageMaker, postgres_dsn: str) -> Iterator[Outage]:
    """Lend a worker behind a proxy, for the whole module."""
    parts = urlsplit(postgres_dsn)
    settings = {"replay_lease_ttl": 2}
    with (
        make_stage("jobs", settings=settings) as stage,
        TcpProxy(str(parts.hostname), parts.port or 5432) as proxy,
    ):
        yield Outage(stage, proxy)


@pytest.fixture
def outage(lent: Outage) -> Iterator[Outage]:
    """Lend the worker behind the proxy, with its store in reach; whatever a test does, it is mended afterwards."""
    lent.proxy.forward()
    yield lent
    lent.proxy.forward()


def _children(worker: WorkerProcess) -> set[int]:
    return set(worker.pool_pids())


@pytest.mark.parametrize("task", ["plain", "late"])
def test_a_task_that_declares_nothing_runs_while_the_store_is_down(outage: Outage, task: str) -> None:
    reference = fresh()
    outage.proxy.refuse()
    assert outage.stage.result(outage.send(task, reference))
    assert outage.stage.effects(reference) == 1


def test_a_declared_task_waits_until_the_store_is_back(outage: Outage) -> None:
    reference = fresh()
    outage.proxy.refuse()
    task_id = outage.send("keyed", reference, callback=reference)
    time.sleep(LONGER_THAN_A_LEASE_S)
    assert outage.stage.state(task_id) == "PENDING"
    assert outage.begun(reference) == 0
    outage.proxy.forward()
    outage.stage.result(task_id)
    outage.stage.settle()
    assert (outage.begun(reference), outage.stage.effects(reference)) == (1, 1)
    assert outage.stage.effects(reference, "after") == 1
    assert outage.stage.job(task_id=task_id).generation == 0, "waiting must not spend a retry"


@pytest.mark.parametrize("task", ["plain_held", "keyed_held"])
@pytest.mark.parametrize("seconds", [0, LONGER_THAN_A_LEASE_S])
def test_an_outage_in_the_body_does_not_matter_if_it_is_over_at_close(
    outage: Outage, task: str, seconds: float
) -> None:
    reference = fresh()
    task_id = outage.send(task, reference, callback=reference)
    wait_for(lambda: outage.begun(reference), "body begins")
    outage.proxy.refuse()
    time.sleep(seconds)
    outage.proxy.forward()
    outage.stage.sign(reference)
    assert outage.stage.result(task_id) == reference
    outage.stage.settle()
    assert (outage.begun(reference), outage.stage.effects(reference), outage.stage.effects(reference, "after")) == (
        1,
        1,
        1,
    )
    assert outage.stage.job(task_id=task_id).status is Outcome.SUCCEEDED
    assert not outage.stage.letters(task_id)


@pytest.mark.parametrize("task", ["plain_held", "keyed_held"])
def test_a_close_that_finds_no_store_waits_on_disk_and_is_delivered_later(outage: Outage, task: str) -> None:
    reference = fresh()
    task_id = outage.send(task, reference, callback=reference)
    wait_for(lambda: outage.begun(reference), "body begins")
    wait_for(lambda: not outage.spooled(), "what earlier outages left is delivered")
    outage.proxy.refuse()
    outage.stage.sign(reference)
    assert outage.stage.result(task_id) == reference, "Celery goes on"
    # Its callback runs unprotected by now, and may have an end to tell, too.
    assert outage.spooled()
    outage.proxy.forward()
    wait_for(lambda: not outage.spooled(), "delivered")
    outage.stage.settle()
    assert outage.stage.job(task_id=task_id).status is Outcome.SUCCEEDED
    assert (outage.begun(reference), outage.stage.effects(reference), outage.stage.effects(reference, "after")) == (
        1,
        1,
        1,
    )
    assert not outage.stage.letters(task_id)


def test_the_trace_of_a_job_that_closed_on_disk_is_complete(outage: Outage) -> None:
    reference = fresh()
    task_id = outage.send("plain_held", reference)
    wait_for(lambda: outage.begun(reference), "body begins")
    outage.proxy.refuse()
    outage.stage.sign(reference)
    outage.stage.result(task_id)
    outage.proxy.forward()
    wait_for(lambda: not outage.spooled(), "delivered")
    outage.stage.settle()
    names = outage.stage.event_names(outage.stage.job(task_id=task_id))
    assert {"published", "received", "started", "succeeded"} <= set(names)


@pytest.mark.parametrize("task", ["plain", "keyed"])
def test_connections_that_the_server_ends_between_tasks_are_replaced(outage: Outage, task: str) -> None:
    for _ in range(3):
        reference = fresh()
        assert outage.stage.result(outage.send(task, reference)) in _children(outage.worker)
        assert outage.stage.effects(reference) == 1
        _terminate_backends(outage)


@pytest.mark.parametrize("task", ["plain_held", "keyed_held"])
def test_connections_that_the_server_ends_in_the_body_are_replaced(outage: Outage, task: str) -> None:
    reference = fresh()
    task_id = outage.send(task, reference)
    wait_for(lambda: outage.begun(reference), "body begins")
    _terminate_backends(outage)
    outage.stage.sign(reference)
    assert outage.stage.result(task_id) == reference
    outage.stage.settle()
    assert outage.stage.job(task_id=task_id).status is Outcome.SUCCEEDED
    assert outage.begun(reference) == 1


def test_connections_that_end_all_the_time_make_no_task_fail_and_none_run_twice(outage: Outage) -> None:
    references = [fresh() for _ in range(60)]
    task_ids = [outage.send("keyed" if number % 2 else "plain", r) for number, r in enumerate(references)]
    deadline = time.monotonic() + 60
    while any(outage.stage.state(task_id) == "PENDING" for task_id in task_ids):
        _terminate_backends(outage)
        time.sleep(0.05)
        assert time.monotonic() < deadline
    assert {outage.stage.state(task_id) for task_id in task_ids} == {"SUCCESS"}
    assert [outage.stage.effects(reference) for reference in references] == [1] * len(references)


def test_the_pool_stays_up_through_an_outage(outage: Outage) -> None:
    before = _children(outage.worker)
    outage.proxy.refuse()
    outage.stage.result(outage.send("plain", fresh()))
    outage.proxy.forward()
    outage.stage.result(outage.send("keyed", fresh()))
    assert _children(outage.worker) == before


@pytest.mark.parametrize(
    "fault",
    [pytest.param(TcpProxy.refuse, id="refuses"), pytest.param(TcpProxy.swallow, id="swallows")],
)
def test_a_worker_starts_while_its_store_is_out_of_reach(outage: Outage, fault: Callable[[TcpProxy], None]) -> None:
    queue, reference = f"{outage.stage.queue}-start", fresh()
    fault(outage.proxy)
    worker = outage.start(queue, concurrency=2)
    children = _children(worker)
    time.sleep(2)
    assert _children(worker) == children
    assert outage.stage.result(outage.send("plain", reference, queue=queue)) in children
    outage.proxy.forward()
    assert outage.stage.result(outage.send("keyed", fresh(), queue=queue)) in children
    worker.kill()


@pytest.mark.parametrize("task", ["plain", "keyed"])
def test_a_store_that_never_answers_is_a_store_that_is_down(outage: Outage, task: str) -> None:
    outage.stage.result(outage.send("plain", fresh()))
    reference = fresh()
    outage.proxy.swallow()
    task_id = outage.send(task, reference)
    if task == "keyed":
        time.sleep(20)
        assert outage.begun(reference) == 0
        outage.proxy.forward()
    assert outage.stage.result(task_id)
    assert outage.stage.effects(reference) == 1


def test_a_store_that_stops_answering_in_the_body_does_not_hold_the_task(outage: Outage) -> None:
    reference = fresh()
    task_id = outage.send("plain_held", reference)
    wait_for(lambda: outage.begun(reference), "body begins")
    outage.proxy.swallow()
    outage.stage.sign(reference)
    assert outage.stage.result(task_id) == reference
    outage.proxy.forward()
    wait_for(lambda: not outage.spooled(), "delivered")
    outage.stage.settle()
    assert outage.stage.job(task_id=task_id).status is Outcome.SUCCEEDED


def test_a_workers_parent_opens_no_connection_to_the_store(outage: Outage) -> None:
    assert not _connections(outage.worker.pid, outage.proxy.port)
    children = {outage.stage.result(outage.send("keyed", fresh())) for _ in range(10)}
    assert any(_connections(pid, outage.proxy.port) for pid in children)
    assert not _connections(outage.worker.pid, outage.proxy.port)


def test_five_hundred_tasks_over_four_children_meet_no_connection_error(outage: Outage) -> None:
    queue = f"{outage.stage.queue}-many"
    worker = outage.start(queue, concurrency=4)
    references = [fresh() for _ in range(500)]
    for number, reference in enumerate(references):
        outage.send("keyed" if number % 2 else "plain", reference, queue=queue)
    wait_for(lambda: all(outage.stage.effects(reference) for reference in references), "all effects", 90)
    outage.stage.settle()
    assert {outage.stage.effects(reference) for reference in references} == {1}
    assert "Error" not in worker.log()
    # The worker lists its tasks, ours for dry runs among them.
    assert "replay." not in worker.log().replace("celery_replay.dry_run", "")
    worker.kill()


def test_a_child_that_is_forked_while_locks_are_held_runs_its_first_task(outage: Outage) -> None:
    queue = f"{outage.stage.queue}-fork"
    worker = outage.stage.start(queue, app="locked_fork", concurrency=1, ready_timeout_s=60)
    first = outage.stage.result(outage.send("keyed", fresh(), queue=queue))
    assert worker.kill_pool() == [first]
    assert outage.stage.result(outage.send("keyed", fresh(), queue=queue)) not in (first, worker.pid)
    worker.kill()


def _terminate_backends(outage: Outage) -> None:
    # The test's own producer is spared: it is no part of what is tried.
    with psycopg.connect(outage.stage.database, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def _connections(pid: int, port: int) -> list[Any]:
    return [c for c in psutil.Process(pid).net_connections("tcp") if c.raddr and c.raddr.port == port]
