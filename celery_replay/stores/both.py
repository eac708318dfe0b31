"""Looks at a ledger and its journal as if they were one store.

What is about one job is what either has, and the ledger's word where both have one: it is newer. Lists of letters and
groups, and counts of them, are the journal's, which is complete. What is in flight is the ledger's alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from ..clock import Micros
from ..exceptions import StoreUnavailable
from ..records import AttemptRecord, Chunk, Group, HistoryEntry, Holding, Job, Lease, Letter, Placed, Row, StepRecord
from ..states import LetterState
from .reading import Look, Pause, Position, Reader

R = TypeVar("R")


class BothReader(Reader):
    """Asks both.

    Args:
        refresh: tells the journal what waits, so that its lists have it.
    """

    def __init__(self, ledger: Reader, journal: Reader, refresh: Callable[[], None]) -> None:
        self._ledger = ledger
        self._journal = journal
        self._refresh = refresh

    # What is about one job.

    def job(self, submission: str) -> Job | None:
        """Return a job."""
        return self._ledger.job(submission) or self._journal.job(submission)

    def letter(self, submission: str) -> Letter | None:
        """Return a dead letter."""
        return self._ledger.letter(submission) or self._journal.letter(submission)

    def steps(self, scope: str) -> Sequence[StepRecord]:
        """Return the steps of a key or job."""
        return self.steps_of([scope])

    def steps_of(self, scopes: Sequence[str]) -> Sequence[StepRecord]:
        """Return the steps of keys and jobs."""
        found = _merged("step_id", self._journal.steps_of(scopes), self._ledger.steps_of(scopes))
        return sorted(found, key=attrgetter("claimed_at", "step_id"))

    def jobs_named(self, submissions: Sequence[str]) -> Sequence[Job]:
        """Return the jobs of these submissions."""
        return _merged("submission", self._journal.jobs_named(submissions), self._ledger.jobs_named(submissions))

    def attempts(self, submission: str) -> Sequence[AttemptRecord]:
        """Return a submission's ended attempts."""
        found = _merged("nonce", self._journal.attempts(submission), self._ledger.attempts(submission))
        return sorted(found, key=attrgetter("started_at"))

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Return a trace's events."""
        found = _merged("chunk_id", self._journal.chunks(trace_id), self._ledger.chunks(trace_id))
        return sorted(found, key=attrgetter("recorded_at", "nonce", "first"))

    def blobs(self, references: Sequence[str]) -> Mapping[str, bytes]:
        """Return large values."""
        found = self._ledger.blobs(references)
        rest = [reference for reference in references if reference not in found]
        return {**found, **(self._journal.blobs(rest) if rest else {})}

    def standing(self, submissions: Sequence[str]) -> Sequence[tuple[str, LetterState, str]]:
        """Return where dead letters stand."""
        found = {each[0]: each for each in self._ledger.standing(submissions)}
        rest = [submission for submission in submissions if submission not in found]
        return [*found.values(), *(self._journal.standing(rest) if rest else ())]

    def jobs(self, look: Look) -> Sequence[Job]:
        """Find jobs: the newest of both; one of which the ledger says something else by now is none that was meant."""
        current = {job.submission: job for job in self._ledger.jobs(look)}
        kept = [job for job in self._journal.jobs(look) if job.submission not in current]
        known = {job.submission for job in self._ledger.jobs_named([job.submission for job in kept])}
        found = [*current.values(), *(job for job in kept if job.submission not in known)]
        return sorted(found, key=attrgetter("started_at", "submission"), reverse=True)[: look.limit]

    def history(self, wanted: Mapping[str, str], limit: int) -> Sequence[HistoryEntry]:
        """Return what was done."""
        found = _merged("entry_id", self._journal.history(wanted, limit), self._ledger.history(wanted, limit))
        return sorted(found, key=attrgetter("at", "entry_id"))[-limit:]

    # Lists, which the journal has whole.

    def letters(self, look: Look) -> Sequence[Letter]:
        """Return dead letters."""
        self._refresh()
        return self._journal.letters(look)

    def groups(self, look: Look, *, unresolved: bool) -> Sequence[Group]:
        """Return groups."""
        return self._journal.groups(look, unresolved=unresolved)

    def group(self, group_id: str) -> Group | None:
        """Return one group."""
        return self._journal.group(group_id)

    def trend(self, group_ids: Sequence[str], since: Micros) -> Sequence[tuple[str, Micros, int]]:
        """Return how many letters were filed in an hour."""
        return self._journal.trend(group_ids, since)

    def open_letters(self, limit: int) -> int:
        """Count the jobs that have an open letter; those of the ledger, where the journal can't be reached."""
        try:
            self._refresh()
            return self._journal.open_letters(limit)
        except StoreUnavailable:
            return self._ledger.open_letters(limit)

    def forgettable(self, now: Micros, limit: int) -> int:
        """Count the jobs that pruning would delete."""
        return max(self._journal.forgettable(now, limit), self._ledger.forgettable(now, limit))

    def oldest_jobs(self, after: str, until: Micros, limit: int) -> tuple[Sequence[Job], str]:
        """Return the next jobs, oldest first."""
        return self._journal.oldest_jobs(after, until, limit)

    def jobs_of_trace(self, trace_id: str) -> Sequence[Job]:
        """Return all jobs of a trace."""
        return _merged("submission", self._journal.jobs_of_trace(trace_id), self._ledger.jobs_of_trace(trace_id))

    def trace_size(self, trace_id: str) -> int:
        """Return how many bytes a trace has in both."""
        return self._journal.trace_size(trace_id) + self._ledger.trace_size(trace_id)

    def unplaced(self, limit: int) -> Sequence[tuple[str, bytes]]:
        """Return large values that may go elsewhere."""
        return self._journal.unplaced(limit)

    def placed_due(self, now: Micros, limit: int) -> Sequence[Placed]:
        """Return objects elsewhere that are to be looked at."""
        return self._journal.placed_due(now, limit)

    # In flight.

    def owners(self, identities: Sequence[str]) -> Sequence[Job]:
        """Return who holds keys, or is waited for."""
        return self._ledger.owners(identities)

    def row(self, submission: str) -> Row | None:
        """Return a parked delivery."""
        return self._ledger.row(submission)

    def rows(self, limit: int, after: Position | None = None) -> Sequence[Row]:
        """Return parked deliveries."""
        return self._ledger.rows(limit, after)

    def parked(self, limit: int) -> int:
        """Count parked deliveries."""
        return self._ledger.parked(limit)

    def pause(self) -> Pause | None:
        """Return when resources were given to nobody the last time."""
        return self._ledger.pause()

    def lead(self, name: str) -> tuple[str, Micros] | None:
        """Return who leads."""
        return self._ledger.lead(name)

    def lease(self, resource: str) -> Lease | None:
        """Return the lease on a resource."""
        return self._ledger.lease(resource)

    def leases(self, limit: int) -> Sequence[Lease]:
        """Return leases that somebody has."""
        return self._ledger.leases(limit)

    def holdings(self, resource: str) -> Sequence[Holding]:
        """Return former holders."""
        return self._ledger.holdings(resource)

    def line(self, resource: str, limit: int) -> Sequence[Row]:
        """Return who stands in line."""
        return self._ledger.line(resource, limit)

    def held_for(self, operation: str, limit: int) -> Sequence[Micros]:
        """Return how long a task had its resources."""
        return self._ledger.held_for(operation, limit)


def _merged(name: str, old: Iterable[R], new: Iterable[R]) -> list[Any]:
    """Return records of both stores, each once."""
    identity = attrgetter(name)
    return list({identity(record): record for record in (*old, *new)}.values())
