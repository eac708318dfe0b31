"""The reading half of a store: what can be looked up, without locks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ..clock import Micros
from ..exceptions import ConfigurationError
from ..records import (
    LEASE,
    AttemptRecord,
    Chunk,
    Group,
    HistoryEntry,
    Job,
    Letter,
    Operation,
    Placed,
    Portion,
    Row,
    StepRecord,
)
from ..states import LetterState, Outcome, Reason
from .lease_looks import LeaseLooks, LeaseReader
from .places import BlobPlace, fetched, name_in

_LETTER_FILTERS = frozenset({"operation", "reason", "state", "group_id", "effect", "operation_id"})

_BATCH = 500

Position = tuple[Micros, str]
"""Where a page ended: the time and submission of its last record."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What to look for among records that have a time, newest first."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    """Fields, and the values that they have."""
    error: str = ""
    """Of letters: a part of the error's type or message, in its own case."""
    since: Micros | None = None
    """The oldest time that counts."""
    before: Position | None = None
    """Continues after the page that ended here."""
    limit: int = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """A while for which a store that may have lost what it knew gives nobody a resource who does not have it."""

    since: Micros
    until: Micros


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """A store at one glance."""

    now: Micros
    """The store's clock."""
    bound: int
    """Where counting stops: a count that equals it means as many or more."""
    open_letters: int
    parked: int
    parked_since: Micros | None
    """When the oldest parked delivery was parked."""
    leader: str | None
    """The nonce of the steward that leads now."""
    leads_until: Micros | None
    paused: Pause | None = None
    """Resources are given to nobody now."""


