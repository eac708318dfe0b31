"""What the project says of itself, read when it is asked for."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import router


def store_alias() -> str | None:
    """Return the alias of the store's database, if that is where the store is."""
    from .models import ProcessedJob

    scheme, _, rest = (getattr(settings, "CELERY_REPLAY_STORE", None) or "django").partition("://")
    if scheme != "django":
        return None
    return rest or router.db_for_write(ProcessedJob)


def celery_app() -> Any:
    """Return the project's Celery app, if it is loaded by now."""
    from celery import _state

    # Not `current_app`: that would make an app where the project has none.
    return _state.default_app or getattr(_state._tls, "current_app", None)
