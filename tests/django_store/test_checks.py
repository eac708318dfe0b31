"""System checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, _state
from django.db import connections

from celery_replay.task import ReplayTask as CoreTask
from django_celery_replay import ReplayTask
from django_celery_replay.checks import check_apps, check_shadows, check_store


@pytest.fixture
def databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    sqlite = "django.db.backends.sqlite3"
    made: dict[str, Any] = {
        "default": {"ENGINE": sqlite, "NAME": tmp_path / "shop.sqlite3"},
        "same": {"ENGINE": sqlite, "NAME": f"{tmp_path}/./shop.sqlite3"},
        "replay": {"ENGINE": sqlite, "NAME": tmp_path / "replay.sqlite3"},
        "big": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"},
    }
    connections.configure_settings(made)
    for alias, entry in made.items():
        monkeypatch.setitem(connections.settings, alias, entry)
    return made


@pytest.mark.parametrize(
    ("store", "ids"),
    [
        (None, ["celery_replay.E001"]),
        ("django", ["celery_replay.E001"]),
        ("django://same", ["celery_replay.E001"]),
        ("django://replay", []),
        ("django://big", []),
        ("django://nowhere", ["celery_replay.E004"]),
        ("memory://", []),
        ("redis://localhost", []),
        ("mongodb://localhost", ["celery_replay.E003"]),
    ],
)
def test_the_stores_database_is_checked(databases: Any, settings: Any, store: str | None, ids: list[str]) -> None:
    settings.CELERY_REPLAY_STORE = store
    found = check_store(None)
    assert [message.id for message in found] == ids
    assert all(message.hint for message in found)


@pytest.mark.parametrize(
    ("store", "ledger", "journal", "ids"),
    [
        (None, "redis://localhost", "django://replay", []),
        (None, "redis://localhost", "django://big", []),
        (None, "redis://localhost", None, []),
        (None, "redis://localhost", "django", ["celery_replay.E001"]),
        (None, "redis://localhost", "django://nowhere", ["celery_replay.E004"]),
        (None, "redis://localhost:port", "django://big", ["celery_replay.E003"]),
        (None, None, "django://big", ["celery_replay.E003"]),
        (None, "django", "django://big", ["celery_replay.E003"]),
        ("django://big", "redis://localhost", "django://big", ["celery_replay.E003"]),
    ],
)
def test_a_ledger_and_its_journal_are_checked(
    databases: Any, settings: Any, store: str | None, ledger: str | None, journal: str | None, ids: list[str]
) -> None:
    settings.CELERY_REPLAY_STORE, settings.CELERY_REPLAY_LEDGER, settings.CELERY_REPLAY_JOURNAL = store, ledger, journal
    found = check_store(None)
    assert [message.id for message in found] == ids
    assert all(message.hint for message in found)
    assert all("CELERY_REPLAY_JOURNAL" in message.msg for message in found if message.id == "celery_replay.E004")


@pytest.fixture
def no_app(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Tasks of other tests, which Celery would give to every app.
    monkeypatch.setattr(_state, "_on_app_finalizers", set())
    before = _state.default_app, getattr(_state._tls, "current_app", None)
    _state.default_app = None
    _state._tls.current_app = None
    yield
    _state.default_app, _state._tls.current_app = before


def ids(app: Celery) -> list[str | None]:
    app.set_current()
    return [message.id for message in check_apps(None)]


def test_a_task_whose_class_knows_nothing_of_what_it_declares_is_warned_of(no_app: None) -> None:
    app = Celery(set_as_current=False)

    @app.task(name="ship", shared=False, idempotency_key="ship:{order_id}")
    def ship(order_id: int) -> None:
        pass

    assert ids(app) == ["celery_replay.W006"]
    assert "Task ship declares idempotency_key, which is not in force" in check_apps(None)[0].msg


def test_a_project_without_a_celery_app_is_fine(no_app: None) -> None:
    assert check_apps(None) == []


def test_the_core_task_class_is_warned_of(no_app: None) -> None:
    assert ids(Celery(task_cls=CoreTask, set_as_current=False)) == ["celery_replay.W002"]
    assert ids(Celery(task_cls=ReplayTask, set_as_current=False)) == []
    assert ids(Celery(set_as_current=False)) == []


def test_a_bad_setting_is_an_error(no_app: None) -> None:
    app = Celery(set_as_current=False)
    app.conf.replay_lease_ttl = "soon"
    assert ids(app) == ["celery_replay.E003"]


@pytest.mark.parametrize(
    ("backend", "found"),
    [
        ("django-db", ["celery_replay.I005"]),
        ("django_celery_results.backends:DatabaseBackend", ["celery_replay.I005"]),
        ("django_celery_replay.results:DatabaseBackend", []),
        ("cache+memory://", []),
        ("redis://localhost", []),
        ("no.such:Backend", []),
        (None, []),
    ],
)
def test_the_stock_backend_for_results_is_hinted_at(no_app: None, backend: str | None, found: list[str]) -> None:
    assert ids(Celery(task_cls=ReplayTask, backend=backend, set_as_current=False)) == found


def test_the_stock_backend_is_no_business_of_ours_where_tasks_are_not(no_app: None) -> None:
    assert ids(Celery(backend="django-db", set_as_current=False)) == []


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (None, ""),
        ({}, ""),
        ({"big": {}}, ""),
        ({"big": {"USER": "replay_reader", "PASSWORD": "x", "HOST": "db", "PORT": 5432}}, ""),
        ({"nowhere": {}}, "the database 'nowhere', which is not in DATABASES; name one of "),
        ({"replay": {}}, "the database 'replay' is not PostgreSQL"),
        ({"big": {"user": "replay_reader"}}, "has 'user'; it may have HOST, NAME, OPTIONS, PASSWORD, PORT, USER"),
    ],
)
def test_shadows_are_checked(databases: Any, settings: Any, setting: Any, told: str) -> None:
    settings.CELERY_REPLAY_SANDBOX_DATABASE = setting
    found = check_shadows(None)
    assert [message.id for message in found] == ["celery_replay.E007"] * bool(told)
    assert all(told in message.msg and message.hint for message in found)
