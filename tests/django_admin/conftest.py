"""A store on SQLite or PostgreSQL, and a client that looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, _state
from django.db import connections
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker

from celery_replay.records import Group
from celery_replay.runtime import reset, use_store
from celery_replay.stores.base import Store
from celery_replay.stores.journaled import JournaledStore
from django_celery_replay import ReplayTask, conf
from django_celery_replay.store import DjangoStore
from tests.django_admin import visitors
from tests.support import redis_server
from tests.support.django_stores import close_stores, empty_tables, make_django_store

Put = Callable[..., None]
Page = Callable[..., str]


@pytest.fixture(scope="session")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name an SQLite file."""
    path: Path = tmp_path_factory.mktemp("admin") / "replay.sqlite3"
    return f"sqlite:///{path}"


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """Name the database: an SQLite file, or what the test asks for by indirect parameters."""
    url: str = request.getfixturevalue(getattr(request, "param", "sqlite_url"))
    return url


@pytest.fixture
def ledger_url(request: pytest.FixtureRequest) -> str:
    """Name a Redis database, where the test asks for a ledger beside the journal by indirect parameters; else nothing.

    The web process finds the store by its settings then, as a project's does.
    """
    name = getattr(request, "param", "")
    return request.getfixturevalue(name) if name else ""


@pytest.fixture
def store(
    database_url: str, ledger_url: str, django_db_blocker: DjangoDbBlocker, settings: Any
) -> Iterator[DjangoStore | JournaledStore]:
    """Lend an empty store, which is not in the project's own database."""
    with django_db_blocker.unblock():
        journal = make_django_store(database_url)
        if not ledger_url:
            settings.CELERY_REPLAY_STORE = f"django://{journal.alias}"
            yield journal
            _forget_own_store()
        else:
            redis_server.flush(ledger_url)
            settings.CELERY_REPLAY_LEDGER = ledger_url
            settings.CELERY_REPLAY_JOURNAL = f"django://{journal.alias}"
            yield conf.store()  # type: ignore[misc]
            _forget_own_store()
        close_stores()
        connections[journal.alias].close()


def _forget_own_store() -> None:
    """Let the next test have one by its own settings."""
    conf.store().close_connections()
    conf._own_store.cache_clear()


@pytest.fixture
def put(store: DjangoStore, ledger_url: str) -> Put:
    """Return what writes records, in place of those that it wrote before."""

    def put(*records: Any) -> None:
        empty_tables(store.alias)
        if isinstance(store, JournaledStore):
            redis_server.flush(ledger_url)
            _put(store.ledger, records)
            _put(store.journal, records)
        else:
            _put(store, records)

    return put


def _put(store: Store, records: Sequence[Any]) -> None:
    with store._unit() as unit:
        for record in records:
            if isinstance(record, Group):
                unit.tally(record, record.filed, record.unresolved)
            else:
                unit.put(record)


@pytest.fixture
def visitor(store: DjangoStore, settings: Any, client: Client) -> Client:
    """Lend a client that may see all there is."""
    settings.MIDDLEWARE = [
        "tests.django_admin.visitors.middleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ]
    settings.TIME_ZONE = "UTC"
    settings.MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
    visitors.welcome(visitors.ALL)
    return client


@pytest.fixture
def page(visitor: Client) -> Page:
    """Return what gets a page's text: the part that is about the records."""

    def page(path: str, **query: str) -> str:
        response = visitor.get(f"/admin/django_celery_replay/{path}", query)
        assert response.status_code == 200, response
        return response.content.decode()

    return page


@pytest.fixture
def shop(store: DjangoStore, empty_memory_broker: None) -> Iterator[Celery]:
    """Lend the Celery app that the web process has, with a task or two."""
    app = Celery("shop", task_cls=ReplayTask, broker="memory://", set_as_current=False)

    @app.task(name="shop.ship", shared=False, stepwise=True)
    def ship(order: int, card_token: str = "", note: str = "") -> None: ...

    use_store(app, store)
    before = _state.default_app
    _state.default_app = app
    yield app
    _state.default_app = before
    reset(app)
