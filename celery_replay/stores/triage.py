"""The triage half of a store: what people decide about dead letters and parked jobs, each decision one atomic step."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from .. import dead_letters, leases, tombstones
from ..clock import Micros, as_datetime
from ..dead_letters import Decision
from ..exceptions import TriageRefused
from ..facts import PUBLISHING_US, died
from ..records import Chunk, Job, Lease, Letter, Row, evolve
from ..states import Outcome, Reason, RowStatus, Verb
from . import lines
from .units import Unit, put_letter

T = TypeVar("T")
_WAITING = (RowStatus.PARKED, RowStatus.RELEASED, RowStatus.SENT)
Strip = Callable[[Chunk, Job], tuple[Chunk | None, Collection[str]]]
"""Returns what stays of a chunk of events (None: all of it, as it is another job's), and which blobs it refers to."""


class Triage(ABC):
    """Decides, and writes down who did."""

    @abstractmethod
    def _atomically(self, step: Callable[[Unit], T]) -> T:
        """Run a step as one, again where others got in its way."""

    def _act(self, submission: str, step: Callable[[Unit], T]) -> T:
        """Carry out what a person decided, as one step.

        Args:
            submission: of the dead letter that it is about, if it is about one.
        """
        return self._atomically(step)

    def decide(self, submission: str, decision: Decision) -> Letter:
        """Apply a decision to a dead letter, and return it as it is now.

        Raises:
            TriageRefused: there is none, its state does not allow that, or it changed since the decider looked.
        """
        return self._act(submission, lambda unit: _decide(unit, submission, decision))

    def begin_replay(self, submission: str, decision: Decision, message: bytes) -> Row:
        """Decide to replay a dead letter, and put the replay's message where the dispatcher finds it.

        Both or neither: a replay that was decided is sent, whoever dies meanwhile.

        Args:
            decision: with the replay's submission.
            message: to be published, as `parking.publish` takes it.
                The caller does that at once; the steward only if it dies.

        Raises:
            TriageRefused: as `decide` does.
        """

        def step(unit: Unit) -> Row:
            letter = _decide(unit, submission, decision)
            row = Row(
                submission=decision.replay,
                operation=letter.operation,
                generation=0,
                status=RowStatus.RELEASED,
                # Nobody waits behind it: what its key is busy with is OPEN's question.
                subject=decision.replay,
                reason=Reason.REPLAY,
                wake_at=unit.now + PUBLISHING_US,
                parked_at=unit.now,
                releases=1,
                message=message,
            )
            unit.put(row)
            return row

        return self._act(submission, step)

    def free(self, submission: str, actor: str, text: str) -> Row:
        """Release a parked job before its time; OPEN still decides, and may park it again.

        Raises:
            TriageRefused: it is not parked.
        """

        def step(unit: Unit) -> Row:
            row = unit.row(submission)
            if row is None or row.status not in (RowStatus.PARKED, RowStatus.RELEASED):
                raise TriageRefused("it is not parked" if row is None else f"it is on its way already: {row.status}")
            revision = row.revision + 1
            freed = evolve(row, status=RowStatus.RELEASED, revision=revision, releases=1, wake_at=unit.now)
            unit.put(freed)
            decision = Decision(verb=Verb.FREED, actor=actor, text=text)
            unit.put(dead_letters.entry(decision, unit.now, submission=submission))
            return freed

        return self._act("", step)

    def free_lease(self, resource: str, actor: str, text: str, *, force: bool = False) -> tuple[Lease, Sequence[Row]]:
        """Take a resource from a holder that is dead; it is written down who did so, and why.

        Args:
            force: also from one that may be alive. Its token is not the newest then, and all that it wants to do
                through us is refused; what it does elsewhere nobody can stop.

        Returns:
            The lease as it was, and rows that can be published at once.

        Raises:
            TriageRefused: nobody has it, or the holder is not known to be dead.
        """
        return self._act("", lambda unit: _free_lease(unit, resource, actor, text, force=force))

    def keep(self, submission: str, decision: Decision, until: Micros | None = None) -> Job:
        """Keep a job that ended, with its trace: for good, or only until some time from now on.

        Its key is remembered as long.

        Raises:
            TriageRefused: there is none, or it has not ended.
        """

        def step(unit: Unit) -> Job:
            job = unit.job(submission)
            if job is None or not job.status.over:
                raise TriageRefused("there is no such job" if job is None else f"it has not ended: it is {job.status}")
            kept = evolve(job, keep_until=until)
            unit.put(kept)
            unit.put(dead_letters.entry(decision, unit.now, submission=submission))
            return kept

        return self._act("", step)

    def _erase(self, submission: str, decision: Decision, strip: Strip) -> Job:
        """Erase a person's data from all that is kept of a job that ended; return what stays of the job.

        Ids, outcomes, times and the claim's digest stay, so that a duplicate still finds that it was done.

        Args:
            strip: takes what is said out of an event chunk of this job, and returns the rest.
        """
        return self._act("", lambda unit: erase_now(unit, submission, decision, strip))

    def note_group(self, group_id: str, decision: Decision) -> None:
        """Write a note about a whole group."""
        self.write_down([("", decision)], group_id=group_id)

    def write_down(self, decisions: Iterable[tuple[str, Decision]], *, group_id: str = "") -> None:
        """Write down what changes no record; all of it, or nothing.

        Args:
            decisions: each with the submission that it is about, if it is about one.
            group_id: the group that they are about.
        """
        decided = list(decisions)

        def step(unit: Unit) -> None:
            for submission, decision in decided:
                unit.put(dead_letters.entry(decision, unit.now, submission=submission, group_id=group_id))

        self._act("", step)


def _free_lease(unit: Unit, resource: str, actor: str, text: str, *, force: bool) -> tuple[Lease, Sequence[Row]]:
    (place,) = lines.places_of(unit, (resource,), "")
    lease = place.lease
    if not lease.nonce:
        raise TriageRefused(f"nobody has {resource!r}")
    alive = leases.taken(lease, unit.now)
    if alive and not force:
        raise TriageRefused(
            f"its holder is not known to be dead: it lapses at {as_datetime(lease.until or 0):%Y-%m-%d %H:%M:%S}Z "
            "unless it is renewed"
        )
    place = evolve(place, owner=lines.owner_of(unit, lease))
    called = lines.save_all(unit, (place,), (leases.force(place, unit.now),))
    if place.owner is not None and place.owner.status is Outcome.OPEN:
        unit.put(died(place.owner, unit.now, "a lease of its was taken away"))
    details = {"resource": resource, "fence": lease.fence, "holder": lease.nonce, "alive": alive}
    decision = Decision(verb=Verb.LEASE_FREED, actor=actor, text=text, details=json.dumps(details))
    unit.put(dead_letters.entry(decision, unit.now, submission=lease.submission))
    return lease, called


def _decide(unit: Unit, submission: str, decision: Decision) -> Letter:
    letter = unit.letter(submission)
    if letter is None:
        raise TriageRefused(f"job {submission} has no dead letter")
    after = dead_letters.decide(letter, decision)
    if after != letter:
        put_letter(unit, letter, after)
    unit.put(dead_letters.entry(decision, unit.now, submission=letter.submission, group_id=letter.group_id))
    return after


def erase_now(unit: Unit, submission: str, decision: Decision, strip: Strip) -> Job:
    """Erase what one store has of a job that ended.

    Raises:
        TriageRefused: it has not ended, its message is still needed, or there is none.
    """
    job, letter = unit.job(submission), unit.letter(submission)
    row = unit.row(submission)
    waited_for = job is not None and bool(unit.rows_behind(job.identity, _WAITING, 1)) and row is None
    refusal = tombstones.refusal(job, row, letter, unit.now, waited_for=waited_for)
    if job is None or refusal:
        raise TriageRefused(refusal)
    erase_records(unit, job, strip)
    group_id = letter.group_id if letter is not None else ""
    unit.put(dead_letters.entry(decision, unit.now, submission=submission, group_id=group_id))
    return tombstones.of_job(job)


def erase_records(unit: Unit, job: Job, strip: Strip) -> None:
    """Erase a job's data from its records; no matter whether some of it was erased before."""
    submission = job.submission
    letter, steps, history = unit.letter(submission), unit.steps(job.identity), unit.history(submission)
    unit.put(tombstones.of_job(job))
    if letter is not None:
        unit.put(tombstones.of_letter(letter))
    for step in steps:
        unit.put(tombstones.of_step(step))
    for entry in history:
        unit.put(tombstones.of_entry(entry))
    _erase_events(unit, job, strip)
    unit.forget_leases(submission)
    unit.silence(submission)


def _erase_events(unit: Unit, job: Job, strip: Strip) -> None:
    stripped = [(chunk, *strip(chunk, job)) for chunk in unit.chunks(job.trace_id)]
    own = {reference for _, after, references in stripped if after is not None for reference in references}
    others = {reference for _, after, references in stripped if after is None for reference in references}
    unit.put_chunks([after for _, after, _ in stripped if after is not None])
    unit.drop_blobs(job.trace_id, own - others)
