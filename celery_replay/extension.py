"""Install celery-replay into an app, and take it out again."""

from __future__ import annotations

import weakref
from typing import Any

from . import runtime, signal_handlers, worker
from .runtime import Runtime

_installed: weakref.WeakSet[Any] = weakref.WeakSet()


def install(app: Any) -> None:
    """Connect the signal handlers and add the worker's bootsteps. Done by `ReplayTask.bind`; repeating it is harmless.

    Nothing is opened here: no socket, no thread, no store. That happens at first use, in the process that uses it.
    """
    app = runtime.plain_app(app)
    if app in _installed:
        return
    _installed.add(app)
    signal_handlers.connect()
    worker.add_steps(app)


def uninstall(app: Any) -> None:
    """Let the app's tasks run as plain Celery tasks. Their messages keep our header, which plain Celery ignores."""
    app = runtime.plain_app(app)
    _installed.discard(app)
    worker.remove_steps(app)
    runtime.reset(app)
    if not _installed:
        signal_handlers.disconnect()


def active(app: Any) -> Runtime | None:
    """Return the app's runtime where celery-replay is installed."""
    return runtime.runtime_of(app) if app in _installed else None
