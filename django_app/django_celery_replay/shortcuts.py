"""OPEN, CLOSE and a step's claim, of a job that meets nobody: each one statement on PostgreSQL.

All parts of one statement see the database as it was when the statement began. That is enough for rows that only the
job's own deliveries write. It is not enough for "is somebody parked behind this job?": a waiter may come while the
UPDATE waits for the lock of the very transaction that parks it. The mark of that is therefore a column of the job,
`waiters`, and PostgreSQL tests a row's own columns again after such a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from celery_replay.clock import Micros
from celery_replay.records import Chunk, Job, StepRecord
from celery_replay.states import Outcome, StepState

from . import relative
from .blobs import BLOB_COLUMNS, BLOBS, USE_COLUMNS, USES
from .blobs import of as blobs_of
from .dialects import PostgreSQL
from .statements import Statements
from .tables import ATTEMPTS, CHUNKS, JOBS, ROWS, STEPS, Table

FRESH = {
    "status": Outcome.OPEN,
    "reserved_until": None,
    "canvas_advanced": False,
    "canvas_until": None,
    "attempts": 1,
    "strikes": 0,
    "waiters": False,
    "letter": False,
    "canvas_unknown": False,
    "result": None,
    "result_lost": False,
    "failure": None,
    "origin": None,
    "original": None,
    "closed_at": None,
}
"""What is the same for every job that OPEN sees for the first time."""
DONE = {"lease_until": None, "strikes": 0, "message": None, "canvas_unknown": False, "failure": None}
"""What is the same for every job whose CLOSE files no letter."""
CLOSING = ("status", "canvas_advanced", "unsettled", "result", "result_lost", *relative.CLOSED, "reap_at", *DONE)
"""Columns that CLOSE may change where it files no letter."""
ATTEMPT_OF = {
    "nonce": "nonce",
    "submission": "submission",
    "trace_id": "trace_id",
    "operation": "operation",
    "generation": "generation",
    "outcome": "status",
    "fence": "fence",
    "worker": "worker",
    "pid": "pid",
    "started_at": "started_at",
    "ended_at": "closed_at",
}
"""The job's columns that describe its attempt, once it is closed: `celery_replay.facts.attempt_of`."""
_UNPARKED = f"NOT EXISTS (SELECT 1 FROM {ROWS.name} WHERE submission = %s)"
_CLAIMED = f"SELECT 1 FROM {STEPS.name} WHERE scope = %s AND state = '{StepState.CLAIMED}'"
_OWN = f"submission = %s AND nonce = %s AND claim IS NOT DISTINCT FROM %s AND status = '{Outcome.OPEN}'"
LIMIT = 8
"""Chunks, blobs or steps that go along with a statement; more take the long way."""


class Values:
    """How a job's columns get into a statement: as parameters, some as distances from the clock; or as literals.

    A parameter costs a microsecond on its way, and most columns of a job that nothing has happened to are the same.

    Args:
        names: the columns.
        moving: those whose parameter is a distance from the clock.
        fixed: those that are written into the statement, with what they are.
    """

    def __init__(self, names: Sequence[str], moving: Sequence[str], fixed: Mapping[str, Any]) -> None:
        given = [name for name in names if name not in fixed]
        self._fixed = attrgetter(*fixed)
        self._wanted = tuple(fixed.values())
        self._given = JOBS.values(given)
        self.sql = {name: "%s + clock.now" if name in moving else "%s" for name in given}
        self.sql.update((name, _literal(JOBS.encode(name, value))) for name, value in fixed.items())

    def apply(self, job: Job) -> bool:
        """Are the job's fixed columns what the statement says?"""
        return bool(self._fixed(job) == self._wanted)

    def parameters(self, job: Job) -> list[Any]:
        """Return the parameters, in the order of `sql`."""
        return self._given(job)


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    return str(value) if isinstance(value, int) else f"'{value}'"


OPENED = Values(JOBS.columns, (*relative.OPENED, "reap_at"), FRESH)
CLOSED = Values(CLOSING, (*relative.CLOSED, "reap_at"), DONE)


