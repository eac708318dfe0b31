"""Publishing from a stage's producer."""

from __future__ import annotations

from typing import Any

from tests.end_to_end.stage import Stage


def send(stage: Stage, name: str, *args: Any, callback: str = "", **options: Any) -> str:
    """Publish a job and return its task id.

    Args:
        name: of the task.
        callback: a reference that the task `after` shall count when the job has ended well.
        options: of `apply_async`.
    """
    return str(stage.web(_publish, name, args, callback, options))


def _publish(app: Any, name: str, args: Any, callback: str, options: Any) -> str:
    link = app.tasks["after"].si(callback) if callback else None
    return str(app.tasks[name].apply_async(args, link=link, **options).id)
