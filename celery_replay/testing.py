"""For the tests of projects that use celery-replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .runtime import use_store
from .stores.memory import MemoryStore


@contextmanager
def memory_store(app: Any) -> Iterator[MemoryStore]:
    """Let an app keep its records in this process's memory for a while, and begin with none.

    Workers in other processes don't see them: call tasks eagerly with `replay_eager = "record"`, or run
    `celery.contrib.testing.worker.start_worker`.
    """
    store = MemoryStore()
    before = use_store(app, store)
    try:
        yield store
    finally:
        use_store(app, before)
