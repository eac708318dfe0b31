"""A simulated world around a real store: every move is one event that can happen in production."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery_replay.admission import Admission
from celery_replay.clock import SECOND, Micros
from celery_replay.dead_letters import Decision
from celery_replay.losses import News
from celery_replay.records import Job, Row, StepRecord
from celery_replay.states import AckMode, Outcome, Reason, RowStatus, Verb, Verdict
from celery_replay.stores.base import Pulse, Store
from tests.conformance import setup
from tests.conformance.leased import Leased
from tests.conformance.outside import Backend, Broker, Message, Target
from tests.conformance.setup import Setup
from tests.conformance.worker import RUNNING, TRACER, Worker

MakeStore = Callable[[Callable[[], Micros]], Store]
"""Makes an empty store that goes by the clock it is given."""


@dataclass
class Clock:
    """The store's clock, which stands still unless it is moved."""

    now: Micros = 1_700_000_000 * SECOND

    def __call__(self) -> Micros:
        return self.now


class World:
    """Broker, workers, steward and store of one task."""

    def __init__(self, setup: Setup, make_store: MakeStore) -> None:
        self.setup = setup
        self.clock = Clock()
        self.store = make_store(self.clock)
        self.broker = Broker()
        self.target = Target(setup.guard)
        self.backend = Backend(setup.counts_by_id)
        self.workers = [Worker(self, f"worker-{number}") for number in range(setup.workers)]
        self.submissions = [f"job-{number}" for number in range(setup.submissions)]
        self.to_publish: list[Row] = []
        """Released rows in the hands of a steward or a closing worker."""
        self.to_mark: list[Row] = []
        """Published rows that a steward has yet to mark."""
        self.news: list[News] = []
        self.log: list[str] = []
        self.violations: list[str] = []
        self.owners: dict[str, str] = {}
        self.fences: dict[str, int] = {}
        self.zombies = False
        """A lease lapsed while its owner lived."""
        self.uncertain_count: set[str] = set()
        """Their chord part may have been counted: a crash before the flag, or a canvas lease that lapsed."""
        self.unseen: set[str] = set()
        """Their message was acknowledged and died before OPEN."""
        self.canvas_lost: set[str] = set()
        """Their worker died, and no message comes back."""
        self.died: set[str] = set()
        """A worker of theirs died, or was interrupted after its message was acknowledged."""
        self.given_up: set[str] = set()
        """The reaper took an attempt of theirs for lost that lived."""
        self.originals: dict[str, str] = {}
        """By the submission of a replay: what it replays."""
        self.published: set[tuple[str, Micros, int]] = set()
        """Rounds of rows whose message went out."""
        self.leased = Leased()
        self._minted = 0
        for submission in self.submissions:
            self.broker.publish(submission, 0)

    # What the processes tell of themselves.

    def mint(self) -> str:
        self._minted += 1
        return f"nonce-{self._minted}"

    def answered(self, worker: Worker, answer: Admission) -> None:
        self.log.append(f"{worker.name}: {worker.submission}.{worker.generation} OPEN {answer.verdict} {answer.reason}")
        job, identity = answer.facts.job, worker.identity
        takes_over = answer.verdict in (Verdict.RUN, Verdict.REFUSED) and job is not None
        if takes_over and job is not None and job.identity == identity:
            self.owners[identity] = worker.nonce
        if answer.verdict is Verdict.RUN and job is not None:
            if job.fence <= self.fences.get(identity, 0):
                self.violations.append(f"P4: fence {job.fence} of {identity} does not rise")
            self.fences[identity] = job.fence
        self.violations += self.leased.answered(worker, answer)

    def accepted(self, worker: Worker, what: str) -> None:
        self.log.append(f"{worker.name}: {worker.submission}.{worker.generation} {what} accepted")
        if self.owners.get(worker.identity) != worker.nonce:
            self.violations.append(f"P4: {what} of {worker.nonce} accepted, which is not the owner")
        self.violations += self.leased.accepted(worker, what)

    def claimed_over(self, worker: Worker, earlier: StepRecord) -> None:
        if not worker.incomplete and earlier.nonce != worker.nonce:
            self.violations.append(f"P1: OPEN did not tell {worker.nonce} of the unsettled step of {earlier.nonce}")

    def resources_of(self, submission: str) -> tuple[str, ...]:
        first = self.originals.get(submission, submission)
        names = self.setup.resources
        return names[int(first.removeprefix("job-")) % len(names)]

    def running(self) -> set[str]:
        """Return the attempts whose body runs."""
        return {worker.nonce for worker in self.workers if worker.at in RUNNING}

    def job(self, submission: str) -> Job | None:
        return self.store.job(submission)

    # Faults.

    def crash(self, worker: Worker) -> None:
        """Lose a whole worker: nobody acknowledges, nobody tells."""
        self._bury(worker)
        worker.die()

    def kill(self, worker: Worker, reason: Reason = Reason.WORKER_LOST) -> None:
        """Lose a pool child: its parent acknowledges or requeues, by the task's settings, and tells of it twice."""
        message, ack = worker.message, self.setup.ack
        acked = reason is Reason.REVOKED or ack is not AckMode.LATE
        self._bury(worker, acked=acked)
        if message is not None:
            if acked:
                self.broker.ack(message.tag)
            elif message.tag in self.broker.unacked:
                self.broker.restore(message.tag)
            # A time limit is told as final also where the task wants its message back.
            final = acked or reason is Reason.HARD_TIME_LIMIT
            self._tell(message, reason, worker=worker.name, pid=worker.pid, final=final)
        worker.die()

    def turn_away(self, message: Message) -> None:
        """Let a worker that knows no such task throw a message away, and tell of it."""
        self.died.add(message.submission)
        self.canvas_lost.add(message.submission)
        self.unseen.add(message.submission)
        self.broker.queue.remove(message)
        self._tell(message, Reason.UNKNOWN_TASK, worker="another", pid=0, final=True)

    def _tell(self, message: Message, reason: Reason, **where: Any) -> None:
        news = News(
            submission=message.submission,
            generation=message.generation,
            reason=reason,
            operation="shop.ship",
            task_id=message.submission,
            trace_id=message.submission,
            original=self.originals.get(message.submission),
            keep_us=86_400 * SECOND,
            message=message.encoded(),
            **where,
        )
        self.news += [news, news]

    def _bury(self, worker: Worker, *, acked: bool = False) -> None:
        acked = acked or self.setup.ack is AckMode.EARLY
        self.died.add(worker.submission)
        lost = set(worker.flags)
        self.uncertain_count |= lost
        if acked:
            self.canvas_lost |= {*lost, worker.submission}
        if worker.at in TRACER or worker.submission in lost:
            self.uncertain_count.add(worker.submission)
        if acked and worker.at in ("ack_first", "open"):
            self.unseen.add(worker.submission)

    def advance(self, duration: Micros, starved: frozenset[str] = frozenset()) -> None:
        """Let time pass; living owners renew their leases, but for those whose heartbeat is starved."""
        self.clock.now += duration
        for worker in self.workers:
            if worker.at in RUNNING and worker.name not in starved:
                self.renew(worker)
        self._note_zombies()

    def renew(self, worker: Worker) -> bool:
        """Beat; tell whether the attempt lost its job."""
        assert worker.job is not None
        job = worker.job
        pulse = Pulse(
            submission=job.submission,
            nonce=job.nonce,
            claim=job.claim,
            lease_us=setup.LEASE,
            resources=worker.resources,
        )
        lost = bool(self.store.renew([pulse]))
        if not lost:
            self.leased.renewed(worker)
        return lost

    def _note_zombies(self) -> None:
        for worker in self.workers:
            job = self.job(worker.submission) if worker.at in RUNNING else None
            if job is not None and job.nonce == worker.nonce and (job.lease_until or 0) <= self.clock.now:
                self.zombies = True
            on_their_way = {*worker.flags, *([worker.submission] if worker.at in TRACER else [])}
            for submission in on_their_way:
                job = self.job(submission)
                if job is not None and job.canvas_until is not None and job.canvas_until <= self.clock.now:
                    self.uncertain_count.add(submission)

    # Operator.

    def replay(self, submission: str) -> None:
        """Replay a dead letter, with its canvas."""
        letter = self.store.letter(submission)
        assert letter is not None
        name = f"{submission}/{letter.replays + 1}"
        decision = Decision(verb=Verb.REPLAYED, actor="operator", replay=name, revision=letter.revision)
        self.to_publish.append(self.store.begin_replay(submission, decision, f"{name} 0".encode()))
        self.submissions.append(name)
        self.originals[name] = submission

    # Steward.

    def release_due(self) -> None:
        self.to_publish.extend(self.store.release_due())

    def publish(self, row: Row) -> None:
        self.to_publish.remove(row)
        self.broker.publish_encoded(row.message)
        self.published.add((row.submission, row.parked_at, row.revision))
        self.to_mark.append(row)

    def mark(self, row: Row) -> None:
        self.to_mark.remove(row)
        self.store.mark_sent(row, setup.RESEND)
        stored = self.store.row(row.submission)
        if stored is None or stored.status is not RowStatus.SENT:
            return
        if (stored.submission, stored.parked_at, stored.revision) not in self.published:
            self.violations.append(f"P6: {row.submission} was marked as sent in a round that nobody published")

    def drop_rows(self) -> None:
        """Crash the steward between release, publish and mark."""
        self.to_publish, self.to_mark = [], []

    def reap(self) -> int:
        reaped = self.store.reap()
        lost = (worker for worker in self.workers if worker.at in RUNNING)
        self.given_up |= {w.submission for w in lost if self.outcome(w.submission) is Outcome.LOST}
        return reaped

    def hear(self, news: News) -> None:
        self.news.remove(news)
        self.to_publish.extend(self.store.hear(news))

    def flush(self, worker: Worker) -> None:
        """Write what a worker has buffered."""
        self.store.flush(advanced=worker.flags, steps=worker.settled if worker.at in RUNNING else ())
        worker.flags = []

    # Looks.

    def orphans(self) -> list[Message]:
        """Return unacknowledged messages whose holder is dead."""
        held = {worker.message.tag for worker in self.workers if worker.at != "idle" and worker.message}
        return [message for tag, message in self.broker.unacked.items() if tag not in held]

    def outcome(self, submission: str) -> Outcome | None:
        job = self.job(submission)
        return job.status if job else None
