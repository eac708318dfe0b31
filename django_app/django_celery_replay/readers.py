"""Looks at what is stored, without locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from celery_replay.records import AttemptRecord, Chunk, Job, Letter, Row
from celery_replay.stores.base import Reader

from .models import Blob
from .statements import Statements
from .tables import ATTEMPTS, CHUNKS, JOBS, LETTERS, ROWS, Table
from .text import token

Query = Callable[[str, Sequence[Any]], list[Any]]


class SqlReader(Reader):
    """Plain queries, each on its own.

    Args:
        query: runs one on any connection.
    """

    def __init__(self, query: Query, statements: Statements) -> None:
        self._query = query
        self._sql = statements

    def _all(self, table: Table[Any], tail: str, **wanted: str) -> list[Any]:
        sql = self._sql.select(table, tuple(wanted), tail)
        values = [table.encode(name, value) for name, value in wanted.items()]
        return [table.read(row) for row in self._query(sql, values)]

    def jobs(self, wanted: dict[str, str], limit: int) -> Sequence[Job]:
        """Find jobs, newest first."""
        return self._all(JOBS, f" ORDER BY started_at DESC LIMIT {int(limit)}", **wanted)

    def attempts(self, submission: str) -> Sequence[AttemptRecord]:
        """Read a job's attempts, in their order."""
        return self._all(ATTEMPTS, " ORDER BY started_at", submission=submission)

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Read a trace's events, attempt by attempt."""
        first = self._sql.dialect.name("first")
        return self._all(CHUNKS, f" ORDER BY nonce, {first}", trace_id=trace_id)

    def blob(self, reference: str) -> bytes | None:
        """Read a large value."""
        sql = f"SELECT body FROM {Blob._meta.db_table} WHERE reference = {self._sql.dialect.mark}"
        found = self._query(sql, [token(reference)])
        return bytes(found[0][0]) if found else None

    def rows(self, limit: int) -> Sequence[Row]:
        """Read the parking lot, oldest first."""
        return self._all(ROWS, f" ORDER BY parked_at LIMIT {int(limit)}")

    def letters(self, limit: int) -> Sequence[Letter]:
        """Read dead letters, newest first."""
        return self._all(LETTERS, f" ORDER BY last_failed DESC LIMIT {int(limit)}")
