"""Where celery-replay's tables live."""

from __future__ import annotations

from typing import Any

from django.db.models import Model


class ReplayRouter:
    """Keep celery-replay's records in a database of their own.

    SQLite locks a whole file for a write: records in the business file would wait for the
    transaction of the very task that they describe.
    """

    app_label = "django_celery_replay"
    alias = "replay"

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return self.alias if model._meta.app_label == self.app_label else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        # Also in the business database: the markers of `atomic=` commit beside the task's rows.
        return app_label == self.app_label if db == self.alias else None
