"""Every other step of a job's life: renew, close, canvas, rows, reaper. Pure functions of the stored facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import dead_letters
from .clock import SECOND, Micros
from .facts import (
    Change,
    Delivery,
    Facts,
    alive,
    attempt_of,
    blocked_until,
    died,
    park,
)
from .records import Failure, Job, Letter, Row, StepRecord, evolve
from .states import AckMode, Category, Outcome, Reason, RowStatus

PUBLISHING_US: Micros = 5 * SECOND
"""How long whoever released a row has for publishing it, before the steward does it, too."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What an attempt tells CLOSE."""

    delivery: Delivery
    nonce: str
    claim: str | None
    outcome: Outcome
    """REFUSED where the attempt itself found that it had lost its job: it is never accepted, and parks the delivery."""
    canvas: bool
    """The request has a link, errback, chain, chord or a result that somebody waits for."""
    canvas_us: Micros
    keep_us: Micros
    reserve_us: Micros = 0
    """For a scheduled retry: how long the key waits for it."""
    result: str | None = None
    result_lost: bool = False
    failure: Failure | None = None
    failure_json: str | None = None
    unsettled: bool = False
    """A side effect's end is still unknown."""
    unsure: bool = False
    """The attempt does not know whether the store ever opened it. Where that is not so, nothing is done."""
    strike: bool = False
    """INTERRUPTED by the body itself, which ended its process: it counts towards the poison cap."""
    steps: tuple[StepRecord, ...] = ()
    """Steps that were settled (or, without effect, given up) since the last flush."""
    code_version: str = ""
    worker: str = ""
    pid: int = 0
    fence: int = 0
    started_at: Micros = 0
    """With worker, process and fence: how OPEN recorded this attempt. The job may be somebody else's by now."""


@dataclass(frozen=True, kw_only=True)
class Closing(Change):
    """CLOSE's answer."""

    accepted: bool
    wakes: str | None = None
    """The identity behind which others are parked, who may go on now."""


def owns(job: Job | None, nonce: str, claim: str | None, *, closing: bool = False) -> bool:
    """Is this attempt still the owner? The reaper takes nothing over, so its mark does not end ownership."""
    if job is None or job.nonce != nonce or job.claim != claim:
        return False
    return job.status is Outcome.OPEN or (closing and job.status is Outcome.LOST)


def close(facts: Facts, ending: Ending, now: Micros) -> Closing:
    """End an attempt: compare-and-set on its nonce.

    Whoever lost ownership is refused, and the refusal parks the delivery in the same step, unless a later delivery
    or the end of its canvas made it needless: its message is about to be acknowledged.
    """
    job = facts.job
    if job is not None and (job.nonce, job.claim, job.status) == (ending.nonce, ending.claim, ending.outcome):
        # The answer to this very CLOSE was lost on the way.
        return Closing(facts=facts, accepted=True, wakes=job.identity if job.waiters else None)
    if job is None or not owns(job, ending.nonce, ending.claim, closing=True):
        return Closing(facts=facts, accepted=False) if ending.unsure else _refused(facts, ending, now)
    if ending.outcome is Outcome.REFUSED:
        return _stepped_down(facts, ending, now)
    record = attempt_of(job, ending.outcome, now)
    if job.status is Outcome.LOST and ending.outcome is Outcome.INTERRUPTED:
        # Whoever filed it knew more of its end than the attempt that was cut off.
        return Closing(facts=facts, ended=(record,), accepted=True)
    closed = _closed(job, ending, ending.outcome, now, keep_until=now + ending.keep_us)
    facts = evolve(facts, job=closed)
    wakes = job.identity if job.waiters else None
    if ending.outcome.handed_over:
        facts = _hand_over(facts, ending, now)
    elif ending.outcome.ended:
        facts = _end(facts, ending, now)
    elif job.ack is AckMode.EARLY:
        # No message comes back for a job that was acknowledged before it was cut off.
        facts = _lose(evolve(facts, job=evolve(closed, message=job.message)), now, Reason.INTERRUPTED)
    return Closing(facts=facts, ended=(record,), accepted=True, wakes=wakes)


def _closed(job: Job, ending: Ending, status: Outcome, now: Micros, **more: Any) -> Job:
    return evolve(
        job,
        status=status,
        lease_until=None,
        closed_at=now,
        message=None,
        strikes=job.strikes + 1 if ending.strike else 0,
        unsettled=ending.unsettled,
        **more,
    )


def _stepped_down(facts: Facts, ending: Ending, now: Micros) -> Closing:
    """Let an attempt give up its job because it found that it had lost it, though nobody had taken over."""
    job = _job(facts)
    record = attempt_of(job, Outcome.REFUSED, now)
    facts = evolve(facts, job=_closed(job, ending, Outcome.INTERRUPTED, now))
    return Closing(facts=step_back(facts, ending.delivery, ending.claim, now), ended=(record,), accepted=False)


