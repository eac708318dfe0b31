"""Connections of the store's own.

Celery's Django fixup closes every registered connection before and after each task, and bookkeeping has to survive the
rollback of the task's transaction: so these are never registered with Django. A process normally needs one; a heartbeat
or pool threads take more, up to a bound, and wait for their turn beyond it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from celery_replay.exceptions import StoreUnavailable

_NOTHING: Mapping[str, Any] = {}


class Link:
    """One connection with its one cursor: the driver's own, since Django's wrapper costs as much as a round trip."""

    __slots__ = ("connection", "cursor", "database", "once")

    def __init__(self, connection: Any, cursor: Any, once: Mapping[str, Any] = _NOTHING) -> None:
        self.connection = connection
        self.database = connection.Database
        """The driver's module, with its errors."""
        self.cursor = cursor
        self.once = once
        """What tells the driver not to prepare a statement."""

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Any]:
        """Run a query and fetch it all: SQLite keeps its lock until then."""
        self.cursor.execute(sql, params)
        found: list[Any] = self.cursor.fetchall()
        return found

    def look(self, sql: str, params: Sequence[Any] = ()) -> list[Any]:
        """Run a query that is planned for its parameters.

        A prepared one is planned for any: what is frequent and what is rare would be looked for in the same way.
        """
        self.cursor.execute(sql, params, **self.once)
        found: list[Any] = self.cursor.fetchall()
        return found

    def change(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run a statement; return how many rows it changed."""
        self.cursor.execute(sql, params)
        changed: int = self.cursor.rowcount
        return changed

    def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row, in as few round trips as the driver can."""
        if len(rows) == 1:
            self.cursor.execute(sql, rows[0])
        elif rows:
            self.cursor.executemany(sql, rows)

    def close(self) -> None:
        """Close the connection, whatever state it is in."""
        with suppress(Error, self.database.Error):
            self.connection.close()


class Pool:
    """Lends connections to threads; forgets them in a forked child.

    Args:
        connect: opens one.
        size: how many at most.
        patience: seconds that a thread waits for one.
    """

    def __init__(self, connect: Callable[[], Link], size: int = 4, patience: float = 30) -> None:
        self._connect = connect
        self._size = size
        self._patience = patience
        self._inherited: list[Link] = []
        self._links: set[Link] = set()
        self.begin()
        _pools.add(self)

    def begin(self) -> None:
        """Begin without connections: when it is made, and in a forked child."""
        self._changed = threading.Condition()
        self._idle: list[Link] = []
        self._lent = 0
        # Kept for good: a driver that closed them would end the session of the parent process.
        self._inherited.extend(self._links)
        self._links.clear()

    def take(self, fresh: bool = False) -> Link:
        """Lend a connection; a fresh one where those at hand are not to be trusted."""
        with self._changed:
            if self._idle and not fresh:
                self._lent += 1
                return self._idle.pop()
            if not self._changed.wait_for(lambda: self._lent < self._size, self._patience):
                raise StoreUnavailable(
                    f"all {self._size} connections of the store were busy for {self._patience:g} s; "
                    "look for long transactions on its tables"
                )
            stale = self._idle[:] if fresh else []
            if stale:
                self._idle.clear()
                self._links.difference_update(stale)
            self._lent += 1
            link = self._idle.pop() if self._idle else None
        for old in stale:
            old.close()
        return link or self._open()

    def _open(self) -> Link:
        try:
            link = self._connect()
        except BaseException:
            self._return()
            raise
        self._links.add(link)
        return link

    def give(self, link: Link) -> None:
        """Take a connection back."""
        self._return(link)

    def drop(self, link: Link) -> None:
        """Take back a connection that can't be used any more."""
        self._links.discard(link)
        self._return()
        link.close()

    def _return(self, link: Link | None = None) -> None:
        with self._changed:
            self._lent -= 1
            if link is not None:
                self._idle.append(link)
            self._changed.notify()

    def close(self) -> None:
        """Close what is not lent."""
        with self._changed:
            idle, self._idle = self._idle, []
            self._links.difference_update(idle)
        for link in idle:
            link.close()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.begin()


os.register_at_fork(after_in_child=_after_fork)


_DEFAULTS: dict[str, dict[str, Any]] = {
    "postgresql": {"connect_timeout": 5},
    # Django before 5.2 speaks an encoding that has no room for an emoji.
    "mysql": {"connect_timeout": 5, "charset": "utf8mb4"},
}
"""Drivers wait long, or for ever, for a server that does not answer; `on_store_error` is to decide long before."""


def private_connection(alias: str, **options: Any) -> BaseDatabaseWrapper:
    """Open a connection to a database of the project, which Django does not know of.

    Args:
        alias: its name in DATABASES.
        options: added to its OPTIONS.
    """
    connection = connections.create_connection(alias)
    given = dict(connection.settings_dict["OPTIONS"])
    # Django's pool closes its connections around tasks too, and lends them to one thread.
    given.pop("pool", None)
    connection.settings_dict = {
        **connection.settings_dict,
        "OPTIONS": {**_DEFAULTS.get(connection.vendor, {}), **given, **options},
        "AUTOCOMMIT": True,
        "CONN_MAX_AGE": None,
    }
    connection.inc_thread_sharing()
    with connection.wrap_database_errors:
        connection.connect()
    return connection
