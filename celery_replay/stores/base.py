"""What a store is: public methods that hold the rules, and a few verbs that a backend writes."""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeVar

from .. import admission, leases, lifecycle, losses
from ..admission import Admission, Ask
from ..clock import SECOND, Micros
from ..dead_letters import Decision
from ..exceptions import StoreUnavailable
from ..facts import Change, Delivery, Facts, advance_canvas
from ..lifecycle import Ending
from ..losses import News
from ..records import Chunk, Failure, Job, Row, StepRecord, evolve
from ..states import LeaseEnd, Outcome, Reason, RowStatus, StepState
from . import lines
from .archive import Backlog
from .operating import Operating
from .placing import Placing
from .reading import Readable
from .thinning import Thinning
from .triage import Strip, Triage
from .units import Contention, Unit, facts_of, save

SCHEMA_VERSION = 1
"""Version of the records; a store written by a newer one is refused."""

_HEADS = 20
"""How many of those who go before somebody are looked at."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pulse:
    """One attempt's renewal."""

    submission: str
    nonce: str
    claim: str | None
    lease_us: Micros
    message: Callable[[], bytes | None] = lambda: None
    """Makes the delivery's message, which may not be in the store yet; None where it can't."""
    resources: tuple[str, ...] = ()
    """What it has leased."""


