"""Jobs that could not close themselves: what a worker's parent saw of them, and what nobody saw. Pure functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from . import dead_letters
from .clock import Micros
from .facts import Change, Facts, advance_canvas, alive, attempt_of, died
from .records import Failure, Job, Letter, evolve
from .states import Category, Outcome, Reason, RowStatus


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
    retry_us: Micros | None = None
    """Celery has published a retry in place of the lost attempt, due after so long."""
    error_type: str = ""
    """What Celery raised there, if anything."""
    error: str = ""
    limit_s: float | None = None
    """The time limit that was exceeded."""
    message: bytes = b""
    """The whole message, where the store may not have it."""
    operation: str = ""
    task_id: str = ""
    trace_id: str = ""
    correlation_id: str = ""
    key: str = ""
    original: str | None = None
    """For a replay: the submission that it is about."""
    keep_us: Micros = 0
    """How long a job that never began is remembered."""

    def plain(self) -> dict[str, Any]:
        """Return it as JSON data, without the message: that may have megabytes."""
        return {name: value for name, value in asdict(self).items() if name != "message"}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> News:
        """Make news of JSON data."""
        return cls(**{**plain, "reason": Reason(plain["reason"])})


def hear(facts: Facts, news: News, now: Micros) -> Change | None:
    """Act on news of a delivery that could not tell its end itself; None where it changes nothing."""
    return _ACTS.get(news.reason, _died)(facts, news, now)


def _announced(facts: Facts, news: News, now: Micros) -> Change | None:
    """Note that the parent is through with telling the canvas of a failure."""
    job = facts.job
    ended = job is not None and job.status.ended and job.generation == news.generation
    return Change(facts=advance_canvas(facts)) if ended else None


def _died(facts: Facts, news: News, now: Micros) -> Change | None:
    """End a dead owner's lease at once, and file its letter where no message comes back."""
    if news.final and _never_opened(facts, news):
        return _turned_away(facts, news, now)
    if not _is_about(facts, news):
        return _canvas_lost(facts, news)
    facts = _freed(facts, now)
    if news.retry_us is not None:
        return _retried(facts, news, now)
    return _lost(facts, now, news.reason, news) if news.final and facts.row is None else Change(facts=facts)


def _canvas_lost(facts: Facts, news: News) -> Change | None:
    """Tell the body of a chord that Celery takes a job for failed which ended well, just before its process died."""
    job = facts.job
    if job is None or not job.status.ended or job.canvas_advanced or not (news.final and news.message):
        return None
    return Change(facts=facts, unfiled=news.message) if names(news, job) else None


def _exceeded_limit(facts: Facts, news: News, now: Micros) -> Change | None:
    """File it whatever becomes of the message; a later success resolves the letter."""
    if _never_opened(facts, news):
        return _turned_away(facts, news, now)
    if _is_about(facts, news):
        return _lost(_freed(facts, now), now, news.reason, news)
    job = facts.job
    if job is None or job.generation != news.generation or job.status is not Outcome.OPEN:
        return None
    # Celery has brought the message back so quickly that another attempt runs by now.
    facts = evolve(facts, job=evolve(job, strikes=job.strikes + 1))
    return Change(facts=dead_letters.file(facts, _letter(_job(facts), now, news.reason, news)))


def _never_opened(facts: Facts, news: News) -> bool:
    return facts.job is None or facts.job.generation < news.generation


def names(news: News, job: Job) -> bool:
    """Is this news of the job's current attempt?"""
    return (job.generation, job.worker, job.pid) == (news.generation, news.worker, news.pid)


def _is_about(facts: Facts, news: News) -> bool:
    """Is this news of the job's current attempt, and has that not told its end itself?"""
    job = facts.job
    if job is None or not names(news, job):
        return False
    return job.status in (Outcome.OPEN, Outcome.INTERRUPTED) or _cut_off(facts)


def _freed(facts: Facts, now: Micros) -> Facts:
    job, row = _job(facts), facts.row
    row = evolve(row, wake_at=now) if row is not None else None
    return evolve(facts, job=evolve(job, lease_until=None, closed_at=job.closed_at or now), row=row)


