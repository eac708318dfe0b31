"""Every pool: what it runs, renews, refuses, limits and ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from celery import chord

from celery_replay.states import Outcome, Reason
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import PATIENCE_S, Stage, fresh, references, wait_for
from tests.support.workers import WorkerProcess

CONCURRENCY = {"prefork": 3, "threads": 16, "solo": 1, "gevent": 30}
POOLS = list(CONCURRENCY)
STORE_CONNECTIONS = 4
"""As many as one process opens for the store at most."""


@dataclass
class Pools:
    """A worker of each pool, each with a queue of its own."""

    stage: Stage
    workers: dict[str, WorkerProcess]

    def send(self, pool: str, task: str, *args: Any, **options: Any) -> str:
        """Publish to one pool's queue."""
        return str(self.stage.web(_send, task, args, {"queue": self.queue(pool), **options}))

    def queue(self, pool: str) -> str:
        return f"{self.stage.queue}-{pool}"


def _send(app: Any, task: str, args: tuple[Any, ...], options: dict[str, Any]) -> str:
    return str(app.signature(task, args).apply_async(**options).id)


@pytest.fixture(scope="module")
def pools(make_stage: StageMaker) -> Iterator[Pools]:
    with make_stage("pool_app", settings={"replay_lease_ttl": 3}) as stage, ThreadPoolExecutor() as starter:
        lent = Pools(stage, {})

        def start(pool: str) -> WorkerProcess:
            return stage.start(
                lent.queue(pool), pool=pool, concurrency=CONCURRENCY[pool], env={"PGAPPNAME": f"replay-{pool}"}
            )

        lent.workers.update(zip(POOLS, starter.map(start, POOLS), strict=True))
        yield lent


@pytest.fixture
def stage(pools: Pools) -> Stage:
    """Lend the stage, whose logs are shown below a failure."""
    return pools.stage


@pytest.mark.parametrize("pool", POOLS)
def test_a_job_runs_and_a_duplicate_by_key_has_the_first_result(pools: Pools, stage: Stage, pool: str) -> None:
    key, link = references(2)
    first = pools.send(pool, "order", key, 0.3)
    second = pools.send(pool, "order", key, 0.3, link=_link(stage, pool, link))
    assert [stage.result(first), stage.result(second)] == [key, key]
    assert stage.result(pools.send(pool, "order", key, 0.3)) == key
    wait_for(lambda: stage.effects(link), "link called")
    stage.settle()
    assert (stage.effects(key), stage.effects(link)) == (1, 1)
    assert pool in stage.job(task_id=first).worker


def _link(stage: Stage, pool: str, reference: str) -> dict[str, Any]:
    link: dict[str, Any] = stage.web(_signature, "after", reference, f"{stage.queue}-{pool}")
    return link


def _signature(app: Any, task: str, reference: str, queue: str) -> dict[str, Any]:
    return dict(app.signature(task, (reference,), options={"queue": queue}))


@pytest.mark.parametrize("pool", POOLS)
def test_a_retry_is_the_same_job_and_the_trace_has_what_the_body_recorded(
    pools: Pools, stage: Stage, pool: str
) -> None:
    name = fresh()
    retried = pools.send(pool, "flaky", name, 2)
    noted = pools.send(pool, "noted", name)
    assert stage.result(retried) == name
    assert stage.result(noted) > 1_000_000
    stage.settle()
    job = stage.job(task_id=retried)
    assert (stage.effects(name, "tries"), stage.effects(name)) == (3, 1)
    assert (job.generation, job.attempts, job.status) == (2, 3, Outcome.SUCCEEDED)
    ours = [event for event in stage.events(stage.job(task_id=noted)) if event.domain]
    assert [event.name for event in ours] == ["looked_up", "decided"]
    assert (ours[0].attributes, ours[1].attributes) == ({"reference": name}, {"answer": 42})


@pytest.mark.parametrize("pool", POOLS)
def test_steps_in_threads_of_a_body_know_their_job_or_are_refused(pools: Pools, stage: Stage, pool: str) -> None:
    known, unknown = references(2)
    assert stage.result(pools.send(pool, "spread", known, True)) == [0, 1]
    assert "copy_context().run" in stage.result(pools.send(pool, "spread", unknown, False))
    stage.settle()
    assert [stage.effects(f"{known}-{number}") for number in range(2)] == [1, 1]
    assert [stage.effects(f"{unknown}-{number}") for number in range(2)] == [0, 0]