class Reader(LeaseReader, ABC):
    """Looks without locking."""

    def pause(self) -> Pause | None:
        """Return when resources were given to nobody the last time; None for a store that forgets nothing."""
        return None

    @abstractmethod
    def job(self, submission: str) -> Job | None:
        """Return a submission's job."""

    @abstractmethod
    def row(self, submission: str) -> Row | None:
        """Return a submission's row of the parking lot."""

    @abstractmethod
    def letter(self, submission: str) -> Letter | None:
        """Return a submission's dead letter."""

    @abstractmethod
    def steps(self, scope: str) -> Sequence[StepRecord]:
        """Return the side-effect steps of a key, or of a submission without one."""

    @abstractmethod
    def jobs(self, look: Look) -> Sequence[Job]:
        """Return jobs, by when they were last started."""

    @abstractmethod
    def owners(self, identities: Sequence[str]) -> Sequence[Job]:
        """Return the jobs that hold one of these keys, or are one of these submissions."""

    @abstractmethod
    def jobs_named(self, submissions: Sequence[str]) -> Sequence[Job]:
        """Return the jobs of these submissions."""

    @abstractmethod
    def steps_of(self, scopes: Sequence[str]) -> Sequence[StepRecord]:
        """Return the side-effect steps of these keys and submissions, in the order of their claims."""

    @abstractmethod
    def attempts(self, submission: str) -> Sequence[AttemptRecord]:
        """Return a submission's ended attempts, oldest first."""

    @abstractmethod
    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Return a trace's events."""

    @abstractmethod
    def blobs(self, references: Sequence[str]) -> Mapping[str, bytes]:
        """Return large values by their references, or the stubs of those that are elsewhere; those that there are."""

    def unplaced(self, limit: int) -> Sequence[tuple[str, bytes]]:
        """Return large values that nobody has looked at, whether they go elsewhere."""
        raise ConfigurationError("this store keeps large values itself; take `replay_blobs` off, or use another store")

    def placed_due(self, now: Micros, limit: int) -> Sequence[Placed]:
        """Return objects outside of the store that are to be looked at, oldest first."""
        return ()

    @abstractmethod
    def oldest_jobs(self, after: str, until: Micros, limit: int) -> tuple[Sequence[Job], str]:
        """Return the next jobs that were last started by some time, oldest first, and where to go on; empty at the end.

        Args:
            after: where the last call ended.
        """

    @abstractmethod
    def jobs_of_trace(self, trace_id: str) -> Sequence[Job]:
        """Return all jobs of a trace."""

    @abstractmethod
    def trace_size(self, trace_id: str) -> int:
        """Return how many bytes a trace's events and large values have in this store."""

    @abstractmethod
    def rows(self, limit: int, after: Position | None = None) -> Sequence[Row]:
        """Return parked deliveries, oldest first; only those after a position, if one is given."""

    @abstractmethod
    def letters(self, look: Look) -> Sequence[Letter]:
        """Return dead letters, by when they last failed."""

    @abstractmethod
    def standing(self, submissions: Sequence[str]) -> Sequence[tuple[str, LetterState, str]]:
        """Return of dead letters: submission, state, the newest replay. For whoever looks again and again."""

    @abstractmethod
    def groups(self, look: Look, *, unresolved: bool) -> Sequence[Group]:
        """Return groups, by when their last letter failed; only those with letters that wait, if that is wanted."""

    @abstractmethod
    def group(self, group_id: str) -> Group | None:
        """Return one group."""

    @abstractmethod
    def trend(self, group_ids: Sequence[str], since: Micros) -> Sequence[tuple[str, Micros, int]]:
        """Return how many letters were filed in a group in an hour: group, when the hour began, count."""

    @abstractmethod
    def history(self, wanted: Mapping[str, str], limit: int) -> Sequence[HistoryEntry]:
        """Return what was done, by columns and their values, oldest first; the newest `limit` of it."""

    @abstractmethod
    def open_letters(self, limit: int) -> int:
        """Count the jobs that have an open letter, up to a limit."""

    @abstractmethod
    def parked(self, limit: int) -> int:
        """Count the rows of the parking lot, up to a limit."""

    @abstractmethod
    def forgettable(self, now: Micros, limit: int) -> int:
        """Count the jobs that pruning would delete, up to a limit."""

    @abstractmethod
    def lead(self, name: str) -> tuple[str, Micros] | None:
        """Return who took a store-wide lease last, and until when."""

    def operation(self, operation_id: str) -> Operation | None:
        """Return an operation."""
        return None

    def operations(self, limit: int, before: Position | None = None) -> Sequence[Operation]:
        """Return operations, the newest first by when they began."""
        return ()

    def active_operations(self, limit: int) -> Sequence[Operation]:
        """Return operations for which a steward has something to do, the oldest first."""
        return ()

    def portion(self, operation_id: str, number: int) -> Portion | None:
        """Return some of an operation's letters."""
        return None

    def uncounted(self) -> bool:
        """Are there letters that are still to be counted in their groups?"""
        return False