def _retried(facts: Facts, news: News, now: Micros) -> Change:
    """Expect the retry that Celery has published for a lost child, as one that the body asked for."""
    job = _job(facts)
    ended = (died(job, now, str(news.reason)),) if job.status is Outcome.OPEN else ()
    was_filed = job.status is Outcome.LOST
    job = evolve(
        job,
        status=Outcome.RETRY_SCHEDULED,
        strikes=job.strikes + (job.status is Outcome.OPEN),
        reserved_until=now + (news.retry_us or 0) + job.redelivery_us,
        message=job.message or news.message or None,
    )
    facts = evolve(facts, job=job)
    return Change(facts=dead_letters.resolve(facts, "retried") if was_filed else facts, ended=ended)


def _turned_away(facts: Facts, news: News, now: Micros) -> Change | None:
    """File a message that is gone before OPEN, unless its job has ended, runs, or has a row that brings it again."""
    job, row = facts.job, facts.row
    if row is not None and row.status in (RowStatus.PARKED, RowStatus.RELEASED):
        return None
    if job is None:
        job = evolve(_never_begun(news, Outcome.LOST, now), canvas_advanced=False)
        return _lost(evolve(facts, job=job), now, news.reason, news)
    if job.status.ended or job.generation > news.generation or alive(job, now) or _is_filed(facts, news):
        return None
    job = evolve(job, generation=news.generation, reserved_until=None)
    # What an older row carries is superseded from here on: it would be sent again and again, and never admitted.
    row = None if row is not None and row.generation < news.generation else row
    return _lost(evolve(facts, job=job, row=row), now, news.reason, news)


def _is_filed(facts: Facts, news: News) -> bool:
    """Is this about a copy of a message that has its letter?"""
    job, letter = _job(facts), facts.letter
    same = (job.status, job.generation) == (Outcome.LOST, news.generation)
    return same and letter is not None and letter.reason is news.reason


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
        return Change(facts=dead_letters.withdraw(facts, str(outcome)), unfiled=news.message)
    if job is None or job.status.ended or job.generation > news.generation:
        return Change(facts=facts) if facts.row is not row else None
    if alive(job, now) and not names(news, job):
        return None
    ended = (attempt_of(job, outcome, now),) if job.status is Outcome.OPEN else ()
    unfiled = job.message or news.message
    job = evolve(
        job, status=outcome, lease_until=None, reserved_until=None, closed_at=now, message=None, canvas_until=None
    )
    facts = evolve(facts, job=evolve(job, canvas_advanced=True))
    return Change(facts=dead_letters.withdraw(facts, str(outcome)), ended=ended, unfiled=unfiled)


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


def _lost(facts: Facts, now: Micros, reason: Reason, news: News | None = None) -> Change:
    job = _job(facts)
    ended = (died(job, now, str(reason)),) if job.status is Outcome.OPEN else ()
    return Change(facts=lose(facts, now, reason, news), ended=ended)


def lose(facts: Facts, now: Micros, reason: Reason, news: News | None = None) -> Facts:
    """Mark a job as lost, and file its letter. Nothing is taken over."""
    job = _job(facts)
    # One that exceeded its limit died of that, though it may have had the time to close itself.
    death = job.status is Outcome.OPEN or reason is Reason.HARD_TIME_LIMIT
    strikes = job.strikes + death
    job = evolve(job, status=Outcome.LOST, lease_until=None, strikes=strikes)
    facts = evolve(facts, job=job)
    return dead_letters.file(facts, _letter(job, now, reason, news))


def _letter(job: Job, now: Micros, reason: Reason, news: News | None) -> Letter:
    category = Category.UNKNOWN_OUTCOME if job.unsettled else _CATEGORY.get(reason, Category.UNCLASSIFIED)
    failure = None
    if news is not None and news.error_type:
        failure = Failure(type=news.error_type, message=news.error, category=category, reason=reason)
    message = job.message or (news.message if news else b"")
    return dead_letters.draft(job, now, reason, failure=failure, category=category, message=message)


def _job(facts: Facts) -> Job:
    assert facts.job is not None
    return facts.job


_CATEGORY = {Reason.UNKNOWN_TASK: Category.PERMANENT, Reason.UNDECODABLE: Category.VALIDATION}
_ACTS: dict[Reason, Callable[[Facts, News, Micros], Change | None]] = {
    Reason.REJECTED: _announced,
    Reason.REVOKED: _withdraw,
    Reason.EXPIRED: _withdraw,
    Reason.UNKNOWN_TASK: _turned_away,
    Reason.UNDECODABLE: _turned_away,
    Reason.HARD_TIME_LIMIT: _exceeded_limit,
}