class Store(Placing, Thinning, Readable, Triage, Operating):
    """Ledger, journal and blobs in one. Thread-safe; opened lazily, anew in every process.

    Raises `StoreUnavailable` where it can't be reached. Reads are consistent, but of the moment only.
    """

    shared: ClassVar[bool] = True
    """Can other processes see it?"""
    _tries: ClassVar[int] = 8
    """How often a step is made that met others."""

    @abstractmethod
    def _unit(self) -> AbstractContextManager[Unit]:
        """Begin an atomic step; committed where the block ends well."""

    def _admit_new(self, ask: Ask) -> Admission | None:
        """Admit a delivery of which nothing is known, in one round trip; None where something is."""
        return None

    def _close_own(self, job: Job, ending: Ending, chunks: Sequence[Chunk]) -> bool:
        """Close an attempt that is still the owner and alone, in one round trip; False where it isn't."""
        return False

    def _claim_new(self, job: Job, step: StepRecord) -> bool:
        """Write a step ahead that nobody claimed before, in one round trip; False where that can't be told."""
        return False

    @abstractmethod
    def close_connections(self) -> None:
        """Let go of connections; the next call opens new ones."""

    def check(self) -> None:
        """Try whether the store can be used.

        Raises:
            StoreUnavailable: not now.
            ConfigurationError, SchemaMismatch: not until somebody mends that.
        """
        self.now()

    def archive(self) -> int:
        """Bring what people look at up to date: counters, a journal; return how much was done, 0 where nothing is."""
        return self.count_up()

    def backlog(self) -> Backlog | None:
        """Say what waits to be told to a journal; None where there is none."""
        return None

    def troubles(self) -> Sequence[str]:
        """Say what people should know who look after it."""
        return ()

    def open(self, ask: Ask) -> Admission:
        """Ask whether a delivery may run; atomic, all or nothing."""
        return self._admit_new(ask) or self._atomically(lambda unit: self._open(unit, ask))

    def _open(self, unit: Unit, ask: Ask) -> Admission:
        submission, resources = ask.delivery.submission, ask.resources
        facts = facts_of(unit, submission, ask.claim, original=ask.original, opening=True, resources=resources)
        answer = admission.admit(facts, ask, unit.now)
        save(unit, facts, answer)
        return answer

    def close(self, job: Job | None, ending: Ending, chunks: Sequence[Chunk] = ()) -> tuple[bool, Sequence[Row]]:
        """End an attempt, and release those who waited for it.

        Args:
            job: the record as OPEN wrote it, if it is at hand: it saves a look.

        Returns:
            Whether the attempt was still the owner, and rows that can be published at once.
        """
        if job is not None and self._close_own(job, ending, chunks):
            return True, ()
        return self._atomically(lambda unit: self._close(unit, ending, chunks))

    def _close(self, unit: Unit, ending: Ending, chunks: Sequence[Chunk]) -> tuple[bool, Sequence[Row]]:
        facts = facts_of(unit, ending.delivery.submission, ending.claim, resources=ending.resources)
        closing = lifecycle.close(facts, ending, unit.now)
        called = lines.called(facts, closing.facts)
        if closing.accepted:
            # Before anything is filed: a letter tells which steps were done.
            scope = ending.claim or ending.delivery.submission
            _settle(unit, scope, ending.steps)
            if ending.outcome is Outcome.SUCCEEDED:
                _settle(unit, scope, [evolve(s, state=StepState.SETTLED) for s in unit.steps(scope)])
        save(unit, facts, closing, chunks)
        if closing.accepted and ending.outcome.handed_over:
            # The key is kept for this submission's next delivery, which may have come early and be parked.
            own = self._wake_own(unit, ending.delivery.submission)
            return True, (*((own,) if own else ()), *called)
        return closing.accepted, (*(self._wake(unit, closing.wakes) if closing.wakes else ()), *called)

    def renew(self, pulses: Iterable[Pulse]) -> set[str]:
        """Prolong leases; return the nonces that lost theirs."""
        # In one order everywhere, so that two units that lock the same jobs can't deadlock.
        ordered = sorted(pulses, key=lambda pulse: pulse.submission)
        return self._atomically(lambda unit: {p.nonce for p in ordered if not _renew(unit, p)})

    def flush(
        self,
        advanced: Sequence[str] = (),
        chunks: Sequence[Chunk] = (),
        steps: Sequence[StepRecord] = (),
        calm: Sequence[Job] = (),
    ) -> None:
        """Write what was buffered.

        Args:
            advanced: submissions whose canvas was sent on.
            chunks: events.
            steps: settled steps, and steps given up without effect; ignored where a newer attempt claimed them.
            calm: running attempts whose side effects all were settled in the meantime. Never those whose whole
                body is one step.
        """
        if advanced or chunks or steps or calm:
            self._atomically(lambda unit: _flush(unit, advanced, chunks, steps, calm))

    def amend(self, submission: str, failure: Failure, failure_json: str, message: bytes = b"") -> None:
        """Record that Celery announced a failure for a job that had closed well.

        Args:
            message: the job's: the body of its chord, if it has one, is not run.
        """

        def step(unit: Unit) -> None:
            facts = facts_of(unit, submission, None)
            after = lifecycle.amend_failure(facts, failure, failure_json, unit.now)
            save(unit, facts, Change(facts=after, unfiled=message if after is not facts else b""))

        self._atomically(step)

    def claim_step(self, job: Job, step: StepRecord, delivery: Delivery) -> tuple[bool, StepRecord | None]:
        """Write a side-effect step ahead. For an attempt that lost its job, its delivery is parked instead.

        Returns:
            Whether the attempt still owns its job, and the step's record from an earlier attempt, if there is one.
        """
        if self._claim_new(job, step):
            return True, None
        return self._atomically(lambda unit: _claim_step(unit, job, step, delivery))

    def release_due(self, limit: int = 100) -> Sequence[Row]:
        """Release parked rows whose obstacle is over; return those to be published."""
        due = self._atomically(lambda unit: unit.rows_due(limit))
        released = [self._atomically(partial(self._release, submission=row.submission)) for row in due]
        return [row for row in released if row is not None]

    def _release(self, unit: Unit, submission: str) -> Row | None:
        row = unit.row(submission)
        if row is None:
            return None
        if row.reason is Reason.LEASE_HELD:
            return self._release_in_line(unit, row)
        facts = facts_of(unit, submission, row.subject if row.subject != submission else None)
        done = facts.owner is not None and facts.owner.status is Outcome.SUCCEEDED
        if row.status is RowStatus.PARKED and not done and _on_its_way(unit, row.subject):
            # Others of the same key come one by one, in their order.
            unit.put(evolve(row, wake_at=unit.now + SECOND))
            return None
        after = lifecycle.due(facts, unit.now)
        save(unit, facts, Change(facts=after))
        return after.row if after.row and after.row.status is RowStatus.RELEASED else None

    def _release_in_line(self, unit: Unit, row: Row) -> Row | None:
        """Release one that waits for leases, if it is its turn; if it does not come, whoever is next."""
        facts, resources = facts_of(unit, row.submission, None), unit.waits(row.submission)
        places = lines.places_of(unit, resources, row.submission) if row.status is RowStatus.PARKED else ()
        since = row.contended_since if row.contended_since is not None else row.parked_at
        found = leases.obstacle(places, row.submission, since, unit.now)
        if found is not None:
            unit.put(evolve(row, wake_at=found.wake_at))
            return None
        after = lifecycle.due(facts, unit.now)
        save(unit, facts, Change(facts=after))
        if resources and row.in_line and after.row is not None and not after.row.in_line:
            lines.pass_on(unit, resources, row.submission)
        return after.row if after.row and after.row.status is RowStatus.RELEASED else None

    def _wake(self, unit: Unit, identity: str) -> Sequence[Row]:
        """Release who waits for a key: everybody once it is done, else the first."""
        owner = unit.holder(identity) or unit.job(identity)
        done = owner is not None and owner.status is Outcome.SUCCEEDED
        waiting = unit.rows_behind(identity, (RowStatus.PARKED,), 1000 if done else 1)
        for row in waiting[100:]:
            unit.put(evolve(row, wake_at=unit.now))
        first = [evolve(row, wake_at=unit.now) for row in waiting[:100]]
        for row in first:
            unit.put(row)
        return [row for row in (self._release(unit, r.submission) for r in first) if row is not None]

    def _wake_own(self, unit: Unit, submission: str) -> Row | None:
        row = unit.row(submission)
        if row is None or row.status is not RowStatus.PARKED:
            return None
        unit.put(evolve(row, wake_at=unit.now))
        return self._release(unit, submission)

    def mark_sent(self, row: Row, resend_us: Micros) -> None:
        """Note that a released row was published, unless it went on to another round meanwhile."""

        def step(unit: Unit) -> None:
            facts = Facts(row=unit.row(row.submission))
            save(unit, facts, Change(facts=lifecycle.sent(facts, row, resend_us, unit.now)))

        self._atomically(step)

    def reap(self, limit: int = 100) -> int:
        """File jobs of which nothing more will be heard; return how many."""
        found = self._atomically(lambda unit: unit.reapable(limit))
        return sum(self._atomically(partial(self._reap, job=job)) for job in found)

    def _reap(self, unit: Unit, job: Job) -> bool:
        facts = facts_of(unit, job.submission, job.claim)
        change = losses.reap(facts, unit.now)
        if change is None:
            return False
        save(unit, facts, change)
        if facts.job is not None and facts.job.waiters:
            self._wake(unit, facts.job.identity)
        return True

    def hear(self, news: News) -> Sequence[Row]:
        """Act on news of an attempt that could not close itself; return rows that can be published."""

        def step(unit: Unit) -> Sequence[Row]:
            facts = facts_of(unit, news.submission, None, original=news.original)
            change = losses.hear(facts, news, unit.now)
            if change is None:
                return ()
            stood = unit.waits(news.submission) if facts.row is not None and facts.row.in_line else ()
            save(unit, facts, change)
            called = _after_news(unit, news, facts, change.facts, stood)
            own = self._release(unit, news.submission)
            waiters = facts.job is not None and facts.job.waiters
            others = self._wake(unit, facts.job.identity) if facts.job and waiters else ()
            rest = (row for row in (*others, *called) if row.submission != news.submission)
            return [*([own] if own else []), *rest]

        return self._atomically(step)

    def erase(self, submission: str, decision: Decision, strip: Strip) -> Job:
        """Erase a person's data from all that is kept of a job that ended, elsewhere too; return what stays of the job.

        Raises:
            TriageRefused: it has not ended, its message is still needed, or there is none.
        """
        elsewhere: set[str] = set()

        def noting(chunk: Chunk, job: Job) -> tuple[Chunk | None, Collection[str]]:
            rest, references = strip(chunk, job)
            elsewhere.update(self._names_elsewhere(references))
            return rest, references

        job = self._erase(submission, decision, noting)
        self._delete_elsewhere(elsewhere)
        return job

    def lead(self, nonce: str, ttl_us: Micros, name: str = "steward") -> bool:
        """Take or keep the store-wide lease of a steward."""
        return self._atomically(lambda unit: unit.lead(name, nonce, unit.now + ttl_us))

    def count_up(self, limit: int = 5_000) -> int:
        """Add letters to their groups' counters that were filed while others did; return how many."""
        with self._read() as reader:
            waiting = reader.uncounted()
        return self._atomically(lambda unit: unit.count_up(limit)) if waiting else 0

    def prune(self, limit: int = 500) -> int:
        """Delete one batch of records past their retention; return how many jobs went."""
        return self._atomically(lambda unit: unit.prune(limit))

    def mark(self, name: str, at_least: Micros = 0) -> Micros:
        """Raise a number that never sinks, if need be, and return what it was; 0 for one that nobody raised.

        For another store that may forget what it knew, and must not go back behind this number then.
        """
        return self._atomically(lambda unit: unit.mark(name, at_least))

    def keep_mark(self) -> None:
        """Have another store remember how far this one may go meanwhile; the leading steward calls it in each round."""

    def now(self) -> Micros:
        """Read the store's clock."""
        return self._atomically(lambda unit: unit.now)

    def _atomically(self, step: Callable[[Unit], T]) -> T:
        for attempt in range(self._tries):
            try:
                with self._unit() as unit:
                    return step(unit)
            except Contention:
                time.sleep(random.uniform(0, 0.002 * 2 ** min(attempt, 7)))
        raise StoreUnavailable("the store is too contended; look for long transactions on its tables")


