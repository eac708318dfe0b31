"""Jobs whose results come late, on any result backend: a test can stop them on their way into it."""

from __future__ import annotations

from typing import Any

from celery.backends.base import Backend

from tests.end_to_end.apps.canvas_app import app
from tests.end_to_end.apps.killpoints import reach
from tests.end_to_end.apps.project import post

__all__ = ["app"]


def _mark_as_retry(
    backend: Any, task_id: str, error: Any, traceback: Any = None, request: Any = None, **how: Any
) -> Any:
    reference = str(request.args[0])
    reach("retry", reference)
    stored = _marked(backend, task_id, error, traceback, request, **how)
    post("noted", reference)
    return stored


_marked, Backend.mark_as_retry = Backend.mark_as_retry, _mark_as_retry
