"""Stages that several modules share."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.end_to_end.stage import Stage, stage
from tests.support import servers

StageMaker = Callable[..., AbstractContextManager[Stage]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of a stage's processes below a failure."""
    report = yield
    lent = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Stage)]
    if report.failed:
        report.sections.extend(tail for one in lent for tail in one.log_tails())
    return report


@pytest.fixture(scope="session")
def stages_redis_url(redis_url: str) -> Iterator[str]:
    """Lend a Redis database that no test empties while a stage uses it; where one is named, there is no other."""
    if os.environ.get(servers.URL_VARIABLES["redis"]):
        yield redis_url
    else:
        yield from servers.redis_url()


@pytest.fixture(scope="session")
def make_stage(
    postgres_dsn: str, migrated_database: str, stages_redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> StageMaker:
    """Return a function that lends a stage, by default on Redis."""

    @contextmanager
    def lend(app: str, **options: Any) -> Iterator[Stage]:
        folder = tmp_path_factory.mktemp(app)
        given = {"broker": stages_redis_url, "backend": stages_redis_url, **options}
        with stage(app, folder, admin_dsn=postgres_dsn, template=migrated_database, **given) as lent:
            yield lent

    return lend


@pytest.fixture(scope="module", params=["postgresql", "mariadb", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Lend what makes a stage's database one of a kind, each after the other."""
    if request.param == "mariadb":
        for url in servers.mariadb_url():
            yield {"database": url}
    elif request.param == "sqlite":
        yield {"database": f"sqlite:///{tmp_path_factory.mktemp('database')}/db.sqlite3"}
    else:
        yield {}


RESULTS = "django_celery_replay.results:DatabaseBackend"
"""Our own backend for results in Django's database."""


@pytest.fixture(scope="session", params=["redis", RESULTS], ids=["redis", "django"])
def canvas(request: pytest.FixtureRequest, make_stage: StageMaker) -> Iterator[Stage]:
    """Lend a worker with everything that canvases need, on each result backend."""
    options = {} if request.param == "redis" else {"backend": request.param}
    with make_stage("canvas_app", **options) as lent:
        lent.start(concurrency=3)
        yield lent
