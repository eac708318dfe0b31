"""The test project on SQLite: the business in one file, celery-replay's records in a second one beside it."""

from __future__ import annotations

from typing import Any

from tests.worker_settings import *  # noqa: F403
from tests.worker_settings import DATABASES

DATABASES["replay"] = {**DATABASES["default"], "NAME": f"{DATABASES['default']['NAME']}.replay"}
DATABASE_ROUTERS = [f"{__name__}.Router"]


class Router:
    """Send celery-replay's tables to the second file."""

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return "replay" if model._meta.app_label == "django_celery_replay" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **_: Any) -> bool | None:
        return app_label == "django_celery_replay" if db == "replay" else None
