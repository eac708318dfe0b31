"""Stores on real servers, by kind of ledger and kind of journal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_django.plugin import DjangoDbBlocker

from celery_replay.stores.journaled import JournaledStore
from tests.support import journaled_stores, redis_server

PAIRS = [("redis", "sqlite"), ("redis", "postgresql"), ("valkey", "postgresql"), ("redis", "mariadb")]
URLS = {
    "redis": "redis_url",
    "valkey": "valkey_url",
    "sqlite": "journal_file",
    "postgresql": "postgres_dsn",
    "mariadb": "mariadb_url",
}


@dataclass(frozen=True)
class Places:
    """Where a store's two parts are."""

    ledger: str
    journal: str

    def wipe(self) -> None:
        """Lose all that the ledger has."""
        redis_server.flush(self.ledger)


@pytest.fixture(scope="session")
def journal_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name an SQLite file."""
    path: Path = tmp_path_factory.mktemp("journal") / "journal.sqlite3"
    return f"sqlite:///{path}"


@pytest.fixture(params=PAIRS, ids="-".join)
def places(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[Places]:
    """Name a ledger and a journal, both empty."""
    ledger, journal = (request.getfixturevalue(URLS[kind]) for kind in request.param)
    redis_server.flush(ledger)
    with django_db_blocker.unblock():
        yield Places(ledger, journal)
        journaled_stores.close_stores(ledger)


@pytest.fixture
def store(places: Places) -> JournaledStore:
    """Lend an empty store."""
    return journaled_stores.make_journaled_store(places.ledger, places.journal)
