"""OPEN, CLOSE, a letter and a step's claim, of a job that meets nobody: each one statement on PostgreSQL.

All parts of one statement see the database as it was when the statement began. That is enough for rows that only the
job's own deliveries write. It is not enough for "is somebody parked behind this job?": a waiter may come while the
UPDATE waits for the lock of the very transaction that parks it. The mark of that is therefore a column of the job,
`waiters`, and PostgreSQL tests a row's own columns again after such a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from celery_replay import dead_letters
from celery_replay.clock import Micros
from celery_replay.facts import Facts
from celery_replay.lifecycle import Ending
from celery_replay.records import Chunk, Job, Letter, StepRecord, evolve
from celery_replay.states import Outcome, StepState
from celery_replay.stores.units import HOUR

from . import leasing, relative
from .blobs import BLOB_COLUMNS, BLOBS, USE_COLUMNS, USES, again
from .blobs import of as blobs_of
from .dialects import PostgreSQL
from .statements import Statements
from .tables import ATTEMPTS, CHUNKS, GROUPS, JOBS, LETTERS, ROWS, STEPS, UNCOUNTED, Table
from .tallies import BAR, TREND, counted, grown
from .values import CLOSED, FAILED, FILED, OPENED, Values

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
GROUP_OF = {
    "group_id": "group_id",
    "operation": "operation",
    "reason": "reason",
    "error_type": "error_type",
    "frames": "frames",
    "error_message": "error_message",
    "newest": "submission",
    "filed": "1",
    "unresolved": "1",
    "first_seen": "last_failed",
    "last_seen": "last_failed",
}
"""The letter's columns that describe its group: `celery_replay.dead_letters.group_of`."""
_UNPARKED = f"NOT EXISTS (SELECT 1 FROM {ROWS.name} WHERE submission = %s)"
_CLAIMED = f"SELECT 1 FROM {STEPS.name} WHERE scope = %s AND state = '{StepState.CLAIMED}'"
_EVER_CLAIMED = f"SELECT 1 FROM {STEPS.name} WHERE scope = %s"
_FILED = f"SELECT 1 FROM {LETTERS.name} WHERE submission = %s"
_OWN = f"submission = %s AND nonce = %s AND claim IS NOT DISTINCT FROM %s AND status = '{Outcome.OPEN}'"
OWNER = JOBS.values(("submission", "nonce", "claim"))
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
        self.filing = cache(self._filing)
        self.claiming = self._claiming()

    def clock(self) -> list[Micros]:
        """Return the parameter that replaces the store's clock, if one does."""
        return [] if self._now is None else [self._now()]

    def close(self, job: Job, after: Facts, ending: Ending, chunks: Sequence[Chunk]) -> tuple[str, list[Any]] | None:
        """Return the statement, with its parameters, that closes a job which is alone; None where none does.

        Args:
            after: what the rules make of it at time zero.
        """
        steps = ending.steps
        counts, values = _along(chunks, steps)
        leased = len(ending.resources)
        if after.job is None or max(*counts, leased) > LIMIT or any(s.state is not StepState.SETTLED for s in steps):
            return None
        submission, nonce, claim = OWNER(job)
        owner = (submission, nonce, claim, submission, claim or submission)
        first = [*self.clock(), *leasing.held(ending.resources, nonce)]
        if after.letter is not None:
            found = None if steps else self._file(after.job, after.letter, owner, (*counts[:2], leased), values)
            return None if found is None else (found[0], [*first, *found[1]])
        if not CLOSED.apply(after.job):
            return None
        settled = (step.step_id for step in steps)
        return self.closing(*counts, leased), [*first, *CLOSED.parameters(after.job), *owner, *settled, *values]

    def _file(
        self, job: Job, letter: Letter, owner: Sequence[Any], counts: tuple[int, int, int], values: Sequence[Any]
    ) -> tuple[str, list[Any]] | None:
        failed = evolve(job, letter=True)
        # The statement sees to it that there are no steps.
        letter = evolve(letter, effect=dead_letters.effect_of(job, letter.message, ()))
        if not (job.status.failing and FAILED.apply(failed) and FILED.apply(letter)):
            return None
        parameters = [
            *FAILED.parameters(failed),
            *owner,
            owner[0],
            *values,
            *FILED.parameters(letter),
            *[LETTERS.encode("group_id", letter.group_id)] * 2,
        ]
        return self.filing(*counts), parameters

    def _opening(self, leased: int) -> str:
        job = f"{self._insert(JOBS, OPENED.sql, 'clock')} WHERE {_UNPARKED}"
        if leased:
            return leasing.opening(self._sql, self._clock, job, leased)
        return f"WITH {self._clock} {job} ON CONFLICT DO NOTHING RETURNING started_at"

    def _closing(self, chunks: int, blobs: int, steps: int, leased: int) -> str:
        settled = f" AND step_id NOT IN ({self._sql.marks(steps)})" if steps else ""
        parts = [*self._work(CLOSED, f"{_CLAIMED}{settled}", leased), *self._along(chunks, blobs, steps)]
        return f"WITH {', '.join(parts)} SELECT 1 FROM work"

    def _work(self, news: Values[Job], unless: str, leased: int) -> list[str]:
        name = self._sql.dialect.name
        changes = ", ".join(f"{name(column)} = {value}" for column, value in news.sql.items())
        alone = f"{_OWN} AND NOT waiters AND NOT letter AND {_UNPARKED} AND NOT EXISTS ({unless})"
        held, let_go = leasing.letting_go(self._sql, leased) if leased else ([], [])
        alone += leasing.all_held(leased) if leased else ""
        kept = ", ".join(f"job.{name(column)}" for column in ATTEMPT_OF.values())
        attempt = {**{ended: name(column) for ended, column in ATTEMPT_OF.items()}, "note": "''"}
        return [
            self._clock,
            *held,
            f"work AS (UPDATE {JOBS.name} AS job SET {changes} FROM clock WHERE {alone} RETURNING {kept})",
            f"attempt AS ({self._insert(ATTEMPTS, attempt, 'work')})",
            *let_go,
        ]

    def _filing(self, chunks: int, blobs: int, leased: int) -> str:
        dialect = self._sql.dialect
        groups = f"SELECT group_id FROM {GROUPS.name} WHERE group_id = %s"
        free = f"EXISTS (SELECT 1 FROM mine) OR NOT EXISTS ({groups})"
        tally = f"{self._insert(GROUPS, GROUP_OF, 'letter')} WHERE {free}{counted(dialect)}"
        uncounted = f"{self._insert(UNCOUNTED, GROUP_OF, 'letter')} WHERE NOT EXISTS (SELECT 1 FROM tally)"
        hour = f"last_seen - mod(last_seen, {HOUR})"
        bar = f"SELECT group_id || ':' || ({hour}), group_id, {hour}, 1 FROM tally"
        parts = [
            *self._work(FAILED, f"{_EVER_CLAIMED} UNION ALL {_FILED}", leased),
            *self._along(chunks, blobs, 0),
            f"letter AS ({self._insert(LETTERS, FILED.sql, 'clock, work')} RETURNING *)",
            f"mine AS MATERIALIZED ({groups}{dialect.skip_locked})",
            f"tally AS ({tally} RETURNING group_id, last_seen)",
            f"bar AS (INSERT INTO {TREND} ({BAR}) {bar}{grown(dialect)})",
            f"uncounted AS ({uncounted})",
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
            + again(self._sql, columns[0])
            for table, columns in ((BLOBS, BLOB_COLUMNS), (USES, USE_COLUMNS))
        )
        many = (("chunk", chunk, chunks), ("blob", blob, blobs), ("use", use, blobs), ("step", step, steps))
        return [f"{kind}{n} AS ({sql})" for kind, sql, count in many for n in range(count)]

    def _beside(self, table: Table[Any]) -> str:
        insert = self._insert(table, dict.fromkeys(table.columns, "%s"), "work")
        return insert + self._sql.dialect.upsert(table.key, table.columns)


def _along(chunks: Sequence[Chunk], steps: Sequence[StepRecord]) -> tuple[tuple[int, int, int], list[Any]]:
    """Return how many chunks, blobs and steps go along, and their values."""
    blobs = blobs_of(chunks)
    values = [value for chunk in chunks for value in CHUNKS.row(chunk)]
    values += [value for blob, _ in blobs for value in blob]
    values += [value for _, use in blobs for value in use]
    for step in steps:
        values += STEPS.row(step)
    return (len(chunks), len(blobs), len(steps)), values
