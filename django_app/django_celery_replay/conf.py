"""What the project says of itself, read when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.conf import settings
from django.db import router
from django.db.models import Model

from celery_replay import config
from celery_replay.redaction import learn
from celery_replay.runtime import Runtime, open_store, runtime_of
from celery_replay.stores.base import Store
from celery_replay.stores.places import open_place


def store_alias() -> str | None:
    """Return the alias of the store's database, or of its journal's, if that is where it is."""
    named = (getattr(settings, f"CELERY_REPLAY_{name}", None) for name in ("JOURNAL", "STORE", "LEDGER"))
    scheme, _, rest = next(filter(None, named), "django").partition("://")
    if scheme != "django":
        return None
    return rest or router.db_for_write(_model())


def sandbox_database() -> Mapping[str, Mapping[str, Any]]:
    """Return which databases dry runs have a shadow of, and what is otherwise than in their entries."""
    known = runtime()
    return (
        known.settings.sandbox_database
        if known is not None
        else getattr(settings, "CELERY_REPLAY_SANDBOX_DATABASE", {})
    )


def celery_app() -> Any:
    """Return the project's Celery app, if it is loaded by now."""
    from celery import _state

    # Not `current_app`: that would make an app where the project has none.
    return _state.default_app or getattr(_state._tls, "current_app", None)


def runtime() -> Runtime | None:
    """Return what the project's Celery app shares, if that is loaded. It knows the tasks."""
    app = celery_app()
    return None if app is None else runtime_of(app)


def know_secrets() -> None:
    """See to it that names are known here that the project says are secret."""
    runtime()
    # Its app need not be loaded in a process that only shows pages.
    names = getattr(settings, "CELERY_REPLAY_REDACT", None) or ()
    learn((names,) if isinstance(names, str) else names)


def store() -> Store:
    """Return the store whose records the ORM reads, or whose journal's: the Celery app's, if that is the one."""
    alias = store_alias() or router.db_for_write(_model())
    known = runtime()
    if known is not None and getattr(known.store, "alias", None) == alias:
        return known.store
    return _own_store(alias)


@cache
def _own_store(alias: str) -> Store:
    found = _open(alias)
    blobs = getattr(settings, "CELERY_REPLAY_BLOBS", None)
    if blobs:
        found.elsewhere = open_place(blobs, getattr(settings, "CELERY_REPLAY_BLOB_OPTIONS", None) or {})
    return found


def _open(alias: str) -> Store:
    from .store import DjangoStore

    ledger = getattr(settings, "CELERY_REPLAY_LEDGER", None)
    if ledger and getattr(settings, "CELERY_REPLAY_JOURNAL", None):
        # What is decided on the pages is the ledger's to decide.
        options = getattr(settings, "CELERY_REPLAY_OPTIONS", None) or {}
        return open_store(config.Settings(ledger=ledger, journal=f"django://{alias}", options=options))
    return DjangoStore(alias)


def _model() -> type[Model]:
    from .models import ProcessedJob

    return ProcessedJob
