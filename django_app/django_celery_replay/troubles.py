"""What a database's error means for a store."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any


class Trouble(Enum):
    """What to do about a database error."""

    CONTENTION = auto()
    """Two transactions met: run this one again."""
    LOST = auto()
    """The connection or the server went away: try a new connection, once."""
    MISSING = auto()
    """A table isn't there."""
    REFUSED = auto()
    """The database does not take what it was given: no second try helps."""


_POSTGRESQL = {
    "40001": Trouble.CONTENTION,  # serialization failure
    "40P01": Trouble.CONTENTION,  # deadlock
    "55P03": Trouble.CONTENTION,  # lock timeout
    "23505": Trouble.CONTENTION,  # unique violation: somebody was faster
    "22012": Trouble.CONTENTION,  # division by zero: a shortcut that did not get all its leases
    "42P01": Trouble.MISSING,
    "26000": Trouble.LOST,  # a prepared statement that is not there
    "42P05": Trouble.LOST,  # a prepared statement that should not be there
    "0A000": Trouble.LOST,  # a prepared statement that a migration made invalid
    "25006": Trouble.LOST,  # a primary that became a standby
}
_MYSQL = {
    1213: Trouble.CONTENTION,  # deadlock
    1205: Trouble.CONTENTION,  # lock timeout
    1020: Trouble.CONTENTION,  # MariaDB: record changed since the snapshot
    1062: Trouble.CONTENTION,  # duplicate key
    1146: Trouble.MISSING,
}


def postgresql(database: Any, error: Exception) -> Trouble:
    """Tell from the SQLSTATE: psycopg and psycopg2."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return _POSTGRESQL.get(state or "") or _by_class(database, error)


def mysql(database: Any, error: Exception) -> Trouble:
    """Tell from the server's error number."""
    number = error.args[0] if error.args else None
    return _MYSQL.get(number) or _by_class(database, error)  # type: ignore[arg-type]


def sqlite(database: Any, error: Exception) -> Trouble:
    """Tell from the message: Python 3.10 has nothing else."""
    text = str(error)
    if "locked" in text or "UNIQUE constraint" in text:
        return Trouble.CONTENTION
    if "no such table" in text:
        return Trouble.MISSING
    if "closed database" in text:
        return Trouble.LOST
    return _by_class(database, error)


def _by_class(database: Any, error: Exception) -> Trouble:
    away = (database.OperationalError, database.InterfaceError)
    return Trouble.LOST if isinstance(error, away) else Trouble.REFUSED


_STALE = {"40001", 1020}
_ENDED = {*_STALE, "40P01", 1213}


def is_ended_by_another(error: Exception) -> bool:
    """Did two transactions meet, and the database end this one? It may go well when it is begun anew.

    Args:
        error: as Django raises it, around the driver's own.
    """
    return _code(error) in _ENDED


def is_stale(error: Exception) -> bool:
    """Was a row changed since this transaction's snapshot, as the database itself sees it?

    Args:
        error: as Django raises it.
    """
    return _code(error) in _STALE


def _code(error: Exception) -> str | int | None:
    cause = error.__cause__
    number = cause.args[0] if cause is not None and cause.args else None
    if isinstance(number, int):
        # MySQL's own number; its SQLSTATE is of a whole class.
        return number
    state: str | None = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state
