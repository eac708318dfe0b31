"""Looks at what is stored in Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from ...clock import Micros
from ...records import (
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
from ...states import LetterState
from ..reading import Look, Pause, Position, Reader
from . import codec, placing, scripts
from .codec import escaped, text_of
from .jobs import FIELDS, Kept, fields_of, kept_of, whole
from .links import Argument, Link
from .pruning import OVER, THROUGH
from .scripts import Script

_BATCH = 500
_UNRESOLVED = [state.value for state in LetterState if state.unresolved]


class RedisReader(Reader):
    """Looks without locking.

    Args:
        run: does one thing over a connection.
    """

    def __init__(self, run: Callable[[Callable[[Link], Any]], Any]) -> None:
        self._run = run

    def _do(self, command: str, key: str, *arguments: Any) -> Any:
        return self._run(lambda link: link.do(command, key, *arguments))

    def _call(self, script: Script, arguments: Sequence[Argument]) -> list[Any]:
        found: list[Any] = self._run(lambda link: link.call(script, *arguments))
        return found

    def _each(self, command: str, calls: Sequence[tuple[str, ...]]) -> list[Any]:
        found: list[Any] = self._run(lambda link: link.each(command, calls))
        return found

    def _many(self, keys: Sequence[str]) -> list[bytes | None]:
        found: list[bytes | None] = self._run(lambda link: link.many("GET", keys))
        return found

    def _kept(self, submissions: Sequence[str]) -> list[Kept]:
        values = self._many([f"j:{submission}" for submission in submissions])
        return [kept_of(s, value) for s, value in zip(submissions, values, strict=True) if value is not None]

    def job(self, submission: str) -> Job | None:
        """Return a job."""
        return next((kept.job for kept in self._kept([submission])), None)

    def row(self, submission: str) -> Row | None:
        """Return a parked delivery."""
        value = self._do("GET", f"r:{submission}")
        return None if value is None else codec.ROWS.decode(value)

    def letter(self, submission: str) -> Letter | None:
        """Return a dead letter."""
        return next(iter(self._letters([submission])), None)

    def _letters(self, submissions: Sequence[str]) -> list[Letter]:
        values = self._many([f"l:{submission}" for submission in submissions])
        return [codec.letter_of(s, value) for s, value in zip(submissions, values, strict=True) if value is not None]

    def steps(self, scope: str) -> Sequence[StepRecord]:
        """Return the steps of a key or job."""
        return self.steps_of([scope])

    def steps_of(self, scopes: Sequence[str]) -> Sequence[StepRecord]:
        """Return the steps of many keys and jobs."""
        found = self._run(lambda link: link.many("HGETALL", [f"s:{scope}" for scope in scopes]))
        steps = [
            codec.step_of(scope, value)
            for scope, values in zip(scopes, found, strict=True)
            for name, value in fields_of(values).items()
            if name
        ]
        return sorted(steps, key=attrgetter("claimed_at", "step_id"))

    def jobs(self, look: Look) -> Sequence[Job]:
        """Return jobs, by when they were last started."""
        found: dict[str, Job] = {}
        for stop, jobs in self._index(look):
            found.update({job.submission: job for job in jobs if _within(look, (job.started_at, job.submission))})
            if len(found) >= look.limit:
                page = _sorted(found.values())[: look.limit]
                # Of those that started in the same millisecond all have to be seen.
                if stop < page[-1].started_at // 1000:
                    break
        return _sorted(found.values())[: look.limit]

    def _index(self, look: Look) -> Iterator[tuple[int, list[Job]]]:
        """Walk the index of jobs backwards; yield each time how far it came, in milliseconds, and what it found."""
        begin = "+" if look.before is None else f"{look.before[0] // 1000}-18446744073709551615"
        end = "-" if look.since is None else str(look.since // 1000)
        wanted = [part for name, value in look.wanted.items() for part in (FIELDS[name], _field(value))]
        while True:
            arguments = (begin, end, _BATCH, *wanted)
            last, *found = self._call(scripts.FIND, arguments)
            if last is None:
                return
            jobs = [kept_of(text_of(name), value).job for name, value in zip(found[::2], found[1::2], strict=True)]
            yield int(last.partition(b"-")[0]), jobs
            begin = "(" + last.decode()

    def owners(self, identities: Sequence[str]) -> Sequence[Job]:
        """Return the jobs that hold one of these keys, or are one of these submissions."""
        owners = [owner for owner in self._many([f"c:{identity}" for identity in identities]) if owner is not None]
        return self.jobs_named(sorted({*map(text_of, owners), *identities}))

    def jobs_named(self, submissions: Sequence[str]) -> Sequence[Job]:
        """Return the jobs of these submissions."""
        return [kept.job for kept in self._kept(submissions)]

    def attempts(self, submission: str) -> Sequence[AttemptRecord]:
        """Return a submission's ended attempts."""
        found = [attempt for kept in self._kept([submission]) for attempt in kept.attempts]
        return sorted(found, key=attrgetter("started_at"))

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Return a trace's events."""
        found = fields_of(self._do("HGETALL", f"t:{trace_id}"))
        members = dict.fromkeys([trace_id, *(name[2:] for name in found if name.startswith("j:"))])
        chunks = [c for kept in self._kept(list(members)) for c in kept.chunks if c.trace_id == trace_id]
        chunks += [codec.chunk_of(trace_id, name, value) for name, value in found.items() if name.startswith("e:")]
        return sorted(whole(chunks), key=attrgetter("recorded_at", "nonce", "first"))

    def blobs(self, references: Sequence[str]) -> Mapping[str, bytes]:
        """Return large values by their references."""
        found = self._run(lambda link: link.each("HGET", [(f"x:{reference}", "") for reference in references]))
        return {name: body for name, body in zip(references, found, strict=True) if body is not None}

    def oldest_jobs(self, after: str, until: Micros, limit: int) -> tuple[Sequence[Job], str]:
        """Return the next jobs of the index, oldest first."""
        found = self._do("XRANGE", "jobs", f"({after}" if after else "-", until // 1000, "COUNT", limit)
        names = list(dict.fromkeys(text_of(entry[1][1]) for entry in found))
        end = found[-1][0].decode() if len(found) == limit else ""
        return [kept.job for kept in self._kept(names) if kept.job.started_at <= until], end

    def jobs_of_trace(self, trace_id: str) -> Sequence[Job]:
        """Return all jobs of a trace."""
        names = [text_of(name)[2:] for name in self._do("HKEYS", f"t:{trace_id}") if name[:2] == b"j:"]
        return [
            kept.job for kept in self._kept(list(dict.fromkeys([trace_id, *names]))) if kept.job.trace_id == trace_id
        ]

    def trace_size(self, trace_id: str) -> int:
        """Return how many bytes a trace's events and large values have."""
        names = [text_of(name)[2:] for name in self._do("HKEYS", f"t:{trace_id}") if name[:2] == b"x:"]
        values = self._each("HSTRLEN", [(f"x:{name}", "") for name in names])
        return sum(len(chunk.body) for chunk in self.chunks(trace_id)) + sum(map(int, values))

    def unplaced(self, limit: int) -> Sequence[tuple[str, bytes]]:
        """Return large values that may go elsewhere; one that Redis has forgotten is empty."""
        placing.begin(self._run)
        names = [text_of(name) for name in self._do("SRANDMEMBER", "unplaced", limit)]
        bodies = self._each("HGET", [(f"x:{name}", "") for name in names])
        return [(name, body or b"") for name, body in zip(names, bodies, strict=True)]

    def placed_due(self, now: Micros, limit: int) -> Sequence[Placed]:
        """Return objects elsewhere that are to be looked at."""
        names = [text_of(name) for name in self._do("ZRANGEBYSCORE", "placed", "-inf", now, "LIMIT", 0, limit)]
        values = self._many([f"o:{name}" for name in names])
        return [codec.placed_of(n, value) for n, value in zip(names, values, strict=True) if value is not None]

    def rows(self, limit: int, after: Position | None = None) -> Sequence[Row]:
        """Return parked deliveries, oldest first."""
        # Those that were parked in the same microsecond as the last one are looked at again.
        since, last = after if after is not None else (0, "")
        found: list[Row] = []
        skipped = 0
        while len(found) < limit:
            names = self._do("ZRANGEBYSCORE", "rows", since, "+inf", "LIMIT", skipped, limit)
            values = self._many([f"r:{text_of(name)}" for name in names])
            rows = [codec.ROWS.decode(value) for value in values if value is not None]
            found += [row for row in rows if (row.parked_at, row.submission) > (since, last)]
            if len(names) < limit:
                break
            skipped += limit
        return found[:limit]

    def letters(self, look: Look) -> Sequence[Letter]:
        """Return dead letters, by when they last failed."""
        index = "letters"
        if "state" in look.wanted:
            index = f"ls:{look.wanted['state']}"
        if "group_id" in look.wanted:
            index = f"lg:{look.wanted['group_id']}"
        found: list[Letter] = []
        for names in self._backwards(index, look):
            letters = self._letters(names)
            found += [letter for letter in letters if _is_meant(letter, look)]
            if len(found) >= look.limit:
                break
        return found[: look.limit]

    def _backwards(self, index: str, look: Look) -> Iterator[list[str]]:
        """Walk a sorted set from where a page begins to where it ends."""
        start = "+inf" if look.before is None else look.before[0]
        end = "-inf" if look.since is None else look.since
        offset = 0
        while True:
            found = self._do("ZREVRANGEBYSCORE", index, start, end, "WITHSCORES", "LIMIT", offset, _BATCH)
            pairs = [(int(float(score)), text_of(name)) for name, score in zip(found[::2], found[1::2], strict=True)]
            yield [name for score, name in pairs if _within(look, (score, name))]
            if len(pairs) < _BATCH:
                return
            # Those with the last time come again: how many of them were seen says where to go on.
            last = pairs[-1][0]
            same = sum(score == last for score, _ in pairs)
            offset = same + (offset if last == start else 0)
            start = last

    def standing(self, submissions: Sequence[str]) -> Sequence[tuple[str, LetterState, str]]:
        """Return where dead letters stand."""
        return [(letter.submission, letter.state, letter.replay) for letter in self._letters(submissions)]

    def groups(self, look: Look, *, unresolved: bool) -> Sequence[Group]:
        """Return groups, by when their last letter failed."""
        found: list[Group] = []
        for names in self._backwards("waiting" if unresolved else "groups", look):
            found += [group for group in self._groups(names) if _has(group, look.wanted)]
            if len(found) >= look.limit:
                break
        return found[: look.limit]

    def _groups(self, names: Sequence[str]) -> list[Group]:
        found = self._run(lambda link: link.many("HGETALL", [f"g:{name}" for name in names]))
        return [_group(fields_of(values)) for values in found if values]

    def group(self, group_id: str) -> Group | None:
        """Return one group."""
        return next(iter(self._groups([group_id])), None)

    def trend(self, group_ids: Sequence[str], since: Micros) -> Sequence[tuple[str, Micros, int]]:
        """Return how many letters were filed in an hour."""
        found = self._run(lambda link: link.many("HGETALL", [f"trend:{group_id}" for group_id in group_ids]))
        bars = [
            (group_id, int(hour), int(count))
            for group_id, values in zip(group_ids, found, strict=True)
            for hour, count in fields_of(values).items()
        ]
        return [bar for bar in bars if bar[1] >= since]

    def history(self, wanted: Mapping[str, str], limit: int) -> Sequence[HistoryEntry]:
        """Return what was done, the newest of it, oldest first."""
        if wanted.get("submission"):
            values = self._do("HVALS", f"h:s:{wanted['submission']}")
            found = [entry for value in values if _has(entry := codec.entry_of(value), wanted)]
        else:
            found = self._indexed(wanted, limit)
        return sorted(found, key=attrgetter("at", "entry_id"))[-limit:]

    def _indexed(self, wanted: Mapping[str, str], limit: int) -> list[HistoryEntry]:
        index = "history"
        if wanted.get("operation_id"):
            index = f"ho:{wanted['operation_id']}"
        if wanted.get("group_id"):
            index = f"hg:{wanted['group_id']}"
        found: list[HistoryEntry] = []
        for names in self._backwards(index, Look()):
            places = [name.rpartition("\t")[::2] for name in names]
            values = self._each("HGET", [(f"h:{home}", entry) for home, entry in places])
            found += [entry for value in values if value and _has(entry := codec.entry_of(value), wanted)]
            if len(found) > limit:
                break
        return found

    def open_letters(self, limit: int) -> int:
        """Count the jobs that have an open letter."""
        return min(sum(map(int, self._each("ZCARD", [(f"ls:{state}",) for state in _UNRESOLVED]))), limit)

    def parked(self, limit: int) -> int:
        """Count the rows of the parking lot."""
        return min(int(self._do("ZCARD", "rows")), limit)

    def forgettable(self, now: Micros, limit: int) -> int:
        """Count the jobs that pruning would delete."""
        begin: bytes = b"-"
        count = 0
        while begin and count < limit:
            arguments = (now, begin, _BATCH, limit - count, OVER, "dry", THROUGH)
            last, more = self._call(scripts.PRUNE, arguments)
            count += more
            begin = b"(" + last if last else b""
        return count

    def operation(self, operation_id: str) -> Operation | None:
        """Return an operation."""
        return next(iter(self._operations([operation_id])), None)

    def _operations(self, names: Sequence[str]) -> list[Operation]:
        values = self._many([f"op:{name}" for name in names])
        return [codec.OPERATIONS.decode(value) for value in values if value is not None]

    def operations(self, limit: int, before: Position | None = None) -> Sequence[Operation]:
        """Return operations, the newest first."""
        found: list[Operation] = []
        for names in self._backwards("ops", Look(before=before)):
            found += self._operations(names)
            if len(found) >= limit:
                break
        return found[:limit]

    def active_operations(self, limit: int) -> Sequence[Operation]:
        """Return operations for which a steward has something to do."""
        return self._operations(self._first("ops:active", limit))

    def portion(self, operation_id: str, number: int) -> Portion | None:
        """Return some of an operation's letters."""
        body = self._do("HGET", f"portions:{operation_id}", str(number))
        return None if body is None else Portion(operation_id=operation_id, number=number, body=body)

    def lease(self, resource: str) -> Lease | None:
        """Return the lease on a resource."""
        return next(iter(self._leases([resource])), None)

    def leases(self, limit: int) -> Sequence[Lease]:
        """Return leases that somebody has."""
        return [lease for lease in self._leases(self._first("leases", limit)) if lease.nonce]

    def _leases(self, resources: Sequence[str]) -> list[Lease]:
        values = self._many([f"lease:{name}" for name in resources])
        return [codec.lease_of(n, value) for n, value in zip(resources, values, strict=True) if value is not None]

    def _first(self, key: str, limit: int) -> list[str]:
        return [text_of(name) for name in self._do("ZRANGE", key, 0, limit - 1)]

    def holdings(self, resource: str) -> Sequence[Holding]:
        """Return the former holders of a resource, newest first."""
        found = [codec.HOLDINGS.decode(value, resource=resource) for value in self._do("HVALS", f"held:{resource}")]
        return sorted(found, key=attrgetter("grant"), reverse=True)

    def line(self, resource: str, limit: int) -> Sequence[Row]:
        """Return who stands in the line of a resource."""
        names = self._first(f"line:{resource}", 0)
        values = self._many([f"r:{name}" for name in names])
        rows = [codec.ROWS.decode(value) for value in values if value is not None]
        return [row for row in rows if row.in_line][:limit]

    def held_for(self, operation: str, limit: int) -> Sequence[Micros]:
        """Return how long a task had its resources, the newest first."""
        return [int(held) for held in self._do("LRANGE", f"holds:{operation}", 0, limit - 1)]

    def pause(self) -> Pause | None:
        """Return when resources were given to nobody the last time."""
        since, until = self._do("HMGET", "runs", "since", "until")
        return Pause(since=int(since), until=int(until)) if since and until else None

    def lead(self, name: str) -> tuple[str, Micros] | None:
        """Return who took a store-wide lease last."""
        value = self._do("GET", f"lead:{name}")
        if value is None:
            return None
        until, _, nonce = value.decode().partition(" ")
        return nonce, int(until)


def _group(fields: Mapping[str, bytes]) -> Group:
    return codec.GROUPS.decode(
        fields["d"],
        error_message=text_of(fields["e"]),
        first_seen=int(fields["s"]),
        filed=int(fields["f"]),
        unresolved=int(fields["u"]),
    )


def _is_meant(letter: Letter, look: Look) -> bool:
    return _has(letter, look.wanted) and (look.error in letter.error_type or look.error in letter.error_message)


def _has(record: object, wanted: Mapping[str, str]) -> bool:
    return all(getattr(record, name) == value for name, value in wanted.items())


def _within(look: Look, position: Position) -> bool:
    return (look.since is None or position[0] >= look.since) and (look.before is None or position < look.before)


def _sorted(jobs: Any) -> list[Job]:
    return sorted(jobs, key=attrgetter("started_at", "submission"), reverse=True)


def _field(value: str) -> bytes:
    return escaped(str(value)).encode("utf-8", "surrogatepass")
