"""One atomic step on a store: what a backend writes for it, and how rules' facts are read and written with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from .. import chord_bodies, dead_letters
from ..clock import SECOND, Micros
from ..exceptions import ConfigurationError
from ..facts import CALM, Caution, Change, Facts
from ..records import (
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
from ..states import RowStatus, StepState
from . import lines

HOUR: Micros = 3600 * SECOND
"""The width of a bar in a group's trend."""

Record = (
    Job
    | Row
    | Letter
    | AttemptRecord
    | StepRecord
    | Chunk
    | HistoryEntry
    | Lease
    | Holding
    | Waiter
    | Placed
    | Operation
    | Portion
)


class Contention(Exception):
    """Two units met: the database chose this one to be run again."""


class Unit(ABC):
    """One atomic step: everything that it reads is locked against others until it ends."""

    now: Micros
    """The store's clock."""
    caution: Caution = CALM
    """What is to be heeded since the store may have lost what it knew."""

    @property
    def changes(self) -> Collection[str]:
        """What a journal has to be told of this step, by name, once it has ended."""
        return ()

    def prepare(  # noqa: B027 - where a look costs little
        self, submission: str, claim: str | None, original: str | None, resources: Sequence[str]
    ) -> None:
        """Hear what is about to be read, for backends where each look costs a round trip."""

    @abstractmethod
    def job(self, submission: str) -> Job | None:
        """Return a submission's job."""

    @abstractmethod
    def holder(self, claim: str) -> Job | None:
        """Return the job that holds a key."""

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
    def history(self, submission: str) -> Sequence[HistoryEntry]:
        """Return what was done to a submission."""

    @abstractmethod
    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Return a trace's events, without their large values."""

    @abstractmethod
    def put(self, record: Record) -> None:
        """Insert the record, or replace the one with its primary key."""

    @abstractmethod
    def drop(self, record: Row | StepRecord | Placed) -> None:
        """Delete the record with this primary key."""

    @abstractmethod
    def drop_blobs(self, trace_id: str, references: Collection[str]) -> None:
        """Delete a trace's large values, but for those that other traces have, too."""

    @abstractmethod
    def silence(self, submission: str) -> None:
        """Erase the error message of groups whose newest letter this is."""

    @abstractmethod
    def tally(self, group: Group, filed: int, unresolved: int) -> None:
        """Add to a group's counters, and to its trend; make the group if it is new.

        Many units do it to one group at once, so it must not be held for longer than it takes to commit.

        Args:
            group: as it is described by its newest letter.
            filed: 1 for a letter that was filed or fell due again; then the description is the group's new one.
            unresolved: by how much the number of those that wait for a decision changes.
        """

    @abstractmethod
    def rows_behind(self, subject: str, statuses: Sequence[RowStatus], limit: int) -> Sequence[Row]:
        """Return parked rows that wait for a key or job, in the order of their coming."""

    @abstractmethod
    def rows_due(self, limit: int) -> Sequence[Row]:
        """Return rows whose `wake_at` has passed, oldest first."""

    @abstractmethod
    def reapable(self, limit: int) -> Sequence[Job]:
        """Return jobs without a row whose `reap_at` has passed, oldest first."""

    @abstractmethod
    def lead(self, name: str, nonce: str, until: Micros) -> bool:
        """Take or keep a store-wide lease, if it is free, lapsed or already `nonce`'s."""

    def mark(self, name: str, at_least: Micros = 0) -> Micros:
        """Raise a number that never sinks, if need be, and return what it was; 0 for one that nobody raised."""
        raise ConfigurationError("this store keeps no marks of another one")

    @abstractmethod
    def prune(self, limit: int) -> int:
        """Delete up to `limit` jobs past their `keep_until`, and what hangs on them; not those with open letters."""

    def leases(self, resources: Sequence[str]) -> Sequence[Lease]:
        """Return the leases on resources, in the order of their names; none for what nobody ever took."""
        raise ConfigurationError("this store keeps no leases on resources; take `resources=` off, or use another store")

    def leases_of(self, submission: str) -> Sequence[Lease]:
        """Return the leases that a submission has, or had last, in the order of their names."""
        return ()

    def line(self, resource: str, without: str, limit: int) -> Sequence[Row]:
        """Return who stands in the line of a resource (`Row.in_line`), but for one submission, in their order."""
        return ()

    def waits(self, submission: str) -> Sequence[str]:
        """Return the resources in whose line a submission may stand, in the order of their names."""
        return ()

    def leave(self, submission: str) -> None:  # noqa: B027 - where nobody stands in line
        """Take a submission out of all lines."""

    def forget_leases(self, submission: str) -> None:  # noqa: B027 - as above
        """Delete what is told of a submission as a former holder; where it was the last one, all of the resource.

        Not of a resource that somebody has, or waits for. A later fence is higher all the same, by the clock.
        """

    def operation(self, operation_id: str) -> Operation | None:
        """Return an operation; two units that change one must not both succeed."""
        raise ConfigurationError("this store keeps no operations: replay letters one by one, or use another store")

    def count_up(self, limit: int) -> int:
        """Add letters to their groups' counters that were filed while others did; return how many.

        For backends that do not wait for others when they file a letter.
        """
        return 0

    def advance(self, submissions: Sequence[str]) -> Sequence[str]:
        """Note, in one go, that the canvases of jobs that ended were sent on; return those to look at one by one.

        For backends where a look costs a round trip: every finished job comes by here.
        """
        return submissions

    def put_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Insert many events."""
        for chunk in chunks:
            self.put(chunk)

    def forget_blobs(self, trace_id: str) -> None:
        """Delete all of a trace's large values, but for those that other traces have, too."""
        raise NotImplementedError

    # Large values elsewhere.

    def placed(self, names: Sequence[str]) -> Sequence[Placed]:
        """Return objects outside of the store by their names; those that there are."""
        raise ConfigurationError("this store keeps large values itself; take `replay_blobs` off, or use another store")

    def stub(self, reference: str, body: bytes) -> None:
        """Replace a large value by a stub, if it is there and is none."""
        raise NotImplementedError

    def stay(self, reference: str) -> None:
        """Note that a large value is looked at no more: it is to stay as it is."""
        raise NotImplementedError

    # What a journal is told: records as the ledger has them, whatever is there. For backends that can be a journal.

    def letters(self, submissions: Sequence[str]) -> Sequence[Letter]:
        """Return the dead letters that there are of these submissions."""
        return [letter for letter in map(self.letter, submissions) if letter is not None]

    def put_all(self, records: Sequence[Record]) -> None:
        """Write records of one kind as they are, whatever is there; a key goes from whoever had it to the given job."""
        for record in records:
            holder = self.holder(record.claim) if isinstance(record, Job) and record.claim else None
            if holder is not None and holder.submission != record.submission:  # type: ignore[union-attr]
                self.put(evolve(holder, claim=None))
            self.put(record)

    def put_blobs(self, chunks: Sequence[Chunk]) -> None:
        """Write the large values of events, and not these."""
        raise NotImplementedError

    def drop_rows(self, submissions: Sequence[str]) -> None:
        """Delete the rows of the parking lot that these submissions may have."""
        for row in map(self.row, submissions):
            if row is not None:
                self.drop(row)

    def drop_claimed(self, scopes: Sequence[str]) -> None:
        """Delete the steps of these keys and submissions that were begun and not settled."""
        for scope in scopes:
            for step in self.steps(scope):
                if step.state is StepState.CLAIMED:
                    self.drop(step)