def test_a_job_longer_than_its_lease_and_its_messages_timeout_runs_once(pools: Pools, stage: Stage) -> None:
    keys = {pool: fresh() for pool in POOLS}
    # Lease and visibility timeout are three seconds.
    first = {pool: pools.send(pool, "order", keys[pool], 8) for pool in POOLS}
    wait_for(lambda: all(stage.effects(key, "begun") for key in keys.values()), "all begun")
    duplicates = {pool: pools.send(pool, "order", keys[pool], 8) for pool in POOLS}
    while not all(stage.effects(key) for key in keys.values()):
        stage.web(_restore)
        time.sleep(0.3)
    assert {pool: stage.result(first[pool]) for pool in POOLS} == keys
    assert {pool: stage.result(duplicates[pool]) for pool in POOLS} == keys
    stage.settle()
    assert {pool: stage.effects(keys[pool], "begun") for pool in POOLS} == dict.fromkeys(POOLS, 1)
    received = {pool: pools.workers[pool].log().count(f"{first[pool]}] received") for pool in POOLS}
    assert received == dict.fromkeys(POOLS, 1)
    assert {pool: stage.job(task_id=first[pool]).attempts for pool in POOLS} == dict.fromkeys(POOLS, 1)


def _restore(app: Any) -> None:
    """Give messages back whose visibility timeout is over, as any worker of this broker would."""
    with app.connection_for_read() as connection:
        connection.default_channel.qos.restore_visible(num=100, interval=1)


@pytest.mark.parametrize("pool", POOLS)
def test_many_jobs_need_few_connections(pools: Pools, stage: Stage, pool: str) -> None:
    with _connections(stage.database, f"replay-{pool}") as counted:
        for _ in range(2):
            names = references(60)
            stage.web(_send_many, names, pools.queue(pool))
            wait_for(lambda names=names: all(stage.effects(name) for name in names), "all done", 2 * PATIENCE_S)
            counted.lap()
    processes = CONCURRENCY[pool] if pool == "prefork" else 1
    steward = 1
    assert 1 <= max(counted.laps) <= STORE_CONNECTIONS * processes + steward
    # A leak of one in a hundred jobs would show.
    assert counted.laps[1] <= counted.laps[0] + 1
    stage.settle()
    assert sum(stage.effects(name) for name in names) == 60


def _send_many(app: Any, names: list[str], queue: str) -> None:
    for name in names:
        app.signature("done", (name,)).apply_async(queue=queue, ignore_result=True)


class _connections:  # noqa: N801 - reads as what it does
    """Watches how many connections to a database a worker has at most."""

    def __init__(self, dsn: str, name: str) -> None:
        self.laps: list[int] = []
        self._dsn = dsn
        self._name = name
        self._most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def lap(self) -> None:
        """Note the most of this lap."""
        self.laps.append(self._most)
        self._most = 0

    def __enter__(self) -> _connections:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._over.wait(0.05):
                row = connection.execute(query, [self._name]).fetchone()
                self._most = max(self._most, row[0] if row else 0)


def test_a_soft_time_limit_that_the_body_minds_is_a_success(pools: Pools, stage: Stage) -> None:
    name = fresh()
    task_id = pools.send("prefork", "polite", name, 30, soft_time_limit=1)
    assert stage.result(task_id) == "stopped in time"
    stage.settle()
    assert stage.effects(name, "soft") == 1
    assert stage.job(task_id=task_id).status is Outcome.SUCCEEDED
    assert stage.letters(task_id) == []


def test_a_soft_time_limit_is_a_failure_with_one_letter_and_the_chord_hears_of_it(pools: Pools, stage: Stage) -> None:
    task_id, body, error = _limited_chord(pools, "prefork", "slow", soft_time_limit=1)
    wait_for(lambda: stage.effects(error), "error callback")
    stage.settle()
    assert stage.state(task_id) == "FAILURE"
    assert (stage.effects(body), stage.effects(error)) == (0, 1)
    job = stage.job(task_id=task_id)
    assert job.status is Outcome.FAILED
    (letter,) = stage.letters(task_id)
    assert letter.error_type.endswith("SoftTimeLimitExceeded")
    assert letter.attempts == 1


HARD = [("prefork", "slow"), ("prefork", "late"), ("prefork", "order"), ("gevent", "slow"), ("gevent", "late")]


@pytest.mark.parametrize(("pool", "task"), HARD)
def test_a_hard_time_limit_is_one_letter_and_the_chord_hears_of_it(
    pools: Pools, stage: Stage, pool: str, task: str
) -> None:
    task_id, body, error = _limited_chord(pools, pool, task, time_limit=1)
    wait_for(lambda: stage.effects(error), "error callback")
    wait_for(lambda: stage.letters(task_id), "letter")
    # Celery announces it more than once: the letter stays one, and the later news change nothing.
    time.sleep(1.5)
    assert stage.state(task_id) == "FAILURE"
    assert stage.effects(body) == 0
    (letter,) = stage.letters(task_id)
    assert letter.reason is Reason.HARD_TIME_LIMIT
    assert letter.attempts == 1
    assert stage.rows() == []


def _limited_chord(pools: Pools, pool: str, task: str, **limits: float) -> tuple[str, str, str]:
    name, other, body, error = references(4)
    task_id = pools.stage.web(_publish_chord, pools.queue(pool), task, (name, 30), limits, other, body, error)
    return task_id, body, error


