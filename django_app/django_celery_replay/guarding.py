"""What fences and markers share: SQL on the connection of the guarded transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from django.conf import settings
from django.db import DatabaseError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from celery_replay.exceptions import ConfigurationError

from .troubles import is_ended_by_another

T = TypeVar("T")

_MISSING = ("no such table", "does not exist", "doesn't exist")
_TRIES = 25
"""How often a transaction is begun. Each time but the last, somebody else's has gone through."""


def check(aliases: Sequence[str]) -> None:
    """See that there are such databases, each another one; does nothing before Django's settings are loaded.

    Raises:
        ConfigurationError: the message says what is wrong, and which there are.
    """
    if not settings.configured:
        return
    seen: dict[tuple[str, ...], str] = {}
    for alias in aliases:
        if alias not in connections.settings:
            known = ", ".join(sorted(connections.settings))
            raise ConfigurationError(f"DATABASES has no {alias!r}; name one of {known}, or add it there")
        entry = connections.settings[alias]
        place = tuple(str(entry.get(name) or "") for name in ("ENGINE", "HOST", "PORT", "NAME"))
        other = seen.setdefault(place, alias)
        if other != alias:
            # Their markers would be one row, for which the second transaction would wait for ever.
            raise ConfigurationError(f"{other!r} and {alias!r} are one database; name one of them")


@contextmanager
def guarded(using: str, first: Callable[[BaseDatabaseWrapper], T]) -> Iterator[T]:
    """Begin a transaction on a business database.

    Where it meets another one at its first statement, the database may end it instead of letting it wait: PostgreSQL
    from REPEATABLE READ on, as its snapshot is older than what it waited for; MariaDB by a deadlock of those who
    waited for a row that nobody made. Nothing was done by then, so it is begun anew. Inside of an open transaction that
    is not for us to do, and the database's error is raised.

    Args:
        first: its first statement.

    Raises:
        ConfigurationError: there is no such database.
    """
    check([using])
    with ExitStack() as stack:
        yield _begin(stack, using, first)


def _begin(stack: ExitStack, using: str, first: Callable[[BaseDatabaseWrapper], T]) -> T:
    connection = connections[using]
    is_open = connection.in_atomic_block or not connection.get_autocommit()
    tries = 1 if is_open else _TRIES
    while True:
        tries -= 1
        try:
            with ExitStack() as begun:
                begun.enter_context(transaction.atomic(using=using))
                found = first(connection)
                stack.push(begun.pop_all())
                return found
        except OperationalError as error:
            if not tries or not is_ended_by_another(error):
                raise


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
