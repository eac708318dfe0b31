"""A store in this process's memory: for tests, and for pools that do not fork."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from .. import clock
from ..clock import Micros
from ..records import (
    ERASED,
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
    Waiter,
    evolve,
)
from ..states import LeaseEnd, LetterState, RowStatus
from .base import Store
from .places import name_in
from .reading import Look, Position, Reader
from .units import HOUR, Record, Unit

R = TypeVar("R", Job, Letter, Group, Operation)
_ABSENT = object()


class MemoryStore(Store):
    """Keeps everything in dictionaries under one lock.

    Args:
        now: the store's clock; a test may give its own.
    """

    shared: ClassVar[bool] = False

    def __init__(self, now: Callable[[], Micros] = clock.wall) -> None:
        self._now = now
        self._lock = threading.RLock()
        self._tables = _Tables()

    @contextmanager
    def _unit(self) -> Iterator[Unit]:
        with self._lock:
            unit = _MemoryUnit(self._tables, self._now())
            try:
                yield unit
            except BaseException:
                unit.undo()
                raise

    @contextmanager
    def _read(self) -> Iterator[Reader]:
        with self._lock:
            yield _MemoryReader(self._tables)

    @property
    def place(self) -> str:
        """Say where the records are."""
        return "memory of one process"

    def close_connections(self) -> None:
        """Do nothing: there are none."""


class _Tables:
    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.claims: dict[str, str] = {}
        self.rows: dict[str, Row] = {}
        self.letters: dict[str, Letter] = {}
        self.attempts: dict[str, AttemptRecord] = {}
        self.steps: dict[str, StepRecord] = {}
        self.chunks: dict[tuple[str, int], Chunk] = {}
        self.blobs: dict[str, bytes] = {}
        self.stays: dict[str, bool] = {}
        self.placed: dict[str, Placed] = {}
        self.groups: dict[str, Group] = {}
        self.trends: dict[tuple[str, Micros], int] = {}
        self.history: dict[str, HistoryEntry] = {}
        self.leads: dict[str, tuple[str, Micros]] = {}
        self.leases: dict[str, Lease] = {}
        self.holdings: dict[str, Holding] = {}
        self.waiters: dict[str, Waiter] = {}
        self.operations: dict[str, Operation] = {}
        self.portions: dict[str, Portion] = {}

    def line(self, resource: str, limit: int, without: str = "") -> list[Row]:
        found = [waiter for waiter in self.waiters.values() if waiter.resource == resource]
        names = (waiter.submission for waiter in sorted(found, key=attrgetter("since", "submission")))
        rows = (self.rows.get(name) for name in names if name != without)
        return list(islice((row for row in rows if row is not None and row.in_line), limit))

    def forgettable(self, now: Micros) -> list[Job]:
        past = [job for job in self.jobs.values() if job.keep_until is not None and job.keep_until <= now]
        return [job for job in past if job.status.over and not job.letter and job.submission not in self.rows]


class _MemoryUnit(Unit):
    def __init__(self, tables: _Tables, now: Micros) -> None:
        self.now = now
        self._tables = tables
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []

    def undo(self) -> None:
        for table, key, old in reversed(self._undo):
            if old is _ABSENT:
                table.pop(key, None)
            else:
                table[key] = old

    def _set(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        self._undo.append((table, key, table.get(key, _ABSENT)))
        if value is _ABSENT:
            table.pop(key, None)
        else:
            table[key] = value

    def job(self, submission: str) -> Job | None:
        return self._tables.jobs.get(submission)

    def holder(self, claim: str) -> Job | None:
        return self._tables.jobs.get(self._tables.claims.get(claim, ""))

    def row(self, submission: str) -> Row | None:
        return self._tables.rows.get(submission)

    def letter(self, submission: str) -> Letter | None:
        return self._tables.letters.get(submission)

    def steps(self, scope: str) -> Sequence[StepRecord]:
        return [step for step in self._tables.steps.values() if step.scope == scope]

    def history(self, submission: str) -> Sequence[HistoryEntry]:
        return [entry for entry in self._tables.history.values() if entry.submission == submission]

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        return [chunk for chunk in self._tables.chunks.values() if chunk.trace_id == trace_id]

    def put(self, record: Record) -> None:
        tables = self._tables
        match record:
            case Job():
                self._put_job(record)
            case Row():
                self._set(tables.rows, record.submission, record)
            case Letter():
                self._set(tables.letters, record.submission, record)
            case AttemptRecord():
                self._set(tables.attempts, record.nonce, record)
            case HistoryEntry():
                self._set(tables.history, record.entry_id, record)
            case StepRecord():
                self._set(tables.steps, record.step_id, record)
            case Chunk():
                self._set(tables.chunks, (record.nonce, record.first), record)
                self.put_blobs([record])
            case Placed():
                self._set(tables.placed, record.name, record)
            case _:
                self._put_other(record)

    def put_blobs(self, chunks: Sequence[Chunk]) -> None:
        for reference, body in (blob for chunk in chunks for blob in chunk.blobs):
            # What is elsewhere by now is the same.
            if reference not in self._tables.blobs:
                self._set(self._tables.blobs, reference, body)

    def _drop_blob(self, reference: str) -> None:
        self._set(self._tables.blobs, reference, _ABSENT)
        self._set(self._tables.stays, reference, _ABSENT)

    def forget_blobs(self, trace_id: str) -> None:
        chunks = self._tables.chunks
        own = [(key, chunk) for key, chunk in chunks.items() if chunk.trace_id == trace_id]
        for key, chunk in own:
            self._set(chunks, key, evolve(chunk, blobs=()))
        used = {reference for chunk in chunks.values() for reference, _ in chunk.blobs}
        for reference in self._tables.blobs.keys() - used:
            self._drop_blob(reference)

    def placed(self, names: Sequence[str]) -> Sequence[Placed]:
        return [self._tables.placed[name] for name in names if name in self._tables.placed]

    def stub(self, reference: str, body: bytes) -> None:
        if not name_in(self._tables.blobs.get(reference, body)):
            self._set(self._tables.blobs, reference, body)
            self.stay(reference)

    def stay(self, reference: str) -> None:
        if reference in self._tables.blobs:
            self._set(self._tables.stays, reference, True)

    def _put_other(self, record: Lease | Holding | Waiter | Operation | Portion) -> None:
        tables = self._tables
        match record:
            case Lease():
                self._set(tables.leases, record.resource, record)
            case Holding():
                self._set(tables.holdings, record.holding_id, record)
            case Waiter():
                self._set(tables.waiters, record.waiter_id, record)
            case Operation():
                self._set(tables.operations, record.operation_id, record)
            case Portion():
                self._set(tables.portions, record.portion_id, record)

    def tally(self, group: Group, filed: int, unresolved: int) -> None:
        tables, known = self._tables, self._tables.groups.get(group.group_id)
        newest = group if known is None or filed else known
        first = known or group
        counted = evolve(
            newest,
            first_seen=first.first_seen,
            filed=(known.filed if known else 0) + filed,
            unresolved=(known.unresolved if known else 0) + unresolved,
        )
        self._set(tables.groups, group.group_id, counted)
        if filed:
            hour = (group.group_id, group.last_seen - group.last_seen % HOUR)
            self._set(tables.trends, hour, tables.trends.get(hour, 0) + filed)

    def _put_job(self, job: Job) -> None:
        claims = self._tables.claims
        before = self._tables.jobs.get(job.submission)
        if before is not None and before.claim and before.claim != job.claim:
            self._set(claims, before.claim, _ABSENT)
        if job.claim:
            assert claims.get(job.claim, job.submission) == job.submission, "two owners of one key"
            self._set(claims, job.claim, job.submission)
        self._set(self._tables.jobs, job.submission, job)

    def drop(self, record: Row | StepRecord | Placed) -> None:
        if isinstance(record, Row):
            self._set(self._tables.rows, record.submission, _ABSENT)
        elif isinstance(record, Placed):
            self._set(self._tables.placed, record.name, _ABSENT)
        else:
            self._set(self._tables.steps, record.step_id, _ABSENT)

    def drop_blobs(self, trace_id: str, references: Collection[str]) -> None:
        chunks = self._tables.chunks.values()
        kept = {name for chunk in chunks if chunk.trace_id != trace_id for name, _ in chunk.blobs}
        for reference in set(references) - kept:
            self._drop_blob(reference)

    def silence(self, submission: str) -> None:
        for group in [group for group in self._tables.groups.values() if group.newest == submission]:
            self._set(self._tables.groups, group.group_id, evolve(group, error_message=ERASED))

    def rows_behind(self, subject: str, statuses: Sequence[RowStatus], limit: int) -> Sequence[Row]:
        behind = [r for r in self._tables.rows.values() if r.subject == subject and r.status in statuses]
        return sorted(behind, key=lambda row: row.parked_at)[:limit]

    def rows_due(self, limit: int) -> Sequence[Row]:
        due = [row for row in self._tables.rows.values() if row.wake_at <= self.now]
        return sorted(due, key=lambda row: (row.wake_at, row.parked_at))[:limit]

    def reapable(self, limit: int) -> Sequence[Job]:
        due = [
            job
            for job in self._tables.jobs.values()
            if job.reap_at is not None and job.reap_at <= self.now and job.submission not in self._tables.rows
        ]
        return sorted(due, key=lambda job: (job.reap_at or 0, job.submission))[:limit]

    def leases(self, resources: Sequence[str]) -> Sequence[Lease]:
        return [self._tables.leases[name] for name in sorted(resources) if name in self._tables.leases]

    def leases_of(self, submission: str) -> Sequence[Lease]:
        found = [lease for lease in self._tables.leases.values() if lease.submission == submission]
        return sorted(found, key=attrgetter("resource"))

    def line(self, resource: str, without: str, limit: int) -> Sequence[Row]:
        return self._tables.line(resource, limit, without)

    def waits(self, submission: str) -> Sequence[str]:
        return sorted(w.resource for w in self._tables.waiters.values() if w.submission == submission)

    def leave(self, submission: str) -> None:
        self._drop_all(self._tables.waiters, lambda waiter: waiter.submission == submission)

    def lead(self, name: str, nonce: str, until: Micros) -> bool:
        holder, lease = self._tables.leads.get(name, (nonce, 0))
        if holder != nonce and lease > self.now:
            return False
        self._set(self._tables.leads, name, (nonce, until))
        return True

    def mark(self, name: str, at_least: Micros = 0) -> Micros:
        _, was = self._tables.leads.get(name, ("", 0))
        if at_least > was:
            self._set(self._tables.leads, name, ("", at_least))
        return was

    def operation(self, operation_id: str) -> Operation | None:
        return self._tables.operations.get(operation_id)

    def prune(self, limit: int) -> int:
        tables = self._tables
        self._prune_leases(limit)
        self._prune_operations(limit)
        old = tables.forgettable(self.now)[:limit]
        for job in old:
            self._set(tables.jobs, job.submission, _ABSENT)
            if job.claim:
                self._set(tables.claims, job.claim, _ABSENT)
        submissions = {job.submission for job in old}
        scopes = {job.identity for job in old}
        # A trace may have jobs that are younger.
        traces = {job.trace_id for job in old} - {job.trace_id for job in tables.jobs.values()}
        self._drop_all(tables.attempts, lambda attempt: attempt.submission in submissions)
        self._drop_all(tables.letters, lambda letter: letter.submission in submissions)
        self._drop_all(tables.history, lambda entry: entry.submission in submissions)
        self._drop_all(tables.chunks, lambda chunk: chunk.trace_id in traces)
        used = {reference for chunk in tables.chunks.values() for reference, _ in chunk.blobs}
        for reference in tables.blobs.keys() - used:
            self._drop_blob(reference)
        self._drop_all(tables.steps, lambda step: step.scope in scopes)
        groups = {letter.group_id for letter in tables.letters.values()}
        self._drop_all(tables.groups, lambda group: group.group_id not in groups)
        for bar in [bar for bar in tables.trends if bar[0] not in groups]:
            self._set(tables.trends, bar, _ABSENT)
        return len(old)

    def forget_leases(self, submission: str) -> None:
        tables = self._tables
        awaited = {waiter.resource for waiter in tables.waiters.values()}
        gone = {
            lease.resource
            for lease in tables.leases.values()
            if lease.submission == submission and not lease.nonce and lease.resource not in awaited
        }
        self._drop_all(tables.leases, lambda lease: lease.resource in gone)
        self._drop_all(tables.holdings, lambda h: h.resource in gone or h.submission == submission)

    def _prune_leases(self, limit: int) -> None:
        tables = self._tables
        self._drop_all(tables.waiters, lambda waiter: waiter.submission not in tables.rows)
        awaited = {waiter.resource for waiter in tables.waiters.values()}
        past = [lease for lease in tables.leases.values() if lease.keep_until <= self.now]
        gone = {lease.resource for lease in past if lease.resource not in awaited}
        self._drop_all(tables.leases, lambda lease: lease.resource in gone)
        self._drop_all(tables.holdings, lambda holding: holding.resource in gone)

    def _prune_operations(self, limit: int) -> None:
        tables = self._tables
        old = [o for o in tables.operations.values() if o.keep_until is not None and o.keep_until <= self.now]
        gone = {operation.operation_id for operation in old[:limit]}
        self._drop_all(tables.operations, lambda operation: operation.operation_id in gone)
        self._drop_all(tables.portions, lambda portion: portion.operation_id in gone)
        self._drop_all(tables.history, lambda entry: entry.operation_id in gone and not entry.submission)

    def _drop_all(self, table: dict[Any, Any], gone: Callable[[Any], bool]) -> None:
        for key in [key for key, record in table.items() if gone(record)]:
            self._set(table, key, _ABSENT)


class _MemoryReader(Reader):
    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def job(self, submission: str) -> Job | None:
        return self._tables.jobs.get(submission)

    def row(self, submission: str) -> Row | None:
        return self._tables.rows.get(submission)

    def letter(self, submission: str) -> Letter | None:
        return self._tables.letters.get(submission)

    def steps(self, scope: str) -> Sequence[StepRecord]:
        return [step for step in self._tables.steps.values() if step.scope == scope]

    def jobs(self, look: Look) -> Sequence[Job]:
        return _page(self._tables.jobs.values(), "started_at", look)

    def owners(self, identities: Sequence[str]) -> Sequence[Job]:
        return [j for j in self._tables.jobs.values() if j.claim in identities or j.submission in identities]

    def jobs_named(self, submissions: Sequence[str]) -> Sequence[Job]:
        return [self._tables.jobs[name] for name in submissions if name in self._tables.jobs]

    def steps_of(self, scopes: Sequence[str]) -> Sequence[StepRecord]:
        found = [step for step in self._tables.steps.values() if step.scope in scopes]
        return sorted(found, key=attrgetter("claimed_at", "step_id"))

    def attempts(self, submission: str) -> Sequence[AttemptRecord]:
        found = [a for a in self._tables.attempts.values() if a.submission == submission]
        return sorted(found, key=lambda attempt: attempt.started_at)

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        return [chunk for chunk in self._tables.chunks.values() if chunk.trace_id == trace_id]

    def blobs(self, references: Sequence[str]) -> Mapping[str, bytes]:
        return {name: self._tables.blobs[name] for name in references if name in self._tables.blobs}

    def oldest_jobs(self, after: str, until: Micros, limit: int) -> tuple[Sequence[Job], str]:
        at, _, last = after.partition("/")
        known = ((job.started_at, job.submission) for job in self._tables.jobs.values() if job.started_at <= until)
        places = sorted(place for place in known if not after or place > (int(at), last))[:limit]
        end = f"{places[-1][0]}/{places[-1][1]}" if len(places) == limit else ""
        return [self._tables.jobs[submission] for _, submission in places], end

    def jobs_of_trace(self, trace_id: str) -> Sequence[Job]:
        return [job for job in self._tables.jobs.values() if job.trace_id == trace_id]

    def trace_size(self, trace_id: str) -> int:
        chunks = self.chunks(trace_id)
        blobs = self.blobs(list({reference for chunk in chunks for reference, _ in chunk.blobs}))
        return sum(len(chunk.body) for chunk in chunks) + sum(map(len, blobs.values()))

    def unplaced(self, limit: int) -> Sequence[tuple[str, bytes]]:
        tables = self._tables
        return list(islice((blob for blob in tables.blobs.items() if blob[0] not in tables.stays), limit))

    def placed_due(self, now: Micros, limit: int) -> Sequence[Placed]:
        due = [one for one in self._tables.placed.values() if one.look_at <= now]
        return sorted(due, key=attrgetter("look_at", "name"))[:limit]

    def rows(self, limit: int, after: Position | None = None) -> Sequence[Row]:
        places = sorted((row.parked_at, row.submission) for row in self._tables.rows.values())
        left = places if after is None else [place for place in places if place > after]
        return [self._tables.rows[submission] for _, submission in left[:limit]]

    def letters(self, look: Look) -> Sequence[Letter]:
        meant = [
            x for x in self._tables.letters.values() if look.error in x.error_type or look.error in x.error_message
        ]
        return _page(meant, "last_failed", look)

    def standing(self, submissions: Sequence[str]) -> Sequence[tuple[str, LetterState, str]]:
        found = [self._tables.letters[s] for s in submissions if s in self._tables.letters]
        return [(letter.submission, letter.state, letter.replay) for letter in found]

    def groups(self, look: Look, *, unresolved: bool) -> Sequence[Group]:
        found = [group for group in self._tables.groups.values() if group.unresolved or not unresolved]
        return _page(found, "last_seen", look, "group_id")

    def group(self, group_id: str) -> Group | None:
        return self._tables.groups.get(group_id)

    def trend(self, group_ids: Sequence[str], since: Micros) -> Sequence[tuple[str, Micros, int]]:
        found = self._tables.trends.items()
        return [(group, hour, count) for (group, hour), count in found if group in group_ids and hour >= since]

    def history(self, wanted: Mapping[str, str], limit: int) -> Sequence[HistoryEntry]:
        entries = self._tables.history.values()
        found = [entry for entry in entries if all(getattr(entry, name) == value for name, value in wanted.items())]
        return sorted(found, key=attrgetter("at", "entry_id"))[-limit:]

    def open_letters(self, limit: int) -> int:
        return min(sum(job.letter for job in self._tables.jobs.values()), limit)

    def parked(self, limit: int) -> int:
        return min(len(self._tables.rows), limit)

    def forgettable(self, now: Micros, limit: int) -> int:
        return min(len(self._tables.forgettable(now)), limit)

    def lead(self, name: str) -> tuple[str, Micros] | None:
        return self._tables.leads.get(name)

    def operation(self, operation_id: str) -> Operation | None:
        return self._tables.operations.get(operation_id)

    def operations(self, limit: int, before: Position | None = None) -> Sequence[Operation]:
        return _page(self._tables.operations.values(), "began_at", Look(before=before, limit=limit), "operation_id")

    def active_operations(self, limit: int) -> Sequence[Operation]:
        found = [operation for operation in self._tables.operations.values() if operation.active]
        return sorted(found, key=attrgetter("began_at", "operation_id"))[:limit]

    def portion(self, operation_id: str, number: int) -> Portion | None:
        return self._tables.portions.get(f"{operation_id}:{number}")

    def lease(self, resource: str) -> Lease | None:
        return self._tables.leases.get(resource)

    def leases(self, limit: int) -> Sequence[Lease]:
        held = [lease for lease in self._tables.leases.values() if lease.nonce]
        return sorted(held, key=attrgetter("acquired_at", "resource"))[:limit]

    def holdings(self, resource: str) -> Sequence[Holding]:
        found = [holding for holding in self._tables.holdings.values() if holding.resource == resource]
        return sorted(found, key=attrgetter("grant"), reverse=True)

    def line(self, resource: str, limit: int) -> Sequence[Row]:
        return self._tables.line(resource, limit)

    def held_for(self, operation: str, limit: int) -> Sequence[Micros]:
        found = [h for h in self._tables.holdings.values() if (h.operation, h.end) == (operation, LeaseEnd.RELEASED)]
        newest = sorted(found, key=attrgetter("ended_at"), reverse=True)[:limit]
        return [holding.ended_at - holding.acquired_at for holding in newest]


def _page(records: Iterable[R], time: str, look: Look, key: str = "submission") -> list[R]:
    """Return one page of what is looked for; ids order what has the same time."""
    position = attrgetter(time, key)
    found = [
        record
        for record in records
        if all(getattr(record, name) == value for name, value in look.wanted.items())
        and (look.since is None or getattr(record, time) >= look.since)
        and (look.before is None or position(record) < look.before)
    ]
    return sorted(found, key=position, reverse=True)[: look.limit]
