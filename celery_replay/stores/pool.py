"""Connections that a process lends to its threads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from ..exceptions import StoreUnavailable


class Closable(Protocol):
    """A connection, whatever it leads to."""

    def close(self) -> None:
        """Close it, whatever state it is in."""


L = TypeVar("L", bound=Closable)


class Pool(Generic[L]):
    """Lends connections to threads; forgets them in a forked child.

    Args:
        connect: opens one.
        check: looks once, over the first one, whether the store can be used at all; raises where it can't.
        size: how many at most.
        patience: seconds that a thread waits for one.
    """

    def __init__(
        self,
        connect: Callable[[], L],
        size: int = 4,
        patience: float = 30,
        check: Callable[[L], None] | None = None,
    ) -> None:
        self._connect = connect
        self._check = check
        self._size = size
        self._patience = patience
        self._inherited: list[L] = []
        self._links: set[L] = set()
        self.begin()
        _pools.add(self)

    def begin(self) -> None:
        """Begin without connections: when it is made, and in a forked child."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._idle: list[L] = []
        self._lent = 0
        # Kept for good: a driver that closed them would end the session of the parent process.
        self._inherited.extend(self._links)
        self._links.clear()

    def take(self, fresh: bool = False) -> L:
        """Lend a connection; a fresh one where those at hand are not to be trusted."""
        with self._lock:
            if self._idle and not fresh:
                self._lent += 1
                return self._idle.pop()
            self._wait()
            stale = self._idle[:] if fresh else []
            if stale:
                self._idle.clear()
                self._links.difference_update(stale)
            self._lent += 1
            link = self._idle.pop() if self._idle else None
        for old in stale:
            old.close()
        return link or self._open()

    def _wait(self) -> None:
        self._waiting += 1
        try:
            if not self._changed.wait_for(lambda: self._lent < self._size, self._patience):
                raise StoreUnavailable(
                    f"all {self._size} connections of the store were busy for {self._patience:g} s; "
                    "look for long transactions on its tables"
                )
        finally:
            self._waiting -= 1

    def _open(self) -> L:
        try:
            link = self._checked(self._connect())
        except BaseException:
            self._return()
            raise
        self._links.add(link)
        return link

    def _checked(self, link: L) -> L:
        check = self._check
        if check is not None:
            try:
                check(link)
            except BaseException:
                link.close()
                raise
            self._check = None
        return link

    def give(self, link: L) -> None:
        """Take a connection back."""
        self._return(link)

    def drop(self, link: L) -> None:
        """Take back a connection that can't be used any more."""
        self._links.discard(link)
        self._return()
        link.close()

    def _return(self, link: L | None = None) -> None:
        with self._lock:
            self._lent -= 1
            if link is not None:
                self._idle.append(link)
            if self._waiting:
                self._changed.notify()

    def close(self) -> None:
        """Close what is not lent."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._links.difference_update(idle)
        for link in idle:
            link.close()


_pools: weakref.WeakSet[Pool[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.begin()


os.register_at_fork(after_in_child=_after_fork)
