"""Every store, empty and with a clock that stands still, behind one fixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from pytest_django.plugin import DjangoDbBlocker

from celery_replay.clock import Micros
from celery_replay.stores.base import Store
from celery_replay.stores.memory import MemoryStore
from tests.conformance import profiles
from tests.conformance.world import Clock, MakeStore
from tests.support import journaled_stores, redis_stores

KINDS = ("memory", "redis", "valkey", "sqlite", "postgresql", "mariadb", "journaled")
SHARED = KINDS[1:]
"""Those that other threads and processes can use at the same time."""
URLS = {
    "redis": "redis_url",
    "valkey": "valkey_url",
    "sqlite": "sqlite_url",
    "postgresql": "postgres_dsn",
    "mariadb": "mariadb_url",
    "journaled": "redis_url",
}

if settings.get_current_profile_name() != "deep":
    settings.load_profile(profiles.DEFAULT)


@pytest.fixture(params=KINDS)
def store_kind(request: pytest.FixtureRequest) -> str:
    """Name a kind of store."""
    kind: str = request.param
    return kind


@pytest.fixture
def make_store(
    store_kind: str, request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker
) -> Iterator[MakeStore]:
    """Lend a maker of empty stores."""
    if store_kind == "memory":
        yield MemoryStore
        return
    url: str = request.getfixturevalue(URLS[store_kind])
    if store_kind in ("redis", "valkey"):
        yield partial(redis_stores.make_redis_store, url)
        redis_stores.close_stores(url)
        return
    if store_kind == "journaled":
        with django_db_blocker.unblock():
            yield partial(journaled_stores.make_journaled_store, url, request.getfixturevalue("sqlite_url"))
            journaled_stores.close_stores(url)
        return
    with django_db_blocker.unblock():
        from tests.support.django_stores import close_stores, make_django_store

        def make(now: Callable[[], Micros]) -> Store:
            close_stores()
            return make_django_store(url, now)

        yield make
        close_stores()


@pytest.fixture(scope="session")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name an SQLite file."""
    path: Path = tmp_path_factory.mktemp("conformance") / "replay.sqlite3"
    return f"sqlite:///{path}"


@pytest.fixture
def clock() -> Clock:
    """Lend the store's clock."""
    return Clock()


@pytest.fixture
def store(make_store: MakeStore, clock: Clock) -> Store:
    """Lend an empty store."""
    return make_store(clock)
