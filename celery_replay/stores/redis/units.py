"""One atomic step on Redis: what was read is compared, and all is written, by one script at its end."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ...clock import Micros
from ...records import (
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
)
from ...states import Outcome, RowStatus
from ..units import HOUR, Contention, Record, Unit
from . import codec, pruning, scripts, writes
from .jobs import MANY, Kept, evolve_kept, fields_of, kept_of, whole, without_blobs
from .leasing import Leasing
from .links import Link
from .writes import Write, raw

ENDED = "\t".join(["", *sorted(o.value for o in Outcome if o.ended), ""])


class RedisUnit(Unit):
    """Reads at once, remembers what to write, and writes it in `finish`, if what was read is as it was.

    Args:
        link: held by the unit until it ends; it knows which run of the store this is.
        clock: the time, where a test has replaced the store's.
        keep_us: how long at least events are kept.
        found: what a script has read already: the time, then keys and values.
    """

    def __init__(self, link: Link, clock: Micros | None, keep_us: Micros, found: Sequence[Any] = ()) -> None:
        assert link.run is not None
        self._link = link
        self._run = link.run
        self.caution = link.run.caution
        self._clock = clock
        self._now = clock
        self._keep_us = keep_us
        self._looks = 0
        self._values: dict[str, bytes | None] = {}
        self._jobs: dict[str, Kept | None] = {}
        self._before: dict[str, Kept] = {}
        self._rows: dict[str, Row | None] = {}
        self._rows_before: dict[str, Row] = {}
        self._letters: dict[str, Letter | None] = {}
        self._letters_before: dict[str, Letter] = {}
        self._hashes: dict[str, dict[str, bytes]] = {}
        self._versions: dict[str, str] = {}
        self._steps: dict[tuple[str, str], StepRecord] = {}
        self._dropped: set[tuple[str, str]] = set()
        self._touched: set[str] = set()
        self._in_traces: set[str] = set()
        self._checks: dict[tuple[str, str], tuple[str, int]] = {}
        self._commands: list[Write] = []
        self._noted: set[str] = set()
        self._leasing = Leasing(link, self, keep_us)
        if found:
            self._learn(found)

    @property
    def now(self) -> Micros:  # type: ignore[override]
        """The store's clock, when it was first asked."""
        if self._now is None:
            seconds, micros = self._link.ask("TIME")
            self._now = int(seconds) * 1_000_000 + int(micros)
        return self._now

    @property
    def seen(self) -> Micros | None:
        """The store's clock, if it was asked."""
        return self._now

    # What is read.

    def prepare(self, submission: str, claim: str | None, original: str | None, resources: Sequence[str]) -> None:
        """Read all that a rule looks at in one go."""
        known = f"j:{submission}" in self._values and (claim is None or f"c:{claim}" in self._values)
        if not known:
            self._look(submission, claim or "", original or "", resources)

    def _look(self, submission: str, claim: str = "", original: str = "", resources: Sequence[str] = ()) -> None:
        clock = "" if self._clock is None else self._clock
        names = map(raw, (submission, claim, original, *resources))
        self._learn(self._link.call(scripts.LOOK, clock, *names))

    def _learn(self, found: Sequence[Any]) -> None:
        self._looks += 1
        if self._now is None:
            self._now = int(found[0])
        for name, value in zip(found[1::2], found[2::2], strict=True):
            key = name.decode("utf-8", "surrogatepass")
            if isinstance(value, list):
                self._hashes.setdefault(key, self._versioned(key, value))
            else:
                self._know(key, value)

    def _know(self, key: str, value: bytes | None) -> None:
        """Remember a value as it was first read: what came later is another one's, and the check finds that out."""
        if key not in self._values:
            self._values[key] = value
            self._checks["value", key] = ("" if value is None else _digest(value), 0)

    def _value(self, key: str) -> bytes | None:
        if key not in self._values:
            self._looks += 1
            self._know(key, self._link.do("GET", key))
        return self._values[key]

    def kept(self, submission: str) -> Kept | None:
        """Return a job with its attempts."""
        if submission not in self._jobs:
            key = f"j:{submission}"
            if key not in self._values:
                self._look(submission)
            value = self._values[key]
            self._jobs[submission] = found = None if value is None else kept_of(submission, value)
            if found is not None:
                self._before[submission] = found
        return self._jobs[submission]

    def job(self, submission: str) -> Job | None:
        """Return a job."""
        kept = self.kept(submission)
        return kept.job if kept is not None else None

    def holder(self, claim: str) -> Job | None:
        """Return the job that holds a key."""
        owner = self._value(f"c:{claim}")
        job = self.job(owner.decode("utf-8", "surrogatepass")) if owner is not None else None
        # A key whose job Redis has just forgotten is free.
        return job if job is not None and job.claim == claim else None

    def row(self, submission: str) -> Row | None:
        """Return a parked delivery."""
        if submission not in self._rows:
            value = self._value(f"r:{submission}")
            self._rows[submission] = found = None if value is None else codec.ROWS.decode(value)
            if found is not None:
                self._rows_before[submission] = found
        return self._rows[submission]

    def letter(self, submission: str) -> Letter | None:
        """Return a dead letter."""
        if submission not in self._letters:
            value = self._value(f"l:{submission}")
            self._letters[submission] = found = None if value is None else codec.letter_of(submission, value)
            if found is not None:
                self._letters_before[submission] = found
        return self._letters[submission]

    def operation(self, operation_id: str) -> Operation | None:
        """Return an operation, as it was when this unit began."""
        value = self._value(f"op:{operation_id}")
        return None if value is None else codec.OPERATIONS.decode(value)

    def steps(self, scope: str) -> Sequence[StepRecord]:
        """Return the steps of a key or job."""
        found = self._hash(f"s:{scope}")
        self._checks["hash", f"s:{scope}"] = (self._versions[f"s:{scope}"], 0)
        steps = {name: codec.step_of(scope, value) for name, value in found.items()}
        # What this very unit has written.
        steps.update({s.step_id: s for s in self._steps.values() if s.scope == scope})
        steps = {name: step for name, step in steps.items() if (scope, name) not in self._dropped}
        return sorted(steps.values(), key=lambda step: (step.claimed_at, step.step_id))

    def history(self, submission: str) -> Sequence[HistoryEntry]:
        """Return what was done to a submission."""
        found = self._link.do("HVALS", f"h:s:{submission}")
        return [codec.entry_of(value) for value in found]

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Return a trace's events."""
        found = self._hash(f"t:{trace_id}")
        self._checks["hash", f"t:{trace_id}"] = (self._versions[f"t:{trace_id}"], 0)
        members = [trace_id, *(name[2:] for name in found if name.startswith("j:"))]
        kept = [kept for kept in map(self.kept, members) if kept is not None]
        own = [chunk for one in kept for chunk in one.chunks if chunk.trace_id == trace_id]
        apart = [codec.chunk_of(trace_id, name, value) for name, value in found.items() if name.startswith("e:")]
        self._in_traces.update(chunk.chunk_id for chunk in apart)
        return whole([*own, *apart])

    def _hash(self, key: str) -> dict[str, bytes]:
        if key not in self._hashes:
            self._looks += 1
            self._hashes[key] = self._versioned(key, self._link.do("HGETALL", key))
        return self._hashes[key]

    def _versioned(self, key: str, values: Sequence[bytes]) -> dict[str, bytes]:
        found = fields_of(values)
        self._versions[key] = found.pop("", b"").decode()
        return found

    def rows_behind(self, subject: str, statuses: Sequence[RowStatus], limit: int) -> Sequence[Row]:
        """Return parked rows that wait for a key or job."""
        names = self.know_first(f"b:{subject}", -1)
        self.know_all([f"r:{name}" for name in names])
        rows = [row for row in map(self.row, names) if row is not None and row.subject == subject]
        return [row for row in rows if row.status in statuses][:limit]

    def know_first(self, key: str, last: int) -> list[str]:
        """Return the beginning of a sorted set, which has to be the same at the end."""
        self._looks += 1
        found: list[bytes] = self._link.do("ZRANGE", key, 0, last)
        self._checks["set", key] = (_digest(b"\n".join(found)), last)
        return [name.decode("utf-8", "surrogatepass") for name in found]

    def know_all(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return values, all of which have to be the same at the end."""
        unknown = [key for key in keys if key not in self._values]
        if unknown:
            self._looks += 1
        for key, value in zip(unknown, self._link.many("GET", unknown), strict=True):
            self._know(key, value)
        return [self._values[key] for key in keys]

    def rows_due(self, limit: int) -> Sequence[Row]:
        """Return rows that are to be looked at again."""
        found = self._link.do("ZRANGEBYSCORE", "due", "-inf", self.now, "LIMIT", 0, limit)
        rows = [codec.ROWS.decode(value) for value in self._link.many("GET", _keys("r:", found)) if value]
        return sorted(rows, key=lambda row: (row.wake_at, row.parked_at))

    def reapable(self, limit: int) -> Sequence[Job]:
        """Return jobs of which nothing more will be heard."""
        found = self._link.do("ZRANGEBYSCORE", "reap", "-inf", self.now, "LIMIT", 0, limit)
        values = self._link.many("GET", _keys("j:", found))
        jobs = []
        for name, value in zip(found, values, strict=True):
            if value is None:
                self._commands.append(("ZREM", "reap", name))
            else:
                jobs.append(kept_of(name.decode("utf-8", "surrogatepass"), value).job)
        return jobs

    # What is written.

    def put(self, record: Record) -> None:
        """Remember to write a record."""
        match record:
            case Job():
                kept = self.kept(record.submission)
                self._set(evolve_kept(kept, record) if kept else Kept(job=record))
            case Row():
                self.row(record.submission)
                self._rows[record.submission] = record
                self._touched.add(record.submission)
            case Letter():
                self.letter(record.submission)
                self._letters[record.submission] = record
            case AttemptRecord():
                self._put_attempt(record)
            case HistoryEntry():
                self._put_entry(record)
            case StepRecord():
                self._steps[record.scope, record.step_id] = record
                self._dropped.discard((record.scope, record.step_id))
            case Chunk():
                self.put_chunks([record])
            case Placed():
                self._commands += writes.of_placed(record)
            case _:
                self._put_other(record)

    def _put_other(self, record: Lease | Holding | Waiter | Operation | Portion) -> None:
        match record:
            case Lease() | Holding() | Waiter():
                self._leasing.put(record)
            case Operation() | Portion():
                self._commands += writes.of_operation(record)

    def leases(self, resources: Sequence[str]) -> Sequence[Lease]:
        """Return the leases on resources."""
        return self._leasing.leases(resources)

    def leases_of(self, submission: str) -> Sequence[Lease]:
        """Return the leases that a submission has, or had last."""
        return self._leasing.leases_of(submission)

    def line(self, resource: str, without: str, limit: int) -> Sequence[Row]:
        """Return who stands in the line of a resource."""
        return self._leasing.line(resource, without, limit)

    def waits(self, submission: str) -> Sequence[str]:
        """Return the resources in whose line a submission may stand."""
        return self._leasing.waits(submission)

    def leave(self, submission: str) -> None:
        """Remember to take a submission out of all lines."""
        self._leasing.leave(submission)

    def forget_leases(self, submission: str) -> None:
        """Remember to delete what is told of a former holder."""
        self._leasing.forget(submission)

    def _set(self, kept: Kept) -> None:
        self._jobs[kept.job.submission] = kept
        self._touched.add(kept.job.submission)

    def _put_attempt(self, attempt: AttemptRecord) -> None:
        kept = self.kept(attempt.submission)
        if kept is not None:
            others = tuple(other for other in kept.attempts if other.nonce != attempt.nonce)
            self._set(Kept(job=kept.job, attempts=(*others, attempt), chunks=kept.chunks))

    def _put_entry(self, entry: HistoryEntry) -> None:
        self._noted.add(f"h:{writes.home_of(entry)}")
        self._commands += writes.of_entry(entry, self._keep_us)

    def put_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Remember to write events: with their job, where this unit writes that anyway, else with their trace."""
        ttl = self._keep_us // 1000
        for chunk in chunks:
            for reference, body in chunk.blobs:
                self._commands.append(("blob", reference, body, raw(chunk.trace_id), ttl))
            home = self._home_of(chunk)
            if home is not None:
                others = tuple(other for other in home.chunks if other.chunk_id != chunk.chunk_id)
                self._set(Kept(job=home.job, attempts=home.attempts, chunks=(*others, without_blobs(chunk))))
                if chunk.chunk_id in self._in_traces:
                    self._commands.append(("HDEL", f"t:{chunk.trace_id}", f"e:{chunk.chunk_id}"))
            else:
                key = f"t:{chunk.trace_id}"
                name = raw(f"e:{chunk.chunk_id}")
                self._commands.append(("of_trace", raw(chunk.trace_id), name, codec.chunk_value(chunk), ttl))
                self._commands.append(("bump", key))
                self._noted.add(f"e:{chunk.chunk_id}\t{chunk.trace_id}")

    def _home_of(self, chunk: Chunk) -> Kept | None:
        """Return the job that keeps a chunk, or is to."""
        known = [kept for kept in self._jobs.values() if kept is not None]
        for kept in known:
            if any(other.chunk_id == chunk.chunk_id for other in kept.chunks):
                return kept
        for kept in () if chunk.chunk_id in self._in_traces else known:
            own = kept.job.nonce == chunk.nonce and kept.job.trace_id == chunk.trace_id
            if own and kept.job.submission in self._touched and kept.job.closed_at and len(kept.chunks) < MANY:
                return kept
        return None

    def forget_blobs(self, trace_id: str) -> None:
        """Remember to delete all of a trace's large values."""
        self._commands.append(("unblob_all", raw(trace_id)))

    def placed(self, names: Sequence[str]) -> Sequence[Placed]:
        """Return objects elsewhere."""
        values = self.know_all([f"o:{name}" for name in names])
        return [codec.placed_of(n, value) for n, value in zip(names, values, strict=True) if value is not None]

    def stub(self, reference: str, body: bytes) -> None:
        """Remember to replace a large value by a stub."""
        self._commands.append(("stub", raw(reference), body))

    def stay(self, reference: str) -> None:
        """Remember that a large value stays as it is."""
        self._commands.append(("SREM", "unplaced", raw(reference)))

    def drop(self, record: Row | StepRecord | Placed) -> None:
        """Remember to delete a record."""
        if isinstance(record, Placed):
            self._commands += [("DEL", f"o:{record.name}"), ("ZREM", "placed", raw(record.name))]
            return
        if isinstance(record, Row):
            self.row(record.submission)
            self._rows[record.submission] = None
            self._touched.add(record.submission)
        else:
            self._steps.pop((record.scope, record.step_id), None)
            self._dropped.add((record.scope, record.step_id))

    def drop_blobs(self, trace_id: str, references: Collection[str]) -> None:
        """Remember to delete a trace's large values."""
        self._commands += [("unblob", reference, raw(trace_id)) for reference in sorted(references)]

    def silence(self, submission: str) -> None:
        """Remember to erase the error message of groups whose newest letter this is."""
        self._commands.append(("silence", raw(submission), ERASED))

    def tally(self, group: Group, filed: int, unresolved: int) -> None:
        """Remember to count in a group: by a script, so that nobody has to wait for others who do."""
        hour = group.last_seen - group.last_seen % HOUR
        described = codec.GROUPS.encode(group)
        names = ("tally", group.group_id, described, raw(group.newest), raw(group.error_message))
        self._commands.append((*names, filed, unresolved, group.first_seen, group.last_seen, hour))

    def lead(self, name: str, nonce: str, until: Micros) -> bool:
        """Take or keep a store-wide lease."""
        value = self._value(f"lead:{name}")
        if value is not None:
            lease, _, holder = value.partition(b" ")
            if holder != nonce.encode() and int(lease) > self.now:
                return False
        self._commands.append(("SET", f"lead:{name}", f"{until} {nonce}"))
        return True

    def advance(self, submissions: Sequence[str]) -> Sequence[str]:
        """Mark many ended jobs at once; by itself, as it can be done again."""
        others: list[str] = []
        for start in range(0, len(submissions), 500):
            batch = map(raw, submissions[start : start + 500])
            found = self._link.call(scripts.ADVANCE, ENDED, *batch)
            others += [name.decode("utf-8", "surrogatepass") for name in found]
        return others

    def prune(self, limit: int) -> int:
        """Delete old records among the next ones of the index; by itself, as it can be done again."""
        pruning.operations(self._link, self.now, limit)
        return pruning.jobs(self._link, "" if self._clock is None else self._clock, limit)

    # The end.

    def finish(self) -> None:
        """Write, if what was read is as it was.

        Raises:
            Contention: it is not.
        """
        written = [
            *writes.of_steps(self._steps, self._dropped),
            *self._job_writes(),
            *self._row_writes(),
            *self._letter_writes(),
            *self._leasing.writes(),
            *self._commands,
            *(writes.of_trace(kept.job, self.now, self._keep_us) for kept in self._written()),
        ]
        if not written and (self._looks <= 1 or not self._checks):
            # What was read in one go was so at one moment.
            return
        if self._link.notes:
            written += [("changed", name) for name in sorted(self.changes)]
        checks = [
            part
            for (kind, key), (expected, limit) in self._checks.items()
            for part in (kind, raw(key), expected, limit)
        ]
        commands = [
            part
            for name, *arguments in written
            for part in (name, len(arguments), *(raw(a) if isinstance(a, str) else a for a in arguments))
        ]
        if self._link.call(scripts.COMMIT, self._run.name, len(self._checks), *checks, *commands) != 1:
            raise Contention

    @property
    def changes(self) -> set[str]:
        """What a journal has to be told of, as the outbox names it."""
        jobs = (name for name in self._touched if self._jobs.get(name) != self._before.get(name))
        rows = (name for name, row in self._rows.items() if row != self._rows_before.get(name))
        letters = (name for name, letter in self._letters.items() if letter != self._letters_before.get(name))
        scopes = (f"s:{scope}" for scope, _ in (*self._steps, *self._dropped))
        return {*self._noted, *self._leasing.changes, *scopes, *(f"j:{name}" for name in (*jobs, *rows, *letters))}

    def _written(self) -> list[Kept]:
        return [kept for name in self._touched if (kept := self.kept(name)) is not None]

    def _job_writes(self) -> Iterable[Write]:
        written = self._written()
        # All keys that are given up come before all that are taken.
        for kept in written:
            before = self._before.get(kept.job.submission)
            if before is not None and before.job.claim and before.job.claim != kept.job.claim:
                owner = self._value(f"c:{before.job.claim}")
                if owner == raw(kept.job.submission):
                    yield "DEL", f"c:{before.job.claim}"
        for kept in written:
            parked = self.row(kept.job.submission) is not None
            before = self._before.get(kept.job.submission)
            yield from writes.of_job(before, kept, self.now, parked=parked, keep_us=self._keep_us)

    def _row_writes(self) -> Iterable[Write]:
        for name, row in self._rows.items():
            yield from writes.of_row(name, self._rows_before.get(name), row)

    def _letter_writes(self) -> Iterable[Write]:
        for name, letter in self._letters.items():
            if letter is not None:
                yield from writes.of_letter(self._letters_before.get(name), letter)


def _keys(kind: str, names: Iterable[bytes]) -> list[str]:
    return [kind + name.decode("utf-8", "surrogatepass") for name in names]


def _digest(value: bytes) -> str:
    return hashlib.sha1(value, usedforsecurity=False).hexdigest()
