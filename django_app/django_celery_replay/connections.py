"""Connections of the store's own.

Celery's Django fixup closes every registered connection before and after each task, and bookkeeping has to survive the
rollback of the task's transaction: so these are never registered with Django. A process normally needs one; a heartbeat
or pool threads take more, up to a bound, and wait for their turn beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

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
