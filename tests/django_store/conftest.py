"""Stores and business databases on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.db import connections, router
from pytest_django.plugin import DjangoDbBlocker

from celery_replay.runtime import runtime_of
from django_celery_replay.results import DatabaseBackend
from django_celery_replay.store import DjangoStore
from tests.django_store.shop import Shop
from tests.support.django_stores import close_stores, database_alias, empty_tables, make_django_store

LEVELS: dict[str, dict[str, dict[str, Any]]] = {
    "sqlite": {"serializable": {}},
    "postgresql": {
        level: {"options": f"-c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}"}
        for level in ("read committed", "repeatable read", "serializable")
    },
    "mariadb": {
        **{level: {"isolation_level": level} for level in ("read committed", "repeatable read", "serializable")},
        # What newer servers do by default.
        "snapshot": {
            "isolation_level": "repeatable read",
            "init_command": "SET SESSION innodb_snapshot_isolation = ON",
        },
    },
}
VENDORS = {"sqlite": "sqlite_url", "postgresql": "postgres_dsn", "mariadb": "mariadb_url"}


@pytest.fixture(scope="session")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name an SQLite file."""
    path: Path = tmp_path_factory.mktemp("replay") / "replay.sqlite3"
    return f"sqlite:///{path}"


@pytest.fixture(autouse=True)
def _databases_allowed(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Let every test connect: the databases here are not pytest-django's."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture(params=VENDORS)
def database_url(request: pytest.FixtureRequest) -> str:
    """Name a database, one of each vendor after the other."""
    url: str = request.getfixturevalue(VENDORS[request.param])
    return url


@pytest.fixture
def store(database_url: str) -> Iterator[DjangoStore]:
    """Lend an empty store."""
    yield make_django_store(database_url)
    close_stores()


@pytest.fixture
def postgres_store(postgres_dsn: str) -> Iterator[DjangoStore]:
    """Lend an empty store on PostgreSQL."""
    yield make_django_store(postgres_dsn)
    close_stores()


@pytest.fixture
def business(database_url: str) -> Iterator[str]:
    """Lend the alias of a business database with empty guard tables."""
    alias = database_alias(database_url)
    empty_tables(alias)
    yield alias
    connections[alias].close()


@pytest.fixture
def postgres_business(postgres_dsn: str) -> Iterator[str]:
    """Lend the alias of a business database on PostgreSQL."""
    alias = database_alias(postgres_dsn)
    empty_tables(alias)
    yield alias
    connections[alias].close()


@pytest.fixture(params=[(vendor, level) for vendor, levels in LEVELS.items() for level in levels], ids=" ".join)
def leveled(request: pytest.FixtureRequest) -> Iterator[str]:
    """Lend the alias of a business database with empty guard tables, at each isolation level."""
    vendor, level = request.param
    plain = database_alias(request.getfixturevalue(VENDORS[vendor]))
    empty_tables(plain)
    alias = f"{plain}_{level.replace(' ', '_')}"
    entry = {**connections.settings[plain], "OPTIONS": LEVELS[vendor][level]}
    connections.settings[alias] = entry
    yield alias
    connections[alias].close()
    del connections[alias]
    del connections.settings[alias]


@pytest.fixture
def shop() -> Iterator[Shop]:
    """Lend an app with a store in memory, whose tasks run at once."""
    shop = Shop()
    yield shop
    runtime_of(shop.app).heartbeat.drain()


class _Everything:
    """Sends all models to one database."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return self.alias

    db_for_write = db_for_read


@pytest.fixture
def results(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseBackend]:
    """Lend an empty result backend."""
    alias = database_alias(database_url)
    empty_tables(alias)
    monkeypatch.setattr(router, "routers", [_Everything(alias)])
    yield DatabaseBackend(app=Celery("results", set_as_current=False))
    connections[alias].close()