def _after_news(unit: Unit, news: News, before: Facts, after: Facts, stood: Sequence[str]) -> Sequence[Row]:
    """Free what a dead attempt had leased, and let those go on who stood behind a job that is over."""
    called: list[Row] = []
    job = before.job
    if job is not None and after.job not in (None, job) and after.job.lease_until is None:
        # Not every news is about the attempt that has the job now.
        end = LeaseEnd.DIED if losses.names(news, job) else LeaseEnd.LAPSED
        called += lines.let_go(unit, job.submission, end)
    if stood and after.row is None:
        called += lines.pass_on(unit, stood, job.submission if job is not None else "")
    return called


def _on_its_way(unit: Unit, subject: str) -> bool:
    """Is one of those who waited being published, or on its queue? One that nobody took in time does not count."""
    moving = unit.rows_behind(subject, (RowStatus.RELEASED, RowStatus.SENT), _HEADS)
    return any(row.releases <= 1 for row in moving)


def _renew(unit: Unit, pulse: Pulse) -> bool:
    facts = Facts(job=unit.job(pulse.submission), places=lines.held_by(unit, pulse.resources))
    after = lifecycle.renew(facts, pulse.nonce, pulse.claim, pulse.lease_us, unit.now, pulse.message)
    if after is not None:
        save(unit, facts, Change(facts=after))
    return after is not None