class Shortcuts:
    """The statements, by the number of things that go along."""

    def __init__(self, statements: Statements, now: Callable[[], Micros] | None) -> None:
        self._sql = statements
        self._now = now
        clock = PostgreSQL.clock if now is None else "%s::bigint"
        self._clock = f"clock AS MATERIALIZED (SELECT {clock} AS now)"
        self.opening = self._opening()
        self.closing = cache(self._closing)
        self.claiming = self._claiming()

    def clock(self) -> list[Micros]:
        """Return the parameter that replaces the store's clock, if one does."""
        return [] if self._now is None else [self._now()]

    def _opening(self) -> str:
        job = self._insert(JOBS, OPENED.sql, "clock")
        return f"WITH {self._clock} {job} WHERE {_UNPARKED} ON CONFLICT DO NOTHING RETURNING started_at"

    def _closing(self, chunks: int, blobs: int, steps: int) -> str:
        name = self._sql.dialect.name
        news = ", ".join(f"{name(column)} = {value}" for column, value in CLOSED.sql.items())
        settled = f" AND step_id NOT IN ({self._sql.marks(steps)})" if steps else ""
        alone = f"{_OWN} AND NOT waiters AND NOT letter AND {_UNPARKED} AND NOT EXISTS ({_CLAIMED}{settled})"
        kept = ", ".join(f"job.{name(column)}" for column in ATTEMPT_OF.values())
        attempt = {**{ended: name(column) for ended, column in ATTEMPT_OF.items()}, "note": "''"}
        parts = [
            self._clock,
            f"work AS (UPDATE {JOBS.name} AS job SET {news} FROM clock WHERE {alone} RETURNING {kept})",
            f"attempt AS ({self._insert(ATTEMPTS, attempt, 'work')})",
            *self._along(chunks, blobs, steps),
        ]
        return f"WITH {', '.join(parts)} SELECT 1 FROM work"

    def _claiming(self) -> str:
        new = f"NOT EXISTS (SELECT 1 FROM {STEPS.name} WHERE step_id = %s)"
        step = {name: "%s + clock.now" if name in relative.CLAIMED else "%s" for name in STEPS.columns}
        parts = [
            self._clock,
            f"work AS (UPDATE {JOBS.name} SET unsettled = TRUE WHERE {_OWN} AND {new} RETURNING submission)",
            f"step AS ({self._insert(STEPS, step, 'clock, work')} RETURNING claimed_at AS now)",
        ]
        return f"WITH {', '.join(parts)} SELECT now FROM step"

    def _insert(self, table: Table[Any], values: Mapping[str, str], source: str) -> str:
        columns = self._sql.columns(tuple(values))
        return f"INSERT INTO {table.name} ({columns}) SELECT {', '.join(values.values())} FROM {source}"

    def _along(self, chunks: int, blobs: int, steps: int) -> list[str]:
        chunk, step = self._beside(CHUNKS), self._beside(STEPS)
        blob, use = (
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {self._sql.marks(len(columns))} FROM work"
            " ON CONFLICT DO NOTHING"
            for table, columns in ((BLOBS, BLOB_COLUMNS), (USES, USE_COLUMNS))
        )
        many = (("chunk", chunk, chunks), ("blob", blob, blobs), ("use", use, blobs), ("step", step, steps))
        return [f"{kind}{n} AS ({sql})" for kind, sql, count in many for n in range(count)]

    def _beside(self, table: Table[Any]) -> str:
        insert = self._insert(table, dict.fromkeys(table.columns, "%s"), "work")
        return insert + self._sql.dialect.upsert(table.key, table.columns)


def along(chunks: Sequence[Chunk], steps: Sequence[StepRecord]) -> tuple[tuple[int, int, int], list[Any]]:
    """Return how many chunks, blobs and steps go along, and their values."""
    blobs = blobs_of(chunks)
    values = [value for chunk in chunks for value in CHUNKS.row(chunk)]
    values += [value for blob, _ in blobs for value in blob]
    values += [value for _, use in blobs for value in use]
    for step in steps:
        values += STEPS.row(step)
    return (len(chunks), len(blobs), len(steps)), values
