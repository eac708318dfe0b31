"""Transactions that were rolled back although nobody raised an error.

Inside `atomic()` a swallowed IntegrityError dooms the transaction: the block ends normally, Django or PostgreSQL rolls
it back, and the task would return a result for writes that do not exist.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from .markers import is_aborted


class Watch:
    """What a thread's transactions did."""

    def __init__(self) -> None:
        self.seen = False
        """A block ended without an error and was rolled back."""


class _Watches(threading.local):
    def __init__(self) -> None:
        self.active: list[Watch] = []


_watches = _Watches()
_installing = threading.Lock()


@contextmanager
def watch_rollbacks() -> Iterator[Watch]:
    """Watch all transaction blocks of this thread, in every database."""
    _install()
    watch = Watch()
    _watches.active.append(watch)
    try:
        yield watch
    finally:
        _watches.active.remove(watch)


def _install() -> None:
    """Wrap the end of `atomic()`, once per process.

    Only there both are known: that the block ended without an error, and that its writes will not stay. Connections see
    a call of `rollback()` in either case. Nothing is added to queries, and little to blocks that nobody watches.
    """
    with _installing:
        original = transaction.Atomic.__exit__
        if getattr(original, "watched", False):
            return

        def leave(self: Any, exc_type: Any, exc_value: Any, traceback: Any) -> None:
            if exc_type is None and _watches.active and _is_doomed(transaction.get_connection(self.using)):
                for watch in _watches.active:
                    watch.seen = True
            original(self, exc_type, exc_value, traceback)

        leave.watched = True  # type: ignore[attr-defined]
        transaction.Atomic.__exit__ = leave  # type: ignore[method-assign]


def _is_doomed(connection: BaseDatabaseWrapper) -> bool:
    # A block without savepoint of its own leaves the rollback to the block around it.
    inner = bool(connection.savepoint_ids) and connection.savepoint_ids[-1] is None
    return not inner and (connection.needs_rollback or is_aborted(connection))