def _hand_over(facts: Facts, ending: Ending, now: Micros) -> Facts:
    job, row = _job(facts), facts.row
    if row is not None and row.generation <= job.generation:
        row = None
    return evolve(facts, job=evolve(job, reserved_until=now + ending.reserve_us), row=row)


def _end(facts: Facts, ending: Ending, now: Micros) -> Facts:
    job = evolve(
        _job(facts),
        result=ending.result,
        result_lost=ending.result_lost,
        failure=ending.failure_json,
        canvas_until=now + ending.canvas_us,
    )
    facts = evolve(facts, job=job)
    if ending.outcome.failing:
        facts = dead_letters.file(facts, _letter(job, ending, now))
    else:
        facts = dead_letters.resolve(facts, "succeeded")
    return facts if ending.canvas else advance_canvas(facts)


def _refused(facts: Facts, ending: Ending, now: Micros) -> Closing:
    job, generation = facts.job, ending.delivery.generation
    record = attempt_of(job, Outcome.REFUSED, now) if job else None
    own = {name: getattr(ending, name) for name in ("nonce", "worker", "pid", "fence", "started_at")}
    ended = (evolve(record, generation=generation, **own),) if record else ()
    facts = step_back(facts, ending.delivery, ending.claim, now)
    return Closing(facts=facts, ended=ended, accepted=False)


def step_back(facts: Facts, delivery: Delivery, claim: str | None, now: Micros) -> Facts:
    """Park the delivery of an attempt that was refused as owner, unless nothing is left for it to do."""
    job, generation = facts.job, delivery.generation
    if job is not None:
        superseded = job.generation > generation or (job.generation == generation and job.status.handed_over)
        if superseded or (job.status.ended and job.canvas_advanced):
            return facts
    return park(facts, delivery, claim or delivery.submission, Reason.OWNERSHIP_LOST, now, wake_at=now)


def renew(facts: Facts, nonce: str, claim: str | None, lease_us: Micros, now: Micros) -> Facts | None:
    """Prolong an attempt's lease, or return None: it is no longer the owner.

    A renewal that comes late, but before anybody took over, counts.
    """
    job = facts.job
    if job is None or not owns(job, nonce, claim, closing=True):
        return None
    if job.status is Outcome.LOST:
        return facts
    return evolve(facts, job=evolve(job, lease_until=now + lease_us))


def advance_canvas(facts: Facts) -> Facts:
    """Note that callbacks, chain and chord part were sent on; nothing of the submission is left to do."""
    if facts.job is None:
        return facts
    job = evolve(facts.job, canvas_advanced=True, canvas_unknown=False, canvas_until=None)
    return evolve(facts, job=job, row=None)


def amend_failure(facts: Facts, failure: Failure, failure_json: str, now: Micros) -> Facts:
    """Record that Celery reported FAILURE for a job that had closed well: effect done, result lost."""
    job = facts.job
    if job is None or job.status not in (Outcome.SUCCEEDED, Outcome.DEDUPLICATED):
        return facts
    job = evolve(job, result_lost=True, failure=failure_json)
    return evolve(facts, job=job)


def due(facts: Facts, now: Micros) -> Facts:
    """Release a row whose obstacle has ended or lapsed; else look at it again when that may have happened."""
    row = facts.row
    if row is None or row.wake_at > now:
        return facts
    if row.status is RowStatus.RELEASED:
        # Whoever released it could not publish it.
        again = evolve(row, releases=row.releases + 1, wake_at=now + PUBLISHING_US)
        return evolve(facts, row=again)
    blocked = None if row.status is RowStatus.SENT else blocked_until(facts, now)
    if blocked is not None:
        return evolve(facts, row=evolve(row, wake_at=blocked))
    released = evolve(
        row,
        status=RowStatus.RELEASED,
        revision=row.revision + 1,
        releases=row.releases + 1,
        wake_at=now + PUBLISHING_US,
    )
    return evolve(facts, row=released)


def sent(facts: Facts, published: Row, resend_us: Micros, now: Micros) -> Facts:
    """Mark a row as sent, but only in the round that was published."""
    row = facts.row
    if row is None or row.status is not RowStatus.RELEASED:
        return facts
    if (row.parked_at, row.revision) != (published.parked_at, published.revision):
        return facts
    return evolve(facts, row=evolve(row, status=RowStatus.SENT, wake_at=now + resend_us))


def reap(facts: Facts, now: Micros) -> Change | None:
    """File a job whose owner died, or whose retry never came, once no message can bring it back.

    Nothing is taken over: a later delivery may run, and the owner's own CLOSE is still accepted; both resolve the
    letter.
    """
    job = facts.job
    if job is None or facts.row is not None or job.reap_at is None or job.reap_at > now:
        return None
    if job.status.handed_over:
        return _lost(facts, now, Reason.RETRY_NEVER_CAME)
    if job.status.ended:
        return Change(facts=evolve(facts, job=evolve(job, canvas_until=None, canvas_unknown=True)))
    return _lost(facts, now, Reason.WORKER_LOST)


