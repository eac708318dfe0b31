"""Markers: an effect and the record that it happened, in one transaction of the business database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db.backends.base.base import BaseDatabaseWrapper

from celery_replay.clock import Micros, wall
from celery_replay.exceptions import RolledBack

from .guarding import execute, guarded
from .models import Marker as MarkerRow
from .text import restored, stored, token

_TABLE = MarkerRow._meta.db_table
_INSERT = f"INSERT INTO {_TABLE} (identity, nonce, marked_at) VALUES (%s, %s, %s)"
_NEW = {
    "mysql": f"{_INSERT} ON DUPLICATE KEY UPDATE identity = identity",
}
_NEW_ELSEWHERE = f"{_INSERT} ON CONFLICT DO NOTHING"
_LOOK = f"SELECT nonce, result FROM {_TABLE} WHERE identity = %s"
_LOOK_AND_LOCK = f"{_LOOK} FOR UPDATE"
_COMPLETE = f"UPDATE {_TABLE} SET result = %s WHERE identity = %s"
_ERASE = f"UPDATE {_TABLE} SET result = NULL WHERE identity = %s"


class Marker:
    """The record of one effect, within its transaction."""

    def __init__(self, connection: BaseDatabaseWrapper, identity: str, done: bool, result: str | None) -> None:
        self.done = done
        """An earlier transaction committed the effect."""
        self.result = result
        """Its return value as JSON."""
        self._connection = connection
        self._identity = identity

    def complete(self, result: str | None) -> None:
        """Keep the return value; it commits with the effect.

        Raises:
            RolledBack: the transaction was marked for rollback while the body went on.
        """
        self.refuse_doomed()
        self.result = result
        if result is not None:
            execute(self._connection, _COMPLETE, [stored(result), self._identity])

    def refuse_doomed(self) -> None:
        """See that the transaction can still be committed.

        Raises:
            RolledBack: it can't.
        """
        if self._connection.needs_rollback or is_aborted(self._connection):
            raise RolledBack


@contextmanager
def marked(using: str, identity: str, nonce: str) -> Iterator[Marker]:
    """Begin a transaction with a unique row as its first statement.

    A second transaction for the same identity waits there for the first: it sees the effect as done where the first
    commits, and does it itself where the first fails.

    Args:
        using: alias of the database that the effect is written to.
        identity: names the effect.
        nonce: names the attempt.

    Raises:
        RolledBack: the transaction was marked for rollback while the body went on.
    """
    identity = token(identity)
    with guarded(using, lambda connection: _mark(connection, identity, nonce)) as marker:
        yield marker
        marker.refuse_doomed()


def _mark(connection: BaseDatabaseWrapper, identity: str, nonce: str) -> Marker:
    values = [identity, token(nonce), wall()]
    touched, _ = execute(connection, _NEW.get(connection.vendor, _NEW_ELSEWHERE), values)
    is_mysql = connection.vendor == "mysql"
    if touched == 1 and not is_mysql:
        return Marker(connection, identity, done=False, result=None)
    # MySQL's rowcount does not tell an insert from none, and its plain SELECT may be answered from an older snapshot.
    _, found = execute(connection, _LOOK_AND_LOCK if is_mysql else _LOOK, [identity])
    if found and found[0] == values[1]:
        return Marker(connection, identity, done=False, result=None)
    result = found[1] if found else None
    return Marker(connection, identity, done=True, result=None if result is None else restored(result))


def is_aborted(connection: BaseDatabaseWrapper) -> bool:
    """Has PostgreSQL given the transaction up? It would answer COMMIT with a rollback, and Django not notice."""
    info = getattr(connection.connection, "info", None)
    status = getattr(info, "transaction_status", None)
    return status is not None and int(status) == 3  # PQTRANS_INERROR


def erase(using: str, identity: str) -> None:
    """Erase the return value that a marker keeps; that the effect was done stays.

    Raises:
        ConfigurationError: there is no such database, or our tables are not in it.
    """
    with guarded(using, lambda connection: execute(connection, _ERASE, [token(identity)])):
        pass


def forget(using: str, before: Micros, limit: int = 1000) -> int:
    """Delete one batch of markers made before a time; return how many went.

    A marker must outlive the idempotency window of its key: what is forgotten here can happen again.
    """
    old = MarkerRow.objects.using(using).filter(marked_at__lt=before).order_by("marked_at")
    identities = list(old.values_list("identity", flat=True)[:limit])
    MarkerRow.objects.using(using).filter(identity__in=identities).delete()
    return len(identities)
