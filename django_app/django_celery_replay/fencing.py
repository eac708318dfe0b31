"""Fences: a transaction that the database refuses once a newer owner was there.

A check of the lease before the write is not enough: the process may be stopped for any time between the two. Here the
check and the write commit together, and two owners at once wait for each other on the fence's row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from celery_replay.guards import refusal

from .guarding import execute, guarded
from .models import Fence
from .text import token as token_text

_TABLE = Fence._meta.db_table
_INSERT = f"INSERT INTO {_TABLE} (name, token) VALUES (%s, %s)"
_UPSERT = f"{_INSERT} ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE {_TABLE}.token <= excluded.token"
_MYSQL = f"{_INSERT} ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))"


def register_fence(using: str, name: str, token: int) -> None:
    """Register a token as the newest, as the first statement of the guarded transaction.

    Args:
        using: alias of the database that the effect is written to.
        name: what is guarded.
        token: the owner's; an equal one is let through, so that one attempt may write several times.

    Raises:
        FenceRefused: a newer token is registered.
    """
    _register_or_refuse(connections[using], name, token)


def _register_or_refuse(connection: BaseDatabaseWrapper, name: str, token: int) -> None:
    accepted = _register_mysql if connection.vendor == "mysql" else _register
    if not accepted(connection, token_text(name), token):
        raise refusal(name, f"database {connection.alias!r}", token)


def _register(connection: BaseDatabaseWrapper, name: str, token: int) -> bool:
    touched, _ = execute(connection, _UPSERT, [name, token])
    return touched == 1


def _register_mysql(connection: BaseDatabaseWrapper, name: str, token: int) -> bool:
    # Its rowcount does not tell an update from none. The row is locked by now, so a look is safe; but one that does not
    # lock would be answered from the snapshot of a transaction that has read before.
    execute(connection, _MYSQL, [name, token])
    _, found = execute(connection, f"SELECT token FROM {_TABLE} WHERE name = %s FOR UPDATE", [name])
    return bool(found and found[0] == token)


@contextmanager
def fenced(using: str, name: str, token: int) -> Iterator[None]:
    """Begin a transaction that a newer owner's token refuses.

    Raises:
        FenceRefused: the database has seen a newer token.
    """
    with guarded(using, lambda connection: _register_or_refuse(connection, name, token)):
        yield
