"""Workers whose app has no task of ours: nothing of celery-replay runs in them, so the Django app has to speak."""

from __future__ import annotations

from typing import Any

from celery_replay import extension
from celery_replay.worker import tell_of_unprotected


def warn(instance: Any, **_: Any) -> None:
    """Tell of tasks that declare what is not in force; where celery-replay is installed, its own step does."""
    if extension.active(instance.app) is None:
        tell_of_unprotected(instance.app)
