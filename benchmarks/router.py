"""Keeps celery-replay's records in a SQLite file of their own: a file is locked as a whole."""

from __future__ import annotations

from typing import Any

APP = "django_celery_replay"
ALIAS = "replay"


class RecordsApart:
    """Sends celery-replay's models to the database `replay`, and everything else to `default`."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        """Name the database to read from."""
        return ALIAS if model._meta.app_label == APP else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        """Say which tables belong where."""
        return (db == ALIAS) == (app_label == APP)