def _claim_step(unit: Unit, job: Job, step: StepRecord, delivery: Delivery) -> tuple[bool, StepRecord | None]:
    current = unit.job(job.submission)
    if current is None or not lifecycle.owns(current, job.nonce, job.claim):
        facts = facts_of(unit, job.submission, job.claim)
        save(unit, facts, Change(facts=lifecycle.step_back(facts, delivery, job.claim, unit.now)))
        return False, None
    earlier = next((s for s in unit.steps(step.scope) if s.step_id == step.step_id), None)
    if earlier is None or earlier.state is StepState.CLAIMED:
        unit.put(evolve(step, claimed_at=unit.now))
        unit.put(evolve(current, unsettled=True))
    return True, earlier


def _flush(
    unit: Unit,
    advanced: Sequence[str],
    chunks: Sequence[Chunk],
    steps: Sequence[StepRecord],
    calm: Sequence[Job],
) -> None:
    for submission in sorted(unit.advance(advanced)):
        facts = facts_of(unit, submission, None)
        save(unit, facts, Change(facts=advance_canvas(facts)))
    for step in steps:
        stored = next((s for s in unit.steps(step.scope) if s.step_id == step.step_id), None)
        if stored is not None and stored.nonce == step.nonce:
            _settle(unit, step.scope, [step])
    for job in calm:
        current = unit.job(job.submission)
        open_steps = any(s.state is StepState.CLAIMED for s in unit.steps(job.identity))
        if current is not None and lifecycle.owns(current, job.nonce, job.claim) and not open_steps:
            unit.put(evolve(current, unsettled=False))
    unit.put_chunks(chunks)


def _settle(unit: Unit, scope: str, steps: Iterable[StepRecord]) -> None:
    for step in steps:
        if step.state is StepState.SETTLED:
            unit.put(step)
        else:
            # Its function ended with an error that tells that nothing happened.
            unit.drop(step)