class Readable(LeaseLooks):
    """Looks things up; what is consistent is each look by itself."""

    elsewhere: BlobPlace | None = None
    """Where large values go; None where they stay in the store."""

    @abstractmethod
    def _read(self) -> AbstractContextManager[Reader]:
        """Begin a look at what is stored."""

    @abstractmethod
    def now(self) -> Micros:
        """Read the store's clock."""

    @abstractmethod
    def count_up(self, limit: int = 5_000) -> int:
        """Bring the groups' counters up to date."""

    @property
    def place(self) -> str:
        """Say for people where the records are."""
        return f"{type(self).__module__}:{type(self).__qualname__}"

    def job(self, submission: str) -> Job | None:
        """Look up a submission."""
        with self._read() as reader:
            return reader.job(submission)

    def row(self, submission: str) -> Row | None:
        """Look up a parked delivery."""
        with self._read() as reader:
            return reader.row(submission)

    def letter(self, submission: str) -> Letter | None:
        """Look up a dead letter."""
        with self._read() as reader:
            return reader.letter(submission)

    def steps(self, scope: str) -> Sequence[StepRecord]:
        """Return the side-effect steps of a key, or of a submission without one."""
        with self._read() as reader:
            return reader.steps(scope)

    def find_jobs(
        self,
        *,
        task_id: str = "",
        key: str = "",
        trace_id: str = "",
        operation: str = "",
        status: Outcome | None = None,
        since: Micros | None = None,
        before: Position | None = None,
        limit: int = 100,
    ) -> Sequence[Job]:
        """Return jobs with these values, newest first by when they were last started.

        Args:
            since: started at this time or later.
            before: the last job of the page before this one: its `started_at` and `submission`.
        """
        wanted = {
            "task_id": task_id, "key": key, "trace_id": trace_id, "operation": operation, "status": status
        }  # fmt: skip
        with self._read() as reader:
            return reader.jobs(Look(wanted=_given(wanted), since=since, before=before, limit=limit))

    def owners(self, identities: Iterable[str]) -> Mapping[str, Job]:
        """Return who holds each of these keys or resources, or is the job of that submission: whom rows wait for."""
        wanted = sorted(set(identities))
        if not wanted:
            return {}
        with self._read() as reader:
            found = reader.owners(wanted)
            leased = {name: _lessee(reader, name) for name in wanted if name.startswith(LEASE)}
        # As for those who wait: the holder of a key comes before a submission of the same name.
        known = {job.submission: job for job in found} | {job.claim: job for job in found if job.claim}
        return known | {name: job for name, job in leased.items() if job is not None}

    def jobs_named(self, submissions: Iterable[str]) -> Mapping[str, Job]:
        """Return the jobs of these submissions, by their names; those that there are."""
        with self._read() as reader:
            return {job.submission: job for some in _batches(submissions) for job in reader.jobs_named(some)}

    def steps_of(self, scopes: Iterable[str]) -> Mapping[str, Sequence[StepRecord]]:
        """Return the side-effect steps of each of these keys, or of submissions without one."""
        found: dict[str, list[StepRecord]] = {scope: [] for scope in scopes}
        with self._read() as reader:
            for some in _batches(found):
                for step in reader.steps_of(some):
                    found.setdefault(step.scope, []).append(step)
        return found

    def attempts(self, submission: str) -> Sequence[AttemptRecord]:
        """Return the attempts of a submission that ended, in their order."""
        with self._read() as reader:
            return reader.attempts(submission)

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Return the flushed events of a trace."""
        with self._read() as reader:
            return reader.chunks(trace_id)

    def blob(self, reference: str) -> bytes | None:
        """Return a large value that an event refers to."""
        return self.blobs([reference]).get(reference)

    def blobs(self, references: Iterable[str]) -> Mapping[str, bytes]:
        """Return large values by their references; those that there are."""
        found: dict[str, bytes] = {}
        with self._read() as reader:
            for some in _batches(references):
                found.update(reader.blobs(some))
        away = {reference: name for reference, body in found.items() if (name := name_in(body))}
        if not away:
            return found
        # One that is gone there is gone.
        kept = {reference: body for reference, body in found.items() if reference not in away}
        return {**kept, **fetched(self.elsewhere, away)}

    def rows(self, limit: int = 100, *, after: Position | None = None) -> Sequence[Row]:
        """Return parked deliveries, oldest first.

        Args:
            after: the last row of the page before this one: its `parked_at` and `submission`.
        """
        with self._read() as reader:
            return reader.rows(limit, after)

    def every_row(self) -> Iterator[Row]:
        """Yield parked deliveries page by page, oldest first."""
        after: Position | None = None
        while page := self.rows(_BATCH, after=after):
            yield from page
            after = page[-1].parked_at, page[-1].submission

    def letters(
        self,
        limit: int = 100,
        *,
        error: str = "",
        since: Micros | None = None,
        before: Position | None = None,
        **wanted: str | None,
    ) -> Sequence[Letter]:
        """Return dead letters with these values, newest first by when they last failed.

        Args:
            error: a part of the error's type or message, in its own case.
            since: failed at this time or later.
            before: the last letter of the page before this one: its `last_failed` and `submission`.
            wanted: operation, reason, state, group_id, effect, or the operation_id of the last replay.
        """
        unknown = wanted.keys() - _LETTER_FILTERS
        if unknown:
            raise TypeError(f"letters can't be found by {', '.join(sorted(unknown))}")
        with self._read() as reader:
            return reader.letters(Look(wanted=_given(wanted), error=error, since=since, before=before, limit=limit))

    def every_letter(self, **wanted: Any) -> Iterator[Letter]:
        """Yield dead letters page by page, newest first; what is wanted is as for `letters`."""
        before: Position | None = None
        while page := self.letters(_BATCH, before=before, **wanted):
            yield from page
            before = page[-1].last_failed, page[-1].submission

    def standing(self, submissions: Iterable[str]) -> Mapping[str, tuple[LetterState, str]]:
        """Return where these dead letters stand: state, and submission of the newest replay."""
        found: dict[str, tuple[LetterState, str]] = {}
        for some in _batches(submissions):
            with self._read() as reader:
                rows = reader.standing(some)
            found.update((submission, (state, replay)) for submission, state, replay in rows)
        return found

    def groups(
        self,
        limit: int = 100,
        *,
        operation: str = "",
        reason: Reason | None = None,
        unresolved: bool = True,
        since: Micros | None = None,
        before: Position | None = None,
    ) -> Sequence[Group]:
        """Return groups of dead letters, those that failed last first.

        Args:
            unresolved: only groups that have letters which wait for a decision.
            before: the last group of the page before this one: its `last_seen` and `group_id`.
        """
        self.count_up()
        look = Look(wanted=_given({"operation": operation, "reason": reason}), since=since, before=before, limit=limit)
        with self._read() as reader:
            return reader.groups(look, unresolved=unresolved)

    def group(self, group_id: str) -> Group | None:
        """Look up a group of dead letters."""
        self.count_up()
        with self._read() as reader:
            return reader.group(group_id)

    def trend(self, group_ids: Iterable[str], since: Micros) -> Mapping[str, Mapping[Micros, int]]:
        """Return how many letters each group got in each hour that had any, by when the hour began."""
        trends: dict[str, dict[Micros, int]] = {group_id: {} for group_id in group_ids}
        if trends:
            self.count_up()
            with self._read() as reader:
                for group_id, hour, count in reader.trend(sorted(trends), since):
                    trends[group_id][hour] = count
        return trends

    def history(
        self, *, submission: str = "", group_id: str = "", operation_id: str = "", limit: int = 200
    ) -> Sequence[HistoryEntry]:
        """Return what was done to a dead letter, a group, or in one operation: the newest of it, oldest first."""
        wanted = {"submission": submission, "group_id": group_id, "operation_id": operation_id}
        with self._read() as reader:
            return reader.history(_given(wanted), limit)

    def notes(self, group_id: str, limit: int = 200) -> Sequence[HistoryEntry]:
        """Return what was noted about a group as a whole: the newest of it, oldest first."""
        with self._read() as reader:
            return reader.history({"group_id": group_id, "submission": ""}, limit)

    def forgettable(self, limit: int = 100_000) -> int:
        """Count the jobs that `prune` would delete now, up to a limit."""
        now = self.now()
        with self._read() as reader:
            return reader.forgettable(now, limit)

    def overview(self, bound: int = 100, leads: str = "steward") -> Overview:
        """Take one glance; nothing is counted beyond `bound`, so it costs the same whatever the store holds."""
        now = self.now()
        with self._read() as reader:
            oldest = reader.rows(1)
            lead = reader.lead(leads)
            leader, until = lead if lead is not None and lead[1] > now else (None, None)
            pause = reader.pause()
            return Overview(
                now=now,
                bound=bound,
                open_letters=reader.open_letters(bound),
                parked=reader.parked(bound),
                parked_since=oldest[0].parked_at if oldest else None,
                leader=leader,
                leads_until=until,
                paused=pause if pause is not None and pause.until > now else None,
            )


def _lessee(reader: Reader, subject: str) -> Job | None:
    lease = reader.lease(subject.removeprefix(LEASE))
    return reader.job(lease.submission) if lease is not None and lease.nonce else None


def _batches(names: Iterable[str]) -> Iterator[Sequence[str]]:
    """Split names into as many as one query takes: SQLite may take no more than 999."""
    wanted = sorted(set(names))
    return (wanted[start : start + _BATCH] for start in range(0, len(wanted), _BATCH))


def _given(wanted: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in wanted.items() if value}
