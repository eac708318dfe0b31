"""One atomic step as a database transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeVar

from celery_replay.clock import Micros
from celery_replay.records import (
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
from celery_replay.states import RowStatus, StepState
from celery_replay.stores.units import Contention, Record, Unit

from . import blobs, lines
from .batches import advance, prune
from .connections import Link
from .models import Lead
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
    WAITERS,
    Table,
)
from .tallies import Tallies, count_up

R = TypeVar("R", Job, Row, Letter, Lease, Operation)

_VERSION = ("status", "revision", "generation", "wake_at")
"""Whatever happens to a row of the parking lot changes one of these."""
_LEADS = Lead._meta.db_table
_BATCH = 500
_TABLES: dict[type, Table[Any]] = {
    Job: JOBS, Row: ROWS, Letter: LETTERS, HistoryEntry: HISTORY, AttemptRecord: ATTEMPTS, StepRecord: STEPS,
    Chunk: CHUNKS, Lease: LEASES, Holding: HOLDINGS, Waiter: WAITERS, Placed: PLACED, Portion: PORTIONS,
}  # fmt: skip


class SqlUnit(Unit):
    """Reads and writes within one transaction.

    Jobs are locked when they are read; their letters and steps are guarded by that lock. Rows of the parking lot are
    not: dispatchers come to them without their job, and two lock orders would deadlock. An update of a row checks
    instead that it is as it was read. So does that of a letter, which people change without its job.
    """

    def __init__(self, link: Link, statements: Statements, now: Micros) -> None:
        self.now = now
        self._link = link
        self._sql = statements
        self._known: dict[tuple[type, str], Any] = {}
        self._tallies = Tallies()

    def job(self, submission: str) -> Job | None:
        """Read and lock a job."""
        known: Job | None = self._known.get((Job, submission))
        return known or self._remember(self._find(JOBS, "submission", submission, self._sql.dialect.lock))

    def holder(self, claim: str) -> Job | None:
        """Read and lock the job that holds a key."""
        lock = self._sql.dialect.lock
        found = self._find(JOBS, "claim", claim, lock)
        if found is None and lock:
            # While this waited for the lock the key may have gone to another job, which the first look can't see.
            found = self._find(JOBS, "claim", claim, lock)
        return self._remember(found)

    def row(self, submission: str) -> Row | None:
        """Read a parked delivery."""
        return self._remember(self._find(ROWS, "submission", submission))

    def letter(self, submission: str) -> Letter | None:
        """Read a dead letter."""
        return self._remember(self._find(LETTERS, "submission", submission))

    def operation(self, operation_id: str) -> Operation | None:
        """Read an operation."""
        return self._remember(self._find(OPERATIONS, "operation_id", operation_id))

    def steps(self, scope: str) -> Sequence[StepRecord]:
        """Read the steps of a key or job, in the order of their claims."""
        sql = self._sql.select(STEPS, ("scope",), BY_CLAIM)
        return [STEPS.read(row) for row in self._link.rows(sql, [STEPS.encode("scope", scope)])]

    def history(self, submission: str) -> Sequence[HistoryEntry]:
        """Read what was done to a submission."""
        return self._all(HISTORY, "submission", submission)

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Read a trace's events."""
        return self._all(CHUNKS, "trace_id", trace_id)

    def _all(self, table: Table[Any], column: str, value: str) -> list[Any]:
        found = self._link.rows(self._sql.select(table, (column,)), [table.encode(column, value)])
        return [table.read(row) for row in found]

    def _find(self, table: Table[R], column: str, value: str, tail: str = "") -> R | None:
        found = self._link.rows(self._sql.select(table, (column,), tail), [table.encode(column, value)])
        return table.read(found[0]) if found else None

    def _remember(self, record: R | None) -> R | None:
        if record is not None:
            self._known[type(record), _key(record)] = record
        return record

    def put(self, record: Record) -> None:
        """Insert a record, or update what changed of it."""
        match record:
            case Job():
                self._put(JOBS, record)
            case Row():
                self._put(ROWS, record, _VERSION)
            case Letter():
                self._put(LETTERS, record, ("revision",))
            case Lease():
                self._put(LEASES, record)
            case Operation():
                self._put(OPERATIONS, record, ("revision",))
            case Chunk():
                self.put_chunks([record])
            case _:
                table = _TABLES[type(record)]
                self._link.change(self._sql.upsert(table), table.row(record))

    def _put(self, table: Table[Any], record: Any, version: tuple[str, ...] = ()) -> None:
        old = self._known.get((type(record), _key(record)))
        self._remember(record)
        if old is None:
            # Not an upsert: what was not there when it was looked for must not be overwritten.
            self._link.change(self._sql.insert(table), table.row(record))
            return
        before, after = table.row(old), table.row(record)
        changed = [i for i, value in enumerate(after) if value != before[i]]
        if changed:
            names = tuple(table.columns[i] for i in changed)
            where = (table.key, *version)
            values = [*(after[i] for i in changed), *(table.encode(n, getattr(old, n)) for n in where)]
            self._one(self._sql.update(table, names, where), values)

    def put_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Insert events and their large values."""
        self._link.many(self._sql.upsert(CHUNKS), [CHUNKS.row(chunk) for chunk in chunks])
        blobs.put(self._link, self._sql, chunks)

    def letters(self, submissions: Sequence[str]) -> Sequence[Letter]:
        """Read many dead letters."""
        # Under the names that were asked for: a column may have had no room for one.
        asked = {LETTERS.encode("submission", name): name for name in submissions}
        found: list[Letter] = []
        for names in self._batches(LETTERS, "submission", submissions):
            tail = f" WHERE submission IN ({self._sql.marks(len(names))})"
            for row in self._link.rows(self._sql.select(LETTERS, (), tail), names):
                letter = LETTERS.read(row)
                found.append(evolve(letter, submission=asked[LETTERS.encode("submission", letter.submission)]))
        return found

    def put_all(self, records: Sequence[Record]) -> None:
        """Upsert many records of one kind."""
        if not records:
            return
        table = _TABLES[type(records[0])]
        if table is JOBS:
            claims = [job.claim for job in records if isinstance(job, Job) and job.claim]
            for names in self._batches(JOBS, "claim", claims):
                which = f"claim IN ({self._sql.marks(len(names))})"
                self._link.change(f"UPDATE {JOBS.name} SET claim = NULL WHERE {which}", names)
        self._link.many(self._sql.upsert(table), [table.row(record) for record in records])

    def put_blobs(self, chunks: Sequence[Chunk]) -> None:
        """Insert large values."""
        blobs.put(self._link, self._sql, chunks)

    def drop_rows(self, submissions: Sequence[str]) -> None:
        """Delete rows of the parking lot."""
        for names in self._batches(ROWS, "submission", submissions):
            self._link.change(f"DELETE FROM {ROWS.name} WHERE submission IN ({self._sql.marks(len(names))})", names)

    def drop_claimed(self, scopes: Sequence[str]) -> None:
        """Delete unsettled steps."""
        for names in self._batches(STEPS, "scope", scopes):
            which = f"scope IN ({self._sql.marks(len(names))}) AND state = '{StepState.CLAIMED}'"
            self._link.change(f"DELETE FROM {STEPS.name} WHERE {which}", names)

    @staticmethod
    def _batches(table: Table[Any], column: str, values: Sequence[str]) -> Iterator[list[Any]]:
        encoded = sorted({table.encode(column, value) for value in values})
        return (encoded[start : start + _BATCH] for start in range(0, len(encoded), _BATCH))

    def forget_blobs(self, trace_id: str) -> None:
        """Delete all of a trace's large values."""
        blobs.forget(self._link, self._sql, [CHUNKS.encode("trace_id", trace_id)])

    def placed(self, names: Sequence[str]) -> Sequence[Placed]:
        """Read and lock objects elsewhere."""
        found: list[Placed] = []
        for some in self._batches(PLACED, "name", names):
            name = self._sql.dialect.name("name")
            tail = f" WHERE {name} IN ({self._sql.marks(len(some))}) ORDER BY {name}{self._sql.dialect.lock}"
            found += [PLACED.read(row) for row in self._link.rows(self._sql.select(PLACED, (), tail), some)]
        return found

    def stub(self, reference: str, body: bytes) -> None:
        """Replace a large value by a stub."""
        blobs.stub(self._link, self._sql, reference, body)

    def stay(self, reference: str) -> None:
        """Note that a large value stays as it is."""
        blobs.stay(self._link, self._sql, reference)

    def drop(self, record: Row | StepRecord | Placed) -> None:
        """Delete a record."""
        if isinstance(record, Placed):
            self._link.change(self._sql.delete(PLACED, ("name",)), [PLACED.encode("name", record.name)])
            return
        if isinstance(record, StepRecord):
            self._link.change(self._sql.delete(STEPS, ("step_id",)), [record.step_id])
            return
        where = ("submission", *_VERSION)
        old = self._known.pop((Row, record.submission), record)
        self._one(self._sql.delete(ROWS, where), [ROWS.encode(name, getattr(old, name)) for name in where])

    def drop_blobs(self, trace_id: str, references: Collection[str]) -> None:
        """Delete large values."""
        blobs.drop(self._link, self._sql, trace_id, references)

    def silence(self, submission: str) -> None:
        """Erase the error message of groups whose newest letter this is, or is about to be."""
        # Those that are still to be counted first: whoever counts them meanwhile has written them to the group by then.
        for table in (UNCOUNTED, GROUPS):
            sql = self._sql.update(table, ("error_message",), ("newest",))
            self._link.change(sql, [ERASED, table.encode("newest", submission)])

    def tally(self, group: Group, filed: int, unresolved: int) -> None:
        """Remember it for the end of the transaction."""
        self._tallies.add(group, filed, unresolved)

    def finish(self) -> None:
        """Write what is kept for the end: from here on nothing else is locked."""
        self._tallies.write(self._link, self._sql)

    def _one(self, sql: str, values: list[Any]) -> None:
        if self._link.change(sql, values) != 1:
            raise Contention

    def rows_behind(self, subject: str, statuses: Sequence[RowStatus], limit: int) -> Sequence[Row]:
        """Read parked rows that wait for a key or job."""
        words = [status.value for status in statuses]
        tail = f" AND status IN ({self._sql.marks(len(words))}) ORDER BY parked_at LIMIT {int(limit)}"
        found = self._link.rows(self._sql.select(ROWS, ("subject",), tail), [ROWS.encode("subject", subject), *words])
        rows = [ROWS.read(row) for row in found]
        for row in rows:
            self._remember(row)
        return rows

    def rows_due(self, limit: int) -> Sequence[Row]:
        """Read rows that are to be looked at again."""
        mark = self._sql.dialect.mark
        tail = f" WHERE wake_at <= {mark} ORDER BY wake_at, parked_at LIMIT {int(limit)}"
        return [ROWS.read(row) for row in self._link.rows(self._sql.select(ROWS, (), tail), [self.now])]

    def reapable(self, limit: int) -> Sequence[Job]:
        """Read jobs of which nothing more will be heard."""
        parked = f"SELECT 1 FROM {ROWS.name} AS parked WHERE parked.submission = {JOBS.name}.submission"
        due = f"reap_at <= {self._sql.dialect.mark} AND NOT EXISTS ({parked})"
        tail = f" WHERE {due} ORDER BY reap_at, submission LIMIT {int(limit)}"
        return [JOBS.read(row) for row in self._link.rows(self._sql.select(JOBS, (), tail), [self.now])]

    def leases(self, resources: Sequence[str]) -> Sequence[Lease]:
        """Read and lock leases."""
        return self._leases("resource", resources)

    def leases_of(self, submission: str) -> Sequence[Lease]:
        """Read and lock the leases of a submission."""
        return self._leases("submission", [submission])

    def _leases(self, column: str, values: Sequence[str]) -> Sequence[Lease]:
        # Always in one order, so that two who want several can't deadlock.
        which = f" WHERE {column} IN ({self._sql.marks(len(values))}) ORDER BY resource{self._sql.dialect.lock}"
        found = self._link.rows(self._sql.select(LEASES, (), which), [LEASES.encode(column, v) for v in values])
        leases = [LEASES.read(row) for row in found]
        for lease in leases:
            self._remember(lease)
        return leases

    def line(self, resource: str, without: str, limit: int) -> Sequence[Row]:
        """Read who stands in line."""
        rows = lines.of(self._link.rows, self._sql, resource, without, limit)
        for row in rows:
            self._remember(row)
        return rows

    def waits(self, submission: str) -> Sequence[str]:
        """Read in which lines a submission stands."""
        return lines.waits(self._link, self._sql, submission)

    def leave(self, submission: str) -> None:
        """Take a submission out of all lines."""
        self._link.change(self._sql.delete(WAITERS, ("submission",)), [WAITERS.encode("submission", submission)])

    def forget_leases(self, submission: str) -> None:
        """Delete what is told of a former holder."""
        lines.forget(self._link, self._sql, submission)

    def lead(self, name: str, nonce: str, until: Micros) -> bool:
        """Take or keep a store-wide lease."""
        mark, link = self._sql.dialect.mark, self._link
        free = f"name = {mark} AND (nonce = {mark} OR until <= {mark})"
        update = f"UPDATE {_LEADS} SET nonce = {mark}, until = {mark} WHERE {free}"
        if link.change(update, [nonce, until, name, nonce, self.now]) == 1:
            return True
        if link.rows(f"SELECT name FROM {_LEADS} WHERE name = {mark}", [name]):
            return False
        link.change(f"INSERT INTO {_LEADS} (name, nonce, until) VALUES ({self._sql.marks(3)})", [name, nonce, until])
        return True

    def mark(self, name: str, at_least: Micros = 0) -> Micros:
        """Raise a number that never sinks: a lease on all tokens up to there, in the table of leases."""
        mark, link = self._sql.dialect.mark, self._link
        found = link.rows(f"SELECT until FROM {_LEADS} WHERE name = {mark}", [name])
        if not found and at_least:
            link.change(
                f"INSERT INTO {_LEADS} (name, nonce, until) VALUES ({self._sql.marks(3)})", [name, "", at_least]
            )
        elif at_least:
            raised = f"UPDATE {_LEADS} SET until = {mark} WHERE name = {mark} AND until < {mark}"
            link.change(raised, [at_least, name, at_least])
        return int(found[0][0]) if found else 0

    def advance(self, submissions: Sequence[str]) -> Sequence[str]:
        """Mark many ended jobs at once."""
        done: set[str] = set()
        for start in range(0, len(submissions), 500):
            batch = [JOBS.encode("submission", s) for s in submissions[start : start + 500]]
            done.update(advance(self._link, self._sql, batch))
        return [s for s in submissions if JOBS.encode("submission", s) not in done]

    def count_up(self, limit: int) -> int:
        """Count what was filed uncounted."""
        return count_up(self._link, self._sql, limit)

    def prune(self, limit: int) -> int:
        """Delete old records."""
        return prune(self._link, self._sql, self.now, limit)


def _key(record: Job | Row | Letter | Lease | Operation) -> str:
    match record:
        case Lease():
            return record.resource
        case Operation():
            return record.operation_id
        case _:
            return record.submission
