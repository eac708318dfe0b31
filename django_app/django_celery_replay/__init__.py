"""celery-replay for Django projects: `Celery("proj", task_cls="django_celery_replay:ReplayTask")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fencing import fenced, register_fence
    from .markers import marked
    from .postconditions import has_rows, version_rose
    from .rollbacks import watch_rollbacks
    from .task import ReplayTask
    from .updates import fenced_update, versioned_update

__all__ = [
    "ReplayTask",
    "fenced",
    "fenced_update",
    "has_rows",
    "marked",
    "register_fence",
    "version_rose",
    "versioned_update",
    "watch_rollbacks",
]

_HOMES = {
    "ReplayTask": "task",
    "fenced": "fencing",
    "fenced_update": "updates",
    "has_rows": "postconditions",
    "marked": "markers",
    "register_fence": "fencing",
    "version_rose": "postconditions",
    "versioned_update": "updates",
    "watch_rollbacks": "rollbacks",
}


def __getattr__(name: str) -> Any:
    # Late: models can't be imported before Django has loaded its apps, and Celery asks for the task class earlier.
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
