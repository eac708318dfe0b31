"""Looks at what is stored, without locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from celery_replay.clock import Micros
from celery_replay.records import (
    AttemptRecord,
    Chunk,
    Group,
    HistoryEntry,
    Holding,
    Job,
    Lease,
    Letter,
    Operation,
    Placed,
    Portion,
    Row,
    StepRecord,
)
from celery_replay.states import LeaseEnd, LetterState
from celery_replay.stores.reading import Look, Position, Reader

from . import blobs, lines
from .batches import forgettable
from .models import Blob, Lead, LetterTrend
from .statements import BY_CLAIM, Statements
from .tables import (
    ATTEMPTS,
    CHUNKS,
    GROUPS,
    HISTORY,
    HOLDINGS,
    JOBS,
    LEASES,
    LETTERS,
    OPERATIONS,
    PLACED,
    PORTIONS,
    ROWS,
    STEPS,
    UNCOUNTED,
    Table,
)
from .text import restored, stored, token

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

    def job(self, submission: str) -> Job | None:
        """Read a job."""
        return next(iter(self._all(JOBS, "", submission=submission)), None)

    def row(self, submission: str) -> Row | None:
        """Read a parked delivery."""
        return next(iter(self._all(ROWS, "", submission=submission)), None)

    def letter(self, submission: str) -> Letter | None:
        """Read a dead letter."""
        return next(iter(self._all(LETTERS, "", submission=submission)), None)

    def steps(self, scope: str) -> Sequence[StepRecord]:
        """Read the steps of a key or job, in the order of their claims."""
        return self._all(STEPS, BY_CLAIM, scope=scope)

    def _page(self, table: Table[Any], time: str, look: Look, only: str = "") -> list[Any]:
        """Find one page; the order is an index's, so that a page costs what it skips and shows."""
        name = self._sql.dialect.name
        conditions = [*self._conditions(table, time, look), *([(only, [])] if only else [])]
        where = f" WHERE {' AND '.join(sql for sql, _ in conditions)}" if conditions else ""
        order = f" ORDER BY {name(time)} DESC, {name(table.key)} DESC LIMIT {int(look.limit)}"
        values = [value for _, values in conditions for value in values]
        return [table.read(row) for row in self._query(self._sql.select(table, (), where + order), values)]

    def _conditions(self, table: Table[Any], time: str, look: Look) -> Iterator[tuple[str, list[Any]]]:
        dialect = self._sql.dialect
        mark, at, key = dialect.mark, dialect.name(time), dialect.name(table.key)
        for name, value in look.wanted.items():
            yield f"{dialect.name(name)} = {mark}", [table.encode(name, value)]
        if look.since is not None:
            yield f"{at} >= {mark}", [look.since]
        if look.before is not None:
            last, submission = look.before
            # Twice about the time: the first part is one that an index can begin with.
            yield f"{at} <= {mark} AND ({at} < {mark} OR {key} < {mark})", [last, last, token(submission)]
        if look.error:
            held = f"{dialect.holds('error_type')} OR {dialect.holds('error_message')}"
            yield f"({held})", [dialect.part(stored(look.error))] * 2

    def jobs(self, look: Look) -> Sequence[Job]:
        """Find jobs, newest first."""
        return self._page(JOBS, "started_at", look)

    def owners(self, identities: Sequence[str]) -> Sequence[Job]:
        """Find the jobs that others wait for."""
        marks = self._sql.marks(len(identities))
        values = [token(identity) for identity in identities]
        sql = self._sql.select(JOBS, (), f" WHERE claim IN ({marks}) OR submission IN ({marks})")
        return [JOBS.read(row) for row in self._query(sql, values * 2)]

    def jobs_named(self, submissions: Sequence[str]) -> Sequence[Job]:
        """Read jobs by their submissions."""
        return self._among(JOBS, "submission", submissions)

    def steps_of(self, scopes: Sequence[str]) -> Sequence[StepRecord]:
        """Read the steps of keys and jobs."""
        return self._among(STEPS, "scope", scopes, " ORDER BY claimed_at, step_id")

    def _among(self, table: Table[Any], name: str, values: Sequence[str], tail: str = "") -> list[Any]:
        where = f" WHERE {self._sql.dialect.name(name)} IN ({self._sql.marks(len(values))})"
        found = self._query(self._sql.select(table, (), where + tail), [table.encode(name, v) for v in values])
        return [table.read(row) for row in found]

    def attempts(self, submission: str) -> Sequence[AttemptRecord]:
        """Read a job's attempts, in their order."""
        return self._all(ATTEMPTS, " ORDER BY started_at, fence", submission=submission)

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Read a trace's events, attempt by attempt."""
        first = self._sql.dialect.name("first")
        return self._all(CHUNKS, f" ORDER BY nonce, {first}", trace_id=trace_id)

    def blobs(self, references: Sequence[str]) -> Mapping[str, bytes]:
        """Read large values."""
        wanted = {token(reference): reference for reference in references}
        sql = f"SELECT reference, body FROM {Blob._meta.db_table} WHERE reference IN ({self._sql.marks(len(wanted))})"
        return {wanted[row[0]]: bytes(row[1]) for row in self._query(sql, [*wanted])}

    def oldest_jobs(self, after: str, until: Micros, limit: int) -> tuple[Sequence[Job], str]:
        """Find the next jobs, oldest first."""
        at, _, last = after.partition("/")
        mark = self._sql.dialect.mark
        more = f" AND started_at >= {mark} AND (started_at > {mark} OR submission > {mark})" if after else ""
        tail = f" WHERE started_at <= {mark}{more} ORDER BY started_at, submission LIMIT {int(limit)}"
        values = [until, *([int(at), int(at), token(last)] if after else [])]
        jobs = [JOBS.read(row) for row in self._query(self._sql.select(JOBS, (), tail), values)]
        return jobs, f"{jobs[-1].started_at}/{jobs[-1].submission}" if len(jobs) == limit else ""

    def jobs_of_trace(self, trace_id: str) -> Sequence[Job]:
        """Find all jobs of a trace."""
        return self._all(JOBS, "", trace_id=trace_id)

    def trace_size(self, trace_id: str) -> int:
        """Sum up a trace's events and large values."""
        mark = self._sql.dialect.mark
        own = f"SELECT reference FROM {blobs.USES} WHERE trace_id = {mark}"
        sizes = (
            f"SELECT SUM(LENGTH(body)) FROM {CHUNKS.name} WHERE trace_id = {mark}",
            f"SELECT SUM(LENGTH(body)) FROM {blobs.BLOBS} WHERE reference IN ({own})",
        )
        return sum(int(self._query(sql, [CHUNKS.encode("trace_id", trace_id)])[0][0] or 0) for sql in sizes)

    def unplaced(self, limit: int) -> Sequence[tuple[str, bytes]]:
        """Read large values that may go elsewhere."""
        found = self._query(blobs.unplaced(self._sql, limit), [])
        return [(restored(reference), bytes(body)) for reference, body in found]

    def placed_due(self, now: Micros, limit: int) -> Sequence[Placed]:
        """Read objects elsewhere that are to be looked at."""
        tail = f" WHERE look_at <= {self._sql.dialect.mark} ORDER BY look_at LIMIT {int(limit)}"
        return [PLACED.read(row) for row in self._query(self._sql.select(PLACED, (), tail), [now])]

    def rows(self, limit: int, after: Position | None = None) -> Sequence[Row]:
        """Read the parking lot, oldest first."""
        at, submission, mark = "parked_at", "submission", self._sql.dialect.mark
        where = f" WHERE {at} >= {mark} AND ({at} > {mark} OR {submission} > {mark})" if after else ""
        values = [after[0], after[0], token(after[1])] if after else []
        sql = self._sql.select(ROWS, (), f"{where} ORDER BY {at}, {submission} LIMIT {int(limit)}")
        return [ROWS.read(row) for row in self._query(sql, values)]

    def letters(self, look: Look) -> Sequence[Letter]:
        """Find dead letters, newest first."""
        return self._page(LETTERS, "last_failed", look)

    def standing(self, submissions: Sequence[str]) -> Sequence[tuple[str, LetterState, str]]:
        """Read where dead letters stand, without their messages."""
        which = f"submission IN ({self._sql.marks(len(submissions))})"
        sql = f"SELECT submission, state, replay FROM {LETTERS.name} WHERE {which}"
        found = self._query(sql, [token(submission) for submission in submissions])
        return [(restored(row[0]), LetterState(row[1]), restored(row[2])) for row in found]

    def groups(self, look: Look, *, unresolved: bool) -> Sequence[Group]:
        """Find groups, newest first."""
        return self._page(GROUPS, "last_seen", look, "unresolved > 0" if unresolved else "")

    def group(self, group_id: str) -> Group | None:
        """Read a group."""
        return next(iter(self._all(GROUPS, "", group_id=group_id)), None)

    def trend(self, group_ids: Sequence[str], since: Micros) -> Sequence[tuple[str, Micros, int]]:
        """Read the hours of some groups."""
        mark = self._sql.dialect.mark
        which = f"group_id IN ({self._sql.marks(len(group_ids))}) AND hour >= {mark}"
        sql = f"SELECT group_id, hour, filed FROM {LetterTrend._meta.db_table} WHERE {which}"
        return [(row[0], row[1], row[2]) for row in self._query(sql, [*map(token, group_ids), since])]

    def history(self, wanted: Mapping[str, str], limit: int) -> Sequence[HistoryEntry]:
        """Read what was done."""
        newest = self._all(HISTORY, f" ORDER BY at DESC, entry_id DESC LIMIT {int(limit)}", **wanted)
        return newest[::-1]

    def open_letters(self, limit: int) -> int:
        """Count by the jobs' flag, and in the order of its index: else all others might be skipped one by one."""
        return self._count(f"{JOBS.name} WHERE letter = TRUE ORDER BY keep_until", [], limit)

    def parked(self, limit: int) -> int:
        """Count the parking lot."""
        return self._count(ROWS.name, [], limit)

    def forgettable(self, now: Micros, limit: int) -> int:
        """Count what pruning would delete."""
        return self._count(*forgettable(self._sql, now), limit)

    def uncounted(self) -> bool:
        """Look whether there is one."""
        return bool(self._query(f"SELECT 1 FROM {UNCOUNTED.name} LIMIT 1", []))

    def _count(self, what: str, values: Sequence[Any], limit: int) -> int:
        sql = f"SELECT count(*) FROM (SELECT 1 FROM {what} LIMIT {int(limit)}) AS some_of_them"
        return int(self._query(sql, values)[0][0])

    def lead(self, name: str) -> tuple[str, Micros] | None:
        """Read a store-wide lease."""
        sql = f"SELECT nonce, until FROM {Lead._meta.db_table} WHERE name = {self._sql.dialect.mark}"
        found = self._query(sql, [token(name)])
        return (found[0][0], found[0][1]) if found else None

    def operation(self, operation_id: str) -> Operation | None:
        """Read an operation."""
        return next(iter(self._all(OPERATIONS, "", operation_id=operation_id)), None)

    def operations(self, limit: int, before: Position | None = None) -> Sequence[Operation]:
        """Find operations, newest first."""
        return self._page(OPERATIONS, "began_at", Look(before=before, limit=limit))

    def active_operations(self, limit: int) -> Sequence[Operation]:
        """Find what a steward has to look after."""
        tail = f" WHERE active = TRUE ORDER BY began_at, operation_id LIMIT {int(limit)}"
        return self._all(OPERATIONS, tail)

    def portion(self, operation_id: str, number: int) -> Portion | None:
        """Read some of an operation's letters."""
        return next(iter(self._all(PORTIONS, "", portion_id=f"{operation_id}:{int(number)}")), None)

    def lease(self, resource: str) -> Lease | None:
        """Read a lease."""
        return next(iter(self._all(LEASES, "", resource=resource)), None)

    def leases(self, limit: int) -> Sequence[Lease]:
        """Find leases that somebody has."""
        until = self._sql.dialect.name("until")
        tail = f" WHERE {until} IS NOT NULL ORDER BY acquired_at, resource LIMIT {int(limit)}"
        return self._all(LEASES, tail)

    def holdings(self, resource: str) -> Sequence[Holding]:
        """Read a resource's former holders."""
        return self._all(HOLDINGS, f" ORDER BY {self._sql.dialect.name('grant')} DESC", resource=resource)

    def line(self, resource: str, limit: int) -> Sequence[Row]:
        """Read who stands in line."""
        return lines.of(self._query, self._sql, resource, "", limit)

    def held_for(self, operation: str, limit: int) -> Sequence[Micros]:
        """Read how long a task had its resources."""
        name, mark = self._sql.dialect.name, self._sql.dialect.mark
        where = f"operation = {mark} AND {name('end')} = '{LeaseEnd.RELEASED}'"
        sql = f"SELECT ended_at - acquired_at FROM {HOLDINGS.name} WHERE {where} ORDER BY ended_at DESC"
        found = self._query(f"{sql} LIMIT {int(limit)}", [HOLDINGS.encode("operation", operation)])
        return [row[0] for row in found]
