"""Fixtures for real servers, workers and effects; `tests/support/` has what they lend."""

from __future__ import annotations

import os
import re
import signal
import types
import uuid
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kombu.transport import memory
from pytest_celery import (
    CeleryBackendCluster,
    CeleryBrokerCluster,
    CeleryTestBackend,
    CeleryTestBroker,
    CeleryWorkerCluster,
)

from celery_replay.redaction import names
from tests.support import project_database, redis_server, servers
from tests.support.counting_server import CountingServer
from tests.support.local_nodes import LocalCeleryWorker, LocalServer, LocalWorker
from tests.support.workers import Workers, worker_pool

TOGETHER = ("tests/end_to_end/", "tests/inprocess/")
_WORKERS = pytest.StashKey[Workers]()


def pytest_report_header() -> str:
    """Say which servers this run uses."""
    return servers.overview()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Undo what would leak from this process into tests and workers."""
    # pytest-django has its settings by now; left set, Celery would make a Django app of every app.
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)
    owner = os.getpid()

    def leave(number: int, frame: types.FrameType | None) -> None:
        if os.getpid() == owner:
            pytest.exit("terminated", returncode=128 + number)
        # A child that was forked has the handler too; it is to die as if it had not.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    # Without this a terminated run would leave its servers and workers behind.
    signal.signal(signal.SIGTERM, leave)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a job in the background this run would hand it down so to whatever it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)


DEEP = re.compile(
    r"test_outcomes\.py::.*\b(gevent|solo|threads)\b"
    r"|test_chord_ends\.py::.*\[(mariadb|sqlite)-"
    r"|test_shadows\.py::.*\[superuser-"
    r"|tests/conformance/.*\b(valkey|mariadb)\b"
    r"|tests/inprocess/.*\bsolo\b"
    r"|test_pages\.py::.*how-to/(?!declare|dry-run|retry|triage-dead)"
)
"""What only `make test-deep` runs: parts of tables, each like others on another pool, database or role; and pages."""


def is_deep() -> bool:
    """Is all of every table wanted?"""
    return bool(os.environ.get("REPLAY_TEST_DEEP"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest where several processes share the tests; small ones fill the rest."""
    left_out = [] if is_deep() else [item for item in items if DEEP.search(item.nodeid)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not DEEP.search(item.nodeid)]
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(TOGETHER))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep modules together whose workers serve all of their tests; all others are dealt out one by one."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0] if nodeid.startswith(TOGETHER) else nodeid

    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every worker's log below a failure."""
    report = yield
    workers = item.stash.get(_WORKERS, None)
    if report.failed and workers:
        report.sections.extend(workers.log_tails())
    # What can't be encoded, such as a test's odd value in its log, would end a run that is shared among processes.
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


@pytest.fixture
def unlearned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget afterwards what names of secrets a test has made known."""
    monkeypatch.setattr(names, "_learned", names._learned)
    monkeypatch.setattr(names, "_secret", names._secret)
    yield
    names._says_secret.cache_clear()


@pytest.fixture(scope="session")
def docker_client() -> None:
    """Refuse Docker: pytest-celery's own containers are replaced by processes of this machine."""
    raise RuntimeError("a test asked for a container; override the pytest-celery fixture that did")


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """Lend a Redis database that nobody else uses."""
    yield from servers.redis_url()


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """Lend a Valkey database that nobody else uses."""
    yield from servers.valkey_url()


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """Lend a PostgreSQL database that nobody else uses, as a URL."""
    yield from servers.postgres_dsn()


@pytest.fixture(scope="session")
def mariadb_url() -> Iterator[str]:
    """Lend a MariaDB database that nobody else uses, as a URL."""
    yield from servers.mariadb_url()


@pytest.fixture(scope="session")
def migrated_database(postgres_dsn: str) -> Iterator[str]:
    """Name a database with all tables of the test project: a template, to be copied and never opened."""
    with ExitStack() as stack:
        yield project_database.migrated(postgres_dsn, stack)


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """Lend a RabbitMQ virtual host; where it is the default one, `queue_name` keeps tests apart."""
    yield from servers.rabbitmq_url()


@pytest.fixture
def clean_redis_url(redis_url: str) -> str:
    """Lend the session's Redis database, emptied."""
    redis_server.flush(redis_url)
    return redis_url


@pytest.fixture
def private_redis() -> Iterator[redis_server.RedisServer]:
    """Lend a Redis server of the test's own, to be wiped, stopped and killed."""
    with ExitStack() as stack:
        yield redis_server.private(stack)


@pytest.fixture
def empty_memory_broker() -> None:
    """Forget what other tests of this process have sent by kombu's memory transport: its queues are everybody's."""
    memory.Channel.queues.clear()


@pytest.fixture
def queue_name() -> str:
    """Return a queue name that no other test has."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def counting_server() -> Iterator[CountingServer]:
    """Lend an HTTP server that counts what reaches it."""
    with CountingServer() as server:
        yield server


@pytest.fixture
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workers]:
    """Lend a starter of real workers, which end with the test."""
    with worker_pool(tmp_path) as lent:
        request.node.stash[_WORKERS] = lent
        yield lent


@pytest.fixture
def celery_broker_cluster(clean_redis_url: str) -> CeleryBrokerCluster:
    """Give pytest-celery the session's Redis as its broker."""
    return CeleryBrokerCluster(CeleryTestBroker(LocalServer(clean_redis_url)))


@pytest.fixture
def celery_backend_cluster(clean_redis_url: str) -> CeleryBackendCluster:
    """Give pytest-celery the session's Redis as its result backend."""
    return CeleryBackendCluster(CeleryTestBackend(LocalServer(clean_redis_url)))


@pytest.fixture
def celery_worker_app() -> str:
    """Name the app module of pytest-celery's worker; override it for another app."""
    return "tests.support.plain_app"


@pytest.fixture
def celery_worker_cluster(
    workers: Workers, celery_worker_app: str, celery_worker_cluster_config: dict[str, dict[str, list[str]]]
) -> CeleryWorkerCluster:
    """Give pytest-celery one worker process on the broker and backend of the test."""
    config = celery_worker_cluster_config
    process = workers.start(
        celery_worker_app,
        broker_url=config["celery_broker_cluster_config"]["urls"][0],
        result_backend=config["celery_backend_cluster_config"]["urls"][0],
    )
    return CeleryWorkerCluster(LocalCeleryWorker(LocalWorker(process), None))
