"""What fences and markers share: SQL on the connection of the guarded transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from celery_replay.exceptions import ConfigurationError

_MISSING = ("no such table", "does not exist", "doesn't exist")


@contextmanager
def guarded(using: str) -> Iterator[BaseDatabaseWrapper]:
    """Begin a transaction on a business database.

    Raises:
        ConfigurationError: there is no such database.
    """
    if using not in connections.settings:
        raise ConfigurationError(f"`atomic` or `fenced` names the database {using!r}, which is not in DATABASES")
    with transaction.atomic(using=using):
        yield connections[using]


def execute(connection: BaseDatabaseWrapper, sql: str, values: Sequence[Any]) -> tuple[int, Any]:
    """Run one statement; return how many rows it touched, and the first that it found.

    Raises:
        ConfigurationError: our table is not in this database.
    """
    with connection.cursor() as cursor:
        try:
            cursor.execute(sql, values)
        except DatabaseError as error:
            if not any(words in str(error) for words in _MISSING):
                raise
            raise ConfigurationError(
                f"database {connection.alias!r} has no tables for fences and markers; run `manage.py migrate "
                f"django_celery_replay --database {connection.alias}`, and see django_celery_replay.models.guards "
                "if a router keeps the app out of this database"
            ) from error
        return cursor.rowcount, cursor.fetchone() if cursor.description else None
