"""An app whose parent holds every lock of celery-replay at the moment of each fork, as a busy thread might."""

from __future__ import annotations

import os
import threading
from typing import Any

from celery.signals import worker_init

from celery_replay import runtime
from tests.end_to_end.apps.jobs import app

_held: list[Any] = []


def _locks() -> list[Any]:
    own = runtime.runtime_of(app)
    pool = own.store._pool  # type: ignore[attr-defined]
    return [runtime._creating, own._opening, own.heartbeat._lock, own.heartbeat._flushing, pool._changed]


def _hold() -> None:
    for lock in _locks():
        _held.append(lock)
        # By another thread: one that the child does not have.
        holder = threading.Thread(target=lock.acquire)
        holder.start()
        holder.join()


def _let_go() -> None:
    while _held:
        lock = _held.pop()
        getattr(lock, "_lock", lock).release()


@worker_init.connect(weak=False)
def _prepare(**_: Any) -> None:
    # The parent would not need a store by itself; here it has one, so that there are locks to inherit.
    runtime.runtime_of(app).store  # noqa: B018
    os.register_at_fork(before=_hold, after_in_parent=_let_go)
