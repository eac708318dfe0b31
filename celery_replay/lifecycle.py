"""Other steps of a job's life: renew, close, rows. Pure functions of the stored facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import dead_letters, leases, losses
from .clock import SECOND, Micros
from .facts import (
    ADVANCED,
    PUBLISHING_US,
    Change,
    Delivery,
    Facts,
    attempt_of,
    blocked_until,
    park,
    released,
)
from .records import Failure, Job, Letter, Row, StepRecord, evolve, filled
from .states import AckMode, LeaseEnd, Outcome, Reason, RowStatus

STEPPED_DOWN_US: Micros = SECOND
"""How long a job waits that gave itself up for lost for the second time in a row; twice as long each further time."""
STEPPED_DOWN_LIMIT_US: Micros = 60 * SECOND
_NO_MORE: Mapping[str, Any] = {}


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
    """For a scheduled retry: how long the key waits for it. For a message that is given back: how long that waits."""
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
    requeues: int = 0
    """How often in a row this message was given back before, by the body or by an attempt that was lost."""
    steps: tuple[StepRecord, ...] = ()
    """Steps that were settled (or, without effect, given up) since the last flush."""
    code_version: str = ""
    worker: str = ""
    pid: int = 0
    fence: int = 0
    started_at: Micros = 0
    """With worker, process and fence: how OPEN recorded this attempt. The job may be somebody else's by now."""
    resources: tuple[str, ...] = ()
    """What it took a lease on."""


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

    What it has leased is free then, however it ended.
    """
    closing = _close(facts, ending, now)
    if not facts.places:
        return closing
    places = leases.let_go(closing.facts.places, ending.nonce, LeaseEnd.RELEASED, now)
    places = leases.still_in_line(places, closing.facts.row)
    return evolve(closing, facts=evolve(closing.facts, places=places))


def end_well(job: Job, ending: Ending, now: Micros) -> Job | None:
    """Return what `close` makes of a running job that ends well, where there is neither a row nor a letter of it.

    None where it does not end well, or not by its owner.
    """
    outcome = ending.outcome
    if not outcome.ended or outcome.failing or not owns(job, ending.nonce, ending.claim):
        return None
    return _closed(job, ending, outcome, now, _told(ending, now))


def _close(facts: Facts, ending: Ending, now: Micros) -> Closing:
    job = facts.job
    if job is not None and (job.nonce, job.claim, job.status) == (ending.nonce, ending.claim, ending.outcome):
        # The answer to this very CLOSE was lost on the way.
        return Closing(facts=facts, accepted=True, wakes=_wakes(job, ending))
    if job is None or not owns(job, ending.nonce, ending.claim, closing=True):
        return Closing(facts=facts, accepted=False) if ending.unsure else _refused(facts, ending, now)
    if ending.outcome is Outcome.REFUSED:
        return _stepped_down(facts, ending, now)
    if not leases.own(facts.places, ending.nonce):
        # It may have had its effect, and that is not settled now.
        return _stepped_down(facts, evolve(ending, unsettled=job.unsettled or ending.unsettled), now)
    record = attempt_of(job, ending.outcome, now)
    if job.status is Outcome.LOST and ending.outcome is Outcome.INTERRUPTED:
        # Whoever filed it knew more of its end than the attempt that was cut off.
        return Closing(facts=facts, ended=(record,), accepted=True)
    facts = evolve(facts, job=_closed(job, ending, ending.outcome, now, _told(ending, now)))
    if ending.outcome.handed_over:
        facts = _hand_over(facts, ending, now)
    elif ending.outcome.ended:
        facts = _end(facts, ending, now)
    elif ending.outcome is Outcome.REQUEUED:
        # Where the store did not answer OPEN, the worker has published the delivery again itself.
        facts = facts if ending.unsure else _give_back(facts, ending, now)
    elif job.ack is AckMode.EARLY:
        # No message comes back for a job that was acknowledged before it was cut off.
        facts = losses.lose(facts, now, Reason.INTERRUPTED)
    return Closing(facts=facts, ended=(record,), accepted=True, wakes=_wakes(job, ending))


def _wakes(job: Job, ending: Ending) -> str | None:
    """Name those who may go on. A message that is given back is not among them: it waits for its time."""
    behind = job.claim if ending.outcome is Outcome.REQUEUED else job.identity
    return behind if job.waiters else None


def _closed(job: Job, ending: Ending, status: Outcome, now: Micros, more: Mapping[str, Any] = _NO_MORE) -> Job:
    values = {
        "status": status,
        "lease_until": None,
        "closed_at": now,
        "message": _owed(job, ending, status),
        "strikes": _strikes(job, ending, status),
        "unsettled": ending.unsettled,
    }
    return filled(job, {**values, **more})


def _owed(job: Job, ending: Ending, status: Outcome) -> bytes | None:
    """Return the message, where a letter will need it if nothing more is heard of the job."""
    expected = status.handed_over or status is Outcome.INTERRUPTED
    return (job.message or ending.delivery.message()) if expected else None


def _strikes(job: Job, ending: Ending, status: Outcome) -> int:
    """Count on only where the body ended its process; but one that was cut off has not shown that it can end well."""
    return job.strikes + ending.strike if ending.strike or status is Outcome.INTERRUPTED else 0


def _stepped_down(facts: Facts, ending: Ending, now: Micros) -> Closing:
    """Let an attempt give up its job because it had lost that, or a lease, though nobody had taken the job over."""
    job = _job(facts)
    record = attempt_of(job, Outcome.REFUSED, now)
    facts = evolve(facts, job=_closed(job, ending, Outcome.INTERRUPTED, now))
    facts = step_back(facts, ending.delivery, ending.claim, now)
    if facts.row is not None:
        # It may meet the same again, such as a target with a token of the future: at once the first time, then seldom.
        times = max(facts.row.requeues, ending.requeues) + 1
        wait = min(STEPPED_DOWN_US << min(times - 2, 10), STEPPED_DOWN_LIMIT_US) if times > 1 else 0
        facts = evolve(facts, row=evolve(facts.row, requeues=times, wake_at=now + wait))
    return Closing(facts=facts, ended=(record,), accepted=False)


def _hand_over(facts: Facts, ending: Ending, now: Micros) -> Facts:
    job, row = _job(facts), facts.row
    if row is not None and row.generation <= job.generation:
        row = None
    return evolve(facts, job=evolve(job, reserved_until=now + ending.reserve_us), row=row)


def _give_back(facts: Facts, ending: Ending, now: Micros) -> Facts:
    """Let the delivery wait in the parking lot: the broker would bring it again at once, and as often as it likes."""
    delivery, wake_at = ending.delivery, now + ending.reserve_us
    facts = park(facts, delivery, delivery.submission, Reason.REQUEUED, now, wake_at)
    row = facts.row
    assert row is not None
    return evolve(facts, row=evolve(row, requeues=max(row.requeues, ending.requeues) + 1))


def _told(ending: Ending, now: Micros) -> dict[str, Any]:
    """Return what an ending tells of its job: where there is no canvas, also that nothing is left to do."""
    told: dict[str, Any] = {"keep_until": now + ending.keep_us}
    if ending.outcome.ended:
        told |= {"result": ending.result, "result_lost": ending.result_lost, "failure": ending.failure_json}
        told |= {"canvas_until": now + ending.canvas_us} if ending.canvas else ADVANCED
    return told


def _end(facts: Facts, ending: Ending, now: Micros) -> Facts:
    if ending.outcome.failing:
        facts = dead_letters.file(facts, _letter(_job(facts), ending, now))
    else:
        facts = dead_letters.resolve(facts, "succeeded")
    return facts if ending.canvas or facts.row is None else evolve(facts, row=None)


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


def renew(
    facts: Facts,
    nonce: str,
    claim: str | None,
    lease_us: Micros,
    now: Micros,
    message: Callable[[], bytes | None] = lambda: None,
) -> Facts | None:
    """Prolong an attempt's lease, or return None: it is no longer the owner.

    A renewal that comes late, but before anybody took over, counts.

    Args:
        message: makes the delivery's message, where OPEN has not written it: a job that takes its time can afford it.
    """
    job = facts.job
    places = leases.renewed(facts.places, nonce, lease_us, now)
    if job is None or places is None or not owns(job, nonce, claim, closing=True):
        return None
    facts = evolve(facts, places=places)
    if job.status is Outcome.LOST:
        return facts
    return evolve(facts, job=evolve(job, lease_until=now + lease_us, message=job.message or message()))


def amend_failure(facts: Facts, failure: Failure, failure_json: str, now: Micros) -> Facts:
    """Record that Celery reported FAILURE for a job that had closed well: its result is lost if we lack it, too."""
    job = facts.job
    if job is None or job.status not in (Outcome.SUCCEEDED, Outcome.DEDUPLICATED):
        return facts
    job = evolve(job, result_lost=job.result is None, failure=failure_json)
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
    return evolve(facts, row=released(row, now))


def sent(facts: Facts, published: Row, resend_us: Micros, now: Micros) -> Facts:
    """Mark a row as sent, but only in the round that was published."""
    row = facts.row
    if row is None or row.status is not RowStatus.RELEASED:
        return facts
    if (row.parked_at, row.revision) != (published.parked_at, published.revision):
        return facts
    return evolve(facts, row=evolve(row, status=RowStatus.SENT, wake_at=now + resend_us))


def _letter(job: Job, ending: Ending, now: Micros) -> Letter:
    return dead_letters.draft(
        job,
        now,
        Reason.EXCEPTION,
        failure=ending.failure,
        message=ending.delivery.message(),
        code_version=ending.code_version,
    )


def _job(facts: Facts) -> Job:
    assert facts.job is not None
    return facts.job