@dataclass(frozen=True, kw_only=True)
class News:
    """What a worker's parent saw of an attempt that could not close itself."""

    submission: str
    generation: int
    worker: str
    pid: int
    reason: Reason
    final: bool
    """The message was acknowledged: no other delivery will come."""
    operation: str = ""
    task_id: str = ""
    trace_id: str = ""
    correlation_id: str = ""
    key: str = ""
    original: str | None = None
    """For a replay: the submission that it is about."""
    keep_us: Micros = 0
    """How long a job that never began is remembered."""


def hear(facts: Facts, news: News, now: Micros) -> Change | None:
    """Act on news of a dead owner: its lease ends at once, and where no message comes back its letter is filed."""
    job = facts.job
    if news.reason is Reason.REJECTED:
        announced = job is not None and job.status.ended and job.generation == news.generation
        return Change(facts=advance_canvas(facts)) if announced else None
    if news.reason in (Reason.REVOKED, Reason.EXPIRED):
        return _withdraw(facts, news, now)
    if job is None or (job.generation, job.worker, job.pid) != (news.generation, news.worker, news.pid):
        return None
    if job.status not in (Outcome.OPEN, Outcome.INTERRUPTED) and not _cut_off(facts):
        return None
    row = facts.row
    if row is not None:
        row = evolve(row, wake_at=now)
    closed_at = job.closed_at or now
    facts = evolve(facts, job=evolve(job, lease_until=None, closed_at=closed_at), row=row)
    if news.final and row is None:
        return _lost(facts, now, news.reason)
    return Change(facts=facts)


def _cut_off(facts: Facts) -> bool:
    """Did the attempt close itself while it was being ended, so that it could not know why?"""
    lost = facts.job is not None and facts.job.status is Outcome.LOST
    return lost and facts.letter is not None and facts.letter.reason is Reason.INTERRUPTED


def _withdraw(facts: Facts, news: News, now: Micros) -> Change | None:
    """End a job whose message Celery has thrown away: revoked, or expired before it began."""
    job, row = facts.job, facts.row
    if row is not None and row.generation <= news.generation:
        facts = evolve(facts, row=None)
    outcome = Outcome.EXPIRED if news.reason is Reason.EXPIRED else Outcome.REVOKED
    if job is None and facts.row is None:
        facts = evolve(facts, job=_never_begun(news, outcome, now))
        return Change(facts=dead_letters.give_back(facts) if news.original else facts)
    if job is None or job.status.ended or job.generation > news.generation:
        return Change(facts=facts) if facts.row is not row else None
    ours = (job.generation, job.worker, job.pid) == (news.generation, news.worker, news.pid)
    if alive(job, now) and not ours:
        return None
    ended = (attempt_of(job, outcome, now),) if job.status is Outcome.OPEN else ()
    job = evolve(
        job, status=outcome, lease_until=None, reserved_until=None, closed_at=now, message=None, canvas_until=None
    )
    facts = evolve(facts, job=evolve(job, canvas_advanced=True))
    replayed = job.original is not None
    facts = dead_letters.give_back(facts) if replayed else dead_letters.resolve(facts, str(outcome))
    return Change(facts=facts, ended=ended)


def _never_begun(news: News, outcome: Outcome, now: Micros) -> Job:
    """Record a job of which nothing else is known; a copy of its message that comes later does nothing."""
    return Job(
        submission=news.submission,
        operation=news.operation,
        task_id=news.task_id,
        trace_id=news.trace_id,
        correlation_id=news.correlation_id,
        key=news.key,
        generation=news.generation,
        status=outcome,
        canvas_advanced=True,
        original=news.original,
        worker=news.worker,
        pid=news.pid,
        started_at=now,
        closed_at=now,
        keep_until=now + news.keep_us,
    )


def _lost(facts: Facts, now: Micros, reason: Reason) -> Change:
    job = _job(facts)
    ended = (died(job, now, str(reason)),) if job.status is Outcome.OPEN else ()
    return Change(facts=_lose(facts, now, reason), ended=ended)


def _lose(facts: Facts, now: Micros, reason: Reason) -> Facts:
    job = _job(facts)
    strikes = job.strikes + (job.status is Outcome.OPEN)
    job = evolve(job, status=Outcome.LOST, lease_until=None, strikes=strikes)
    facts = evolve(facts, job=job)
    return dead_letters.file(facts, _lost_letter(job, now, reason))


def _letter(job: Job, ending: Ending, now: Micros) -> Letter:
    return dead_letters.draft(
        job,
        now,
        Reason.EXCEPTION,
        failure=ending.failure,
        message=ending.delivery.message(),
        code_version=ending.code_version,
    )


def _lost_letter(job: Job, now: Micros, reason: Reason) -> Letter:
    category = Category.UNKNOWN_OUTCOME if job.unsettled else Category.UNCLASSIFIED
    return dead_letters.draft(job, now, reason, category=category, message=job.message or b"")


def _job(facts: Facts) -> Job:
    assert facts.job is not None
    return facts.job
