"""A store on SQLite or PostgreSQL, and a client that looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, _state
from django.db import connections
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker

from celery_replay.records import Group
from celery_replay.runtime import reset, use_store
from django_celery_replay import ReplayTask
from django_celery_replay.store import DjangoStore
from tests.django_admin import visitors
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
def store(database_url: str, django_db_blocker: DjangoDbBlocker, settings: Any) -> Iterator[DjangoStore]:
    """Lend an empty store, which is not in the project's own database."""
    with django_db_blocker.unblock():
        store = make_django_store(database_url)
        settings.CELERY_REPLAY_STORE = f"django://{store.alias}"
        yield store
        close_stores()
        connections[store.alias].close()


@pytest.fixture
def put(store: DjangoStore) -> Put:
    """Return what writes records, in place of those that it wrote before."""

    def put(*records: Any) -> None:
        empty_tables(store.alias)
        with store._unit() as unit:
            for record in records:
                if isinstance(record, Group):
                    unit.tally(record, record.filed, record.unresolved)
                else:
                    unit.put(record)

    return put


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
def shop(store: DjangoStore) -> Iterator[Celery]:
    """Lend the Celery app that the web process has, with a task or two."""
    app = Celery("shop", task_cls=ReplayTask, broker="memory://", set_as_current=False)

    @app.task(name="shop.ship", shared=False, stepwise=True)
    def ship(order: int, card_token: str = "", note: str = "") -> None: ...

    use_store(app, store)
    with app.connection_for_write() as connection, connection.SimpleQueue("celery") as queue:
        queue.clear()
    before = _state.default_app
    _state.default_app = app
    yield app
    _state.default_app = before
    reset(app)