def facts_of(
    unit: Unit,
    submission: str,
    claim: str | None,
    *,
    original: str | None = None,
    opening: bool = False,
    resources: Sequence[str] = (),
) -> Facts:
    """Read what a rule looks at.

    Args:
        claim: the key that the submission asks for.
        resources: what it names, in the order of the names.
        original: what it replays, of a replay that the store may not know yet.
        opening: for OPEN: a job without a key may have been claimed by its own replay.
    """
    unit.prepare(submission, claim, original, resources)
    job = unit.job(submission)
    original = job.original if job is not None else original
    if opening and claim is None and job is not None:
        claim = submission
    holder = unit.holder(claim) if claim is not None else None
    if holder is None and opening and original is not None and claim == original:
        holder = unit.job(original)
    if holder is not None and holder.submission == submission:
        holder = None
    facts = Facts(
        job=job,
        holder=holder,
        row=unit.row(submission),
        letter=unit.letter(original or submission),
        caution=unit.caution,
    )
    if not resources:
        return facts
    known = frozenset(found.submission for found in (job, holder) if found is not None)
    return evolve(facts, places=lines.places_of(unit, resources, submission, known))


def save(unit: Unit, before: Facts, change: Change, chunks: Sequence[Chunk] = ()) -> None:
    """Write what a rule decided."""
    after = _marked(before, change.facts)
    # The holder first: it may be giving up a unique key that the job takes.
    pairs: tuple[tuple[Record | None, Record | None], ...] = (
        (before.holder, after.holder),
        (before.job, after.job),
        (before.row, after.row),
    )
    for old, new in pairs:
        if new is not None and new != old:
            unit.put(new)
    if after.places or (before.row is not None and before.row.contended_since is not None):
        lines.save(unit, before, after)
    if before.row is not None and after.row is None:
        unit.drop(before.row)
    if after.letter is not None and after.letter != before.letter:
        put_letter(unit, before.letter, after.letter)
        entry = dead_letters.happened(before.letter, after.letter, unit.now)
        if entry is not None:
            unit.put(entry)
    if after.job is not None:
        message = change.unfiled or _newly_filed(before.letter, after.letter)
        _file_bodies(unit, after.job, message, filed=not change.unfiled)
    also: tuple[Record, ...] = (*change.ended, *chunks)
    for record in also:
        unit.put(record)


