"""OPEN, CLOSE and a step's claim, of a job that meets nobody: each one statement on PostgreSQL.

All parts of one statement see the database as it was when the statement began. That is enough for rows that only the
job's own deliveries write. It is not enough for "is somebody parked behind this job?": a waiter may come while the
UPDATE waits for the lock of the very transaction that parks it. The mark of that is therefore a column of the job,
`waiters`, and PostgreSQL tests a row's own columns again after such a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from celery_replay.clock import Micros
from celery_replay.records import Chunk, StepRecord
from celery_replay.states import Outcome, StepState

from . import relative
from .dialects import PostgreSQL
from .models import Blob
from .statements import Statements
from .tables import ATTEMPTS, CHUNKS, JOBS, ROWS, STEPS, Table

CLOSING = (
    "status",
    "lease_until",
    "canvas_advanced",
    "unsettled",
    "strikes",
    "message",
    "canvas_unknown",
    "result",
    "result_lost",
    "failure",
    *relative.CLOSED,
    "reap_at",
)
"""Columns that CLOSE may change where it files no letter."""
_UNPARKED = f"NOT EXISTS (SELECT 1 FROM {ROWS.name} WHERE submission = %s)"
_CLAIMED = f"SELECT 1 FROM {STEPS.name} WHERE scope = %s AND state = '{StepState.CLAIMED}'"
_OWN = f"submission = %s AND nonce = %s AND claim IS NOT DISTINCT FROM %s AND status = '{Outcome.OPEN}'"
LIMIT = 8
"""Chunks, blobs or steps that go along with a statement; more take the long way."""


class Shortcuts:
    """The statements, by the number of things that go along."""

    def __init__(self, statements: Statements, now: Callable[[], Micros] | None) -> None:
        self._sql = statements
        self._now = now
        clock = PostgreSQL.clock if now is None else "%s::bigint"
        self._clock = f"clock AS MATERIALIZED (SELECT {clock} AS now)"
        self.opening = cache(self._opening)
        self.closing = cache(self._closing)
        self.claiming = self._claiming()

    def clock(self) -> list[Micros]:
        """Return the parameter that replaces the store's clock, if one does."""
        return [] if self._now is None else [self._now()]

    def _values(self, table: Table[Any], moving: tuple[str, ...]) -> str:
        return ", ".join("%s + clock.now" if name in moving else "%s" for name in table.columns)

    def _opening(self, chunks: int, blobs: int) -> str:
        job = self._insert(JOBS, (*relative.OPENED, "reap_at"), "clock")
        parts = [
            self._clock,
            f"work AS ({job} WHERE {_UNPARKED} ON CONFLICT DO NOTHING RETURNING started_at AS now)",
            *self._along(chunks, blobs),
        ]
        return f"WITH {', '.join(parts)} SELECT now FROM work"

    def _closing(self, chunks: int, blobs: int, steps: int) -> str:
        name = self._sql.dialect.name
        news = ", ".join(
            f"{name(c)} = %s + clock.now" if c in (*relative.CLOSED, "reap_at") else f"{name(c)} = %s" for c in CLOSING
        )
        settled = f" AND step_id NOT IN ({self._sql.marks(steps)})" if steps else ""
        alone = f"{_OWN} AND NOT waiters AND NOT letter AND {_UNPARKED} AND NOT EXISTS ({_CLAIMED}{settled})"
        parts = [
            self._clock,
            f"work AS (UPDATE {JOBS.name} AS job SET {news} FROM clock WHERE {alone} RETURNING job.closed_at AS now)",
            f"attempt AS ({self._insert(ATTEMPTS, relative.ENDED, 'work AS clock')})",
            *self._along(chunks, blobs, steps),
        ]
        return f"WITH {', '.join(parts)} SELECT now FROM work"

    def _claiming(self) -> str:
        new = f"NOT EXISTS (SELECT 1 FROM {STEPS.name} WHERE step_id = %s)"
        parts = [
            self._clock,
            f"work AS (UPDATE {JOBS.name} SET unsettled = TRUE WHERE {_OWN} AND {new} RETURNING submission)",
            f"step AS ({self._insert(STEPS, relative.CLAIMED, 'clock, work')} RETURNING claimed_at AS now)",
        ]
        return f"WITH {', '.join(parts)} SELECT now FROM step"

    def _insert(self, table: Table[Any], moving: tuple[str, ...], source: str) -> str:
        columns = self._sql.columns(table.columns)
        return f"INSERT INTO {table.name} ({columns}) SELECT {self._values(table, moving)} FROM {source}"

    def _along(self, chunks: int, blobs: int, steps: int = 0) -> list[str]:
        upsert = self._sql.dialect.upsert
        chunk = self._insert(CHUNKS, (), "work") + upsert(CHUNKS.key, CHUNKS.columns)
        step = self._insert(STEPS, (), "work") + upsert(STEPS.key, STEPS.columns)
        blob = f"INSERT INTO {Blob._meta.db_table} (reference, body) SELECT %s, %s FROM work ON CONFLICT DO NOTHING"
        many = (("chunk", chunk, chunks), ("blob", blob, blobs), ("step", step, steps))
        return [f"{kind}{n} AS ({sql})" for kind, sql, count in many for n in range(count)]


def along(chunks: Sequence[Chunk], steps: Sequence[StepRecord] = ()) -> tuple[tuple[int, int, int], list[Any]]:
    """Return how many chunks, blobs and steps go along, and their values."""
    blobs = {reference: body for chunk in chunks for reference, body in chunk.blobs}
    values = [value for chunk in chunks for value in CHUNKS.row(chunk)]
    for reference, body in blobs.items():
        values += (reference, body)
    for step in steps:
        values += STEPS.row(step)
    return (len(chunks), len(blobs), len(steps)), values
