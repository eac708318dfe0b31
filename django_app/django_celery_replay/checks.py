"""System checks. Their ids are stable: `celery_replay.E001` and so on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from celery.app.backends import by_url
from celery.exceptions import ImproperlyConfigured
from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.db import DEFAULT_DB_ALIAS, connections

from celery_replay import config, policy
from celery_replay.exceptions import ConfigurationError
from celery_replay.runtime import open_store

from .conf import celery_app, store_alias

STORE_IN_BUSINESS_FILE = "celery_replay.E001"
CORE_TASK_CLASS = "celery_replay.W002"
BAD_SETTING = "celery_replay.E003"
UNKNOWN_DATABASE = "celery_replay.E004"
STOCK_RESULTS = "celery_replay.I005"
UNPROTECTED = "celery_replay.W006"
BAD_SHADOW = "celery_replay.E007"

RESULTS = "django_celery_replay.results:DatabaseBackend"
_SPELLING = "In a Django project settings are spelled CELERY_REPLAY_…."


@checks.register
def check_store(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check where the store is."""
    contradiction = list(_contradiction())
    if contradiction:
        return contradiction
    alias = store_alias()
    named = "CELERY_REPLAY_JOURNAL" if _set("JOURNAL") else "CELERY_REPLAY_STORE"
    if alias is None:
        return list(_unopenable())
    if alias not in connections.settings:
        return [
            checks.Error(
                f"{named} names the database {alias!r}, which is not in DATABASES.",
                hint=f"Name one of {', '.join(sorted(connections.settings))}.",
                id=UNKNOWN_DATABASE,
            )
        ]
    shared = sorted(other for other in connections.settings if other != alias and _file(other) == _file(alias))
    if _file(alias) is None or not (alias == DEFAULT_DB_ALIAS or shared):
        return list(_unopenable()) if _set("JOURNAL") else []
    return [
        checks.Error(
            f"celery-replay's records are in the SQLite file of the database {shared[0] if shared else alias!r}.",
            hint=(
                "SQLite locks a whole file: a record would wait for the transaction of the very task that it is "
                "about. Add a second file to DATABASES, name it in "
                f'{named} ("django://alias"), and '
                "run `manage.py migrate django_celery_replay --database alias` as well as `manage.py migrate`."
            ),
            id=STORE_IN_BUSINESS_FILE,
        )
    ]


@checks.register
def check_shadows(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check which databases dry runs are to have a shadow of; none is connected to."""
    from .shadow.places import entry_of

    setting = _set("SANDBOX_DATABASE")
    found: list[checks.CheckMessage] = []
    # What is no dictionary of dictionaries is the app's to refuse.
    for alias, given in setting.items() if isinstance(setting, dict) else ():
        try:
            entry_of(alias, given if isinstance(given, dict) else {})
        except ConfigurationError as error:
            found.append(checks.Error(error.message, hint=_SPELLING, id=BAD_SHADOW))
    return found


def _set(name: str) -> Any:
    return getattr(settings, f"CELERY_REPLAY_{name}", None)


def _places() -> config.Settings:
    return config.Settings(
        store=_set("STORE"), ledger=_set("LEDGER"), journal=_set("JOURNAL"), options=_set("OPTIONS") or {}
    )


def _contradiction() -> Iterator[checks.CheckMessage]:
    """Say where the settings name places that don't go together."""
    try:
        config.check_places(_places())
    except ConfigurationError as error:
        yield checks.Error(error.message, hint=_SPELLING, id=BAD_SETTING)


def _unopenable() -> Iterator[checks.CheckMessage]:
    """Say where a store that is none of Django's databases can't be made; none is connected to."""
    try:
        open_store(_places())
    except ConfigurationError as error:
        yield checks.Error(error.message, hint=_SPELLING, id=BAD_SETTING)


def _file(alias: str) -> Path | None:
    """Return a database's file on disk, where it is one."""
    entry = connections.settings[alias]
    name = str(entry["NAME"])
    if not entry["ENGINE"].endswith("sqlite3") or not name or ":memory:" in name or "mode=memory" in name:
        return None
    return Path(name).absolute()


@checks.register
def check_apps(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check the project's Celery app, if it is loaded by now."""
    app = celery_app()
    return [] if app is None else [*_bad_settings(app), *_core_classes(app), *_stock_results(app), *_unprotected(app)]


def _bad_settings(app: Any) -> Iterator[checks.CheckMessage]:
    try:
        config.load(app.conf)
    except ConfigurationError as error:
        yield checks.Error(error.message, hint=_SPELLING, id=BAD_SETTING)


def _core_classes(app: Any) -> Iterator[checks.CheckMessage]:
    from celery_replay.task import ReplayTask as CoreTask

    from .task import ReplayTask

    if issubclass(app.Task, CoreTask) and not issubclass(app.Task, ReplayTask):
        yield checks.Warning(
            "The Celery app's tasks are of celery-replay's core class.",
            hint=(
                'They have no delay_on_commit(), and no `atomic` or `fenced`. Use task_cls="django_celery_replay:'
                'ReplayTask".'
            ),
            id=CORE_TASK_CLASS,
        )


def _unprotected(app: Any) -> Iterator[checks.CheckMessage]:
    """Say which tasks, of those that are loaded by now, declare what their class knows nothing of."""
    for sentence in policy.unprotected(app.tasks.values()):
        yield checks.Warning(f"{sentence[:1].upper()}{sentence[1:]}.", id=UNPROTECTED)


def _stock_results(app: Any) -> Iterator[checks.CheckMessage]:
    from celery_replay.task import ReplayTask as CoreTask

    if issubclass(app.Task, CoreTask) and apps.is_installed("django_celery_results") and _is_stock(app):
        yield checks.Info(
            "Celery's results are kept by django-celery-results' own backend, which counts a chord's parts down.",
            hint=(
                "A worker that dies at a chord's end can leave it waiting for ever. Our subclass counts by task id, on "
                f'the same tables: CELERY_RESULT_BACKEND = "{RESULTS}", for all workers at once.'
            ),
            id=STOCK_RESULTS,
        )


def _is_stock(app: Any) -> bool:
    from django_celery_results.backends import DatabaseBackend as Stock

    from .results import DatabaseBackend

    try:
        backend, _ = by_url(app.conf.result_backend, app.loader)
    except (ImportError, ImproperlyConfigured):
        # Celery says what is wrong with it.
        return False
    return issubclass(backend, Stock) and not issubclass(backend, DatabaseBackend)