def _marked(before: Facts, after: Facts) -> Facts:
    """Mark the job with its letter, so that it is written once; a replay's letter is that of another job."""
    job, letter = after.job, after.letter
    if job is None or letter is None or letter == before.letter or letter.submission != job.submission:
        return after
    return evolve(after, job=evolve(job, letter=letter.state.unresolved))


def _newly_filed(before: Letter | None, after: Letter | None) -> bytes:
    """Return a letter's message, the first time that there is one."""
    return b"" if after is None or (before is not None and before.message) else after.message


def _file_bodies(unit: Unit, member: Job, message: bytes, *, filed: bool = True) -> None:
    """File the bodies of a failed job's chords, once each, however many members fail.

    Args:
        message: the job's.
        filed: it has a letter of its own.
    """
    for body in chord_bodies.of(message) if message else ():
        job = unit.job(body.submission)
        new = job is None
        if job is None:
            job = chord_bodies.unrun(body, member, unit.now)
            unit.put(job)
            put_letter(unit, None, chord_bodies.letter(body, job, member, unit.now))
        elif not job.letter:
            # It was sent after all, or somebody has decided about it.
            continue
        for entry in chord_bodies.entries(body, member, unit.now, filed=filed):
            unit.put(entry)
        if new:
            # It may be a member itself.
            _file_bodies(unit, job, body.message)


def put_letter(unit: Unit, before: Letter | None, letter: Letter) -> None:
    """Write a letter, count it in its group, and mark its job: a job with an unresolved letter is never pruned."""
    job = unit.job(letter.submission)
    if before is None or before.last_failed != letter.last_failed:
        about = unit.job(letter.replay) if letter.replay else None
        about = about or job
        if about is not None:
            steps = unit.steps(about.identity)
            letter = evolve(letter, effect=dead_letters.effect_of(about, letter.message, steps))
    unit.put(evolve(letter, revision=before.revision + 1 if before else 0))
    if job is not None and job.letter is not letter.state.unresolved:
        unit.put(evolve(job, letter=letter.state.unresolved))
    for group, filed, unresolved in dead_letters.tallies(before, letter):
        unit.tally(group, filed, unresolved)
