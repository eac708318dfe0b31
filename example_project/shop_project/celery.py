"""The Celery app; which base class its tasks have is one environment variable."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

task_base = os.environ.get("SHOP_BASE", "django_celery_replay:ReplayTask")
uses_replay = task_base.endswith("ReplayTask")

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.shop_project.settings")

app = Celery("shop", task_cls=task_base)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def replay_options(**options: Any) -> dict[str, Any]:
    """Return celery-replay's task options, or none of them under plain Celery."""
    return options if uses_replay else {}