def _publish_chord(
    app: Any, queue: str, task: str, args: Any, limits: dict[str, float], other: str, body: str, error: str
) -> str:
    limited = app.signature(task, args, options={**limits, "queue": queue})
    after = app.signature("gather", (body,), options={"queue": queue})
    after.link_error(app.signature("failed", kwargs={"reference": error}))
    member = app.signature("done", (other,), options={"queue": queue})
    made = chord([limited, member], after).apply_async()
    return str(made.parent.results[0].id)


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_where_a_pool_has_no_time_limits_the_body_runs_on_under_its_lease(
    pools: Pools, stage: Stage, pool: str
) -> None:
    name = fresh()
    task_id = pools.send(pool, "slow", name, 2.5, time_limit=1, soft_time_limit=1)
    assert stage.result(task_id) == name
    stage.settle()
    assert stage.effects(name) == 1
    assert stage.letters(task_id) == []


REVOKED = [("prefork", "slow"), ("prefork", "late"), ("prefork", "order"), ("gevent", "slow"), ("gevent", "order")]


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize(("pool", "task"), REVOKED)
def test_a_job_that_was_revoked_in_its_body_is_no_failure_and_frees_its_key(
    pools: Pools, stage: Stage, pool: str, task: str, signal: str
) -> None:
    key = fresh()
    task_id = pools.send(pool, task, key, 30)
    wait_for(lambda: stage.effects(key, "begun"), "body begun")
    stage.web(_revoke, task_id, pools.workers[pool].hostname, signal)
    wait_for(lambda: stage.job(task_id=task_id).status is Outcome.REVOKED, "noted as revoked", 10)
    stage.settle()
    assert stage.letters(task_id) == []
    assert stage.effects(key) == 0
    if task == "order":
        stage.sign(key)
        again = pools.send(pool, "order", key, 30)
        assert stage.result(again) == key
        assert "parked" not in stage.event_names(stage.job(task_id=again))
        assert (stage.effects(key, "begun"), stage.effects(key)) == (2, 1)
        # The next test kills the child that may still have this job's flag to write.
        stage.settle()


def _revoke(app: Any, task_id: str, worker: str, signal: str = "") -> None:
    more = {"terminate": True, "signal": signal} if signal else {}
    app.control.revoke(task_id, destination=[worker], reply=True, limit=1, timeout=PATIENCE_S, **more)


@pytest.mark.parametrize("pool", POOLS)
def test_a_job_that_was_revoked_before_it_came_never_runs(pools: Pools, stage: Stage, pool: str) -> None:
    name, task_id = fresh(), f"revoked-{fresh()}"
    stage.web(_revoke, task_id, pools.workers[pool].hostname)
    pools.send(pool, "slow", name, 0, task_id=task_id)
    wait_for(lambda: stage.state(task_id) == "REVOKED", "revoked")
    _thrown_away(stage, task_id, Outcome.REVOKED)
    assert stage.effects(name, "begun") == 0
    assert stage.letters(task_id) == []


def _thrown_away(stage: Stage, task_id: str, outcome: Outcome) -> None:
    (job,) = wait_for(lambda: stage.jobs(task_id=task_id), "its record")
    assert (job.status, job.operation, job.attempts) == (outcome, "slow", 0)
    wait_for(lambda: str(outcome) in stage.event_names(job), "its trace")
    stage.settle()


@pytest.mark.parametrize("pool", POOLS)
def test_a_job_that_expired_in_its_queue_never_runs(pools: Pools, stage: Stage, pool: str) -> None:
    name = fresh()
    task_id = pools.send(pool, "slow", name, 0, expires=0.001)
    wait_for(lambda: stage.state(task_id) == "REVOKED", "expired")
    _thrown_away(stage, task_id, Outcome.EXPIRED)
    assert stage.effects(name, "begun") == 0
    assert stage.letters(task_id) == []


def test_a_worker_that_is_asked_to_stop_ends_what_it_runs_and_nothing_runs_twice(pools: Pools, stage: Stage) -> None:
    names = {pool: references(15) for pool in POOLS}
    running = {pool: fresh() for pool in POOLS}
    for pool in POOLS:
        pools.send(pool, "order", running[pool], 1.5)
        stage.web(_send_many, names[pool], pools.queue(pool))
    wait_for(lambda: all(stage.effects(key, "begun") for key in running.values()), "all at work")
    assert _all(lambda pool: pools.workers[pool].stop(PATIENCE_S)) == dict.fromkeys(POOLS, 0)
    assert {pool: stage.effects(running[pool]) for pool in POOLS} == dict.fromkeys(POOLS, 1)
    _all(lambda pool: pools.workers[pool].start())
    everybody = [name for some in names.values() for name in some]
    wait_for(lambda: all(stage.effects(name) for name in everybody), "the rest done", 2 * PATIENCE_S)
    stage.settle()
    counts = {pool: {stage.effects(name) for name in names[pool]} for pool in POOLS}
    assert list(counts.values()) == [{1}] * len(POOLS)


def _all(work: Callable[[str], Any]) -> dict[str, Any]:
    with ThreadPoolExecutor() as threads:
        return dict(zip(POOLS, threads.map(work, POOLS), strict=True))
