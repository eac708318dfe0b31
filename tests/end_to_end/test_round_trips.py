"""What a job costs in round trips: counted on the wire, so exact on any machine, however busy it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from tests.support import project_database
from tests.support.net import wait_until
from tests.support.postgres_proxy import PostgresProxy
from tests.support.redis_server import RedisServer
from tests.support.remote import Remote
from tests.support.workers import WorkerProcess, Workers

APP = "tests.end_to_end.apps.counted_app"
QUEUE = "celery"
UNACKED = "unacked"
WARM_UP = 20
JOBS = 100
OPEN = "INSERT INTO django_celery_replay_processedjob"
CLOSE = "UPDATE django_celery_replay_processedjob"
LETTER = "INSERT INTO django_celery_replay_deadletter"
PATIENCE_S = 60


@pytest.fixture
def database(postgres_dsn: str, migrated_database: str) -> Iterator[PostgresProxy]:
    with ExitStack() as stack:
        url = project_database.copied(postgres_dsn, migrated_database, stack)
        yield stack.enter_context(PostgresProxy(url))


class Line:
    """A queue with a producer and one worker, which can be asked how often it went to Redis."""

    def __init__(self, server: RedisServer, env: dict[str, str], workers: Workers, folder: Any) -> None:
        self.server = server
        self.env = {"CELERY_BROKER_URL": server.url, **env}
        self.redis = redis.Redis.from_url(server.url)
        self.producer = Remote(APP, self.env, folder)
        self.worker: WorkerProcess | None = None
        self._workers = workers
        self._asked = 0
        self._published = 0

    def start(self) -> None:
        self.worker = self._workers.start(APP, env=self.env)
        self.publish(WARM_UP)
        self.wait()

    def publish(self, count: int) -> None:
        self.producer(_publish, self._published, count)
        self._published += count

    def wait(self) -> None:
        """Wait until every message has been acknowledged."""
        # Twice, as a message is in neither place for a moment: off the queue, and not yet noted as unacknowledged.
        for _ in range(2):
            wait_until(self._is_done, PATIENCE_S, "all acknowledged", every_s=0.1)
            time.sleep(0.3)

    def _is_done(self) -> bool:
        self._asked += 1
        waiting, unacked = self.redis.pipeline().llen(QUEUE).hlen(UNACKED).execute()
        return not (waiting or unacked)

    def reads(self) -> int:
        """Return how often Redis was asked by others than by this line's own questions."""
        self._asked += 1
        return int(self.redis.info("stats")["total_reads_processed"]) - self._asked

    def reads_for(self, count: int) -> int:
        """Let the worker do jobs that wait already; return how often it asked Redis."""
        assert self.worker is not None
        self.worker.pause()
        self.publish(count)
        before = self.reads()
        self.worker.resume()
        self.wait()
        return self.reads() - before

    def close(self) -> None:
        self.producer.close()
        self.redis.close()


def _publish(app: Any, first: int, count: int) -> None:
    for number in range(first, first + count):
        app.tasks["counted"].delay(number)


@pytest.fixture
def make_line(private_redis: RedisServer, workers: Workers, tmp_path: Any) -> Iterator[Callable[..., Line]]:
    with ExitStack() as stack:

        def make(**env: str) -> Line:
            line = Line(private_redis, env, workers, tmp_path)
            stack.callback(line.close)
            return line

        yield make


def _count(statements: list[str], what: str) -> int:
    return sum(what in statement for statement in statements)


def test_a_job_costs_one_statement_to_open_and_one_to_close(
    make_line: Callable[..., Line], database: PostgresProxy
) -> None:
    line = make_line(REPLAY_DJANGO_DATABASE_URL=database.url)
    line.start()
    before = len(database.statements)
    line.publish(JOBS)
    line.wait()
    executed = database.statements[before:]
    assert (_count(executed, OPEN), _count(executed, CLOSE)) == (JOBS, JOBS)
    assert len(executed) == 2 * JOBS
    assert line.worker is not None
    line.worker.stop()
    assert len(database.statements) == before + 2 * JOBS


def test_a_dead_letter_costs_no_statement_more(make_line: Callable[..., Line], database: PostgresProxy) -> None:
    line = make_line(REPLAY_DJANGO_DATABASE_URL=database.url, REPLAY_TEST_FAILS="1")
    line.start()
    before = len(database.statements)
    line.publish(JOBS)
    line.wait()
    executed = database.statements[before:]
    assert (_count(executed, OPEN), _count(executed, CLOSE), _count(executed, LETTER)) == (JOBS, JOBS, JOBS)
    assert len(executed) == 2 * JOBS


def test_that_canvases_were_sent_on_is_written_for_many_jobs_at_once(
    make_line: Callable[..., Line], database: PostgresProxy, private_redis: RedisServer
) -> None:
    backend = private_redis.url.replace("/0", "/1")
    line = make_line(REPLAY_DJANGO_DATABASE_URL=database.url, CELERY_RESULT_BACKEND=backend)
    line.start()
    before = len(database.statements)
    line.publish(JOBS)
    line.wait()
    assert len(database.statements) == before + 2 * JOBS
    assert line.worker is not None
    line.worker.stop()
    written = database.statements[before + 2 * JOBS :]
    assert _count(written, "canvas_advanced = TRUE") == 1
    assert len(written) <= 5, written


def test_publishing_asks_no_database(make_line: Callable[..., Line], database: PostgresProxy) -> None:
    line = make_line(REPLAY_DJANGO_DATABASE_URL=database.url)
    line.publish(JOBS)
    assert line.redis.llen(QUEUE) == JOBS
    assert database.connections == 0


def test_publishing_asks_the_broker_as_often_as_plain_celery(
    make_line: Callable[..., Line], database: PostgresProxy
) -> None:
    asked = []
    for plain in ("", "1"):
        line = make_line(REPLAY_DJANGO_DATABASE_URL=database.url, REPLAY_TEST_PLAIN=plain)
        line.publish(WARM_UP)
        before = line.reads()
        line.publish(JOBS)
        asked.append(line.reads() - before)
    assert asked[0] == asked[1]


def test_a_worker_asks_the_broker_as_often_as_plain_celery(
    make_line: Callable[..., Line], database: PostgresProxy
) -> None:
    asked = []
    for plain in ("", "1"):
        line = make_line(REPLAY_DJANGO_DATABASE_URL=database.url, REPLAY_TEST_PLAIN=plain)
        line.start()
        asked.append(line.reads_for(JOBS))
        assert line.worker is not None
        line.worker.stop()
    # An idle worker asks once per second, and nobody can say when it is idle; a round trip per job would be 100.
    assert abs(asked[0] - asked[1]) < JOBS / 4, asked
    assert asked[0] < 3.5 * JOBS, asked
