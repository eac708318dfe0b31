"""How a journal is told what a ledger has now: the current state, so that telling it twice or late does no harm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from .. import dead_letters
from ..clock import Micros
from ..records import AttemptRecord, Chunk, HistoryEntry, Job, Lease, Letter, Row, StepRecord, evolve
from ..states import LetterState
from .units import Unit

LOCK = "archive"
"""Of all that tell a journal something, or erase in it, one goes on at a time."""

Taken = Mapping[str, bytes]
"""Names of what changed, each with when it was noted, as the ledger has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """What a journal has not been told yet."""

    count: int
    age_us: Micros
    """Since when the oldest of it waits."""


@dataclass(slots=True)
class Now:
    """What a ledger has under some names. Jobs that it does not have any more are simply not there."""

    jobs: list[Job] = field(default_factory=list)
    attempts: list[AttemptRecord] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    unparked: list[str] = field(default_factory=list)
    """Submissions without a row of the parking lot."""
    scopes: list[str] = field(default_factory=list)
    """Keys and submissions of which all steps are among these:"""
    steps: list[StepRecord] = field(default_factory=list)
    history: list[HistoryEntry] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    """Without their large values."""
    blobs: list[Chunk] = field(default_factory=list)
    """Large values alone."""
    leases: list[Lease] = field(default_factory=list)


def lock(unit: Unit) -> None:
    """Wait until nobody else tells the journal anything; until the end of the step nobody will."""
    unit.lead(LOCK, LOCK, unit.now)


def tell(unit: Unit, now: Now) -> None:
    """Write into a journal what a ledger has now; counters of groups change by what changed of their letters."""
    after = {letter.submission: letter for letter in now.letters}
    before = {letter.submission: letter for letter in unit.letters([*after, *(job.submission for job in now.jobs)])}
    unit.put_all(_single_holders(_flagged(job, before, after) for job in now.jobs))
    unit.put_all(now.attempts)
    unit.put_all(now.rows)
    unit.drop_rows(now.unparked)
    # What was begun is in flight: the ledger's word. What was done stays, also where a ledger lost it.
    unit.drop_claimed(now.scopes)
    unit.put_all(now.steps)
    unit.put_all(now.history)
    unit.put_all(now.chunks)
    unit.put_blobs(now.blobs)
    unit.put_all(now.leases)
    unit.put_all(now.letters)
    for letter in sorted(now.letters, key=attrgetter("last_failed", "submission")):
        for group, filed, unresolved in dead_letters.tallies(before.get(letter.submission), letter):
            unit.tally(group, filed, unresolved)


def _flagged(job: Job, before: Mapping[str, Letter], after: Mapping[str, Letter]) -> Job:
    """Mark a job by the letter that the journal has of it: the ledger may have lost that, and known nothing of it."""
    letter = after.get(job.submission) or before.get(job.submission)
    unresolved = letter is not None and letter.state.unresolved
    return evolve(job, letter=unresolved) if job.letter is not unresolved else job


def _single_holders(jobs: Iterable[Job]) -> list[Job]:
    """Leave a key to whoever has it by now: jobs are read one after another, and one may have taken another's."""
    found = sorted(jobs, key=attrgetter("started_at", "submission"))
    owners = {job.claim: job.submission for job in found if job.claim}
    return [evolve(job, claim=None) if job.claim and owners[job.claim] != job.submission else job for job in found]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """What a journal has of a letter that its ledger does not have."""

    letter: Letter
    job: Job | None
    attempts: Sequence[AttemptRecord]
    steps: Sequence[StepRecord]


def restore(unit: Unit, lost: Lost) -> None:
    """Put a letter back into a ledger, with its job if that is gone, too."""
    submission = lost.letter.submission
    job = unit.job(submission)
    if unit.letter(submission) is not None:
        return
    if job is None and lost.job is not None:
        job = _unclaimed(unit, lost.job)
        unit.put(job)
        for attempt in lost.attempts:
            unit.put(attempt)
        known = {step.step_id for step in unit.steps(job.identity)}
        for step in lost.steps:
            if step.step_id not in known and job.identity == step.scope:
                unit.put(step)
    letter = _reopened(unit, lost.letter)
    unit.put(letter)
    for group, filed, unresolved in dead_letters.tallies(None, letter):
        unit.tally(group, filed, unresolved)
    if job is not None:
        unit.put(evolve(job, letter=letter.state.unresolved))


def _unclaimed(unit: Unit, job: Job) -> Job:
    """Leave its key to whoever has taken it since."""
    return evolve(job, claim=None) if job.claim and unit.holder(job.claim) is not None else job


def _reopened(unit: Unit, letter: Letter) -> Letter:
    """Let a letter wait for a decision again whose replay the ledger lost, too: nothing would ever end it."""
    if letter.state is not LetterState.REPLAY_PENDING or unit.row(letter.replay) or unit.job(letter.replay):
        return letter
    opened = evolve(letter, state=LetterState.OPEN, revision=letter.revision + 1)
    entry = dead_letters.happened(letter, opened, unit.now)
    if entry is not None:
        unit.put(evolve(entry, text="the ledger lost its replay"))
    return opened
