"""An app whose parent holds every lock of celery-replay at the moment of each fork, as a busy thread might."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from typing import Any

from celery.signals import worker_init

from celery_replay import runtime
from tests.end_to_end.apps.jobs import app

_held, _go_on, _free = threading.Event(), threading.Event(), threading.Event()


def _locks() -> list[Any]:
    own = runtime.runtime_of(app)
    pool = own.store._pool  # type: ignore[attr-defined]
    return [runtime._creating, own._opening, own.heartbeat._lock, own.heartbeat._flushing, pool._changed]


def _be_busy() -> None:
    with ExitStack() as stack:
        for lock in _locks():
            stack.enter_context(lock)
        _held.set()
        _go_on.wait()
    _free.set()


def _hold() -> None:
    for event in (_held, _go_on, _free):
        event.clear()
    # A thread that the child will not have.
    threading.Thread(target=_be_busy, daemon=True).start()
    _held.wait()


def _let_go() -> None:
    _go_on.set()
    _free.wait()


@worker_init.connect(weak=False)
def _prepare(**_: Any) -> None:
    # The parent would not need a store by itself; here it has one, so that there are locks to inherit.
    runtime.runtime_of(app).store  # noqa: B018
    os.register_at_fork(before=_hold, after_in_parent=_let_go)
