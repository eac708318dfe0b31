"""What is said of a delivery that OPEN refuses for good: in the task's result, in the job's record, in its letter."""

from __future__ import annotations

from .exceptions import JobError, JobExpired, KeyConflict, KeyFailed, PoisonJob, UnknownOutcome
from .records import Job
from .states import Category, Reason

_ERRORS: dict[Reason, type[JobError]] = {
    Reason.POISON: PoisonJob,
    Reason.KEY_CONFLICT: KeyConflict,
    Reason.KEY_FAILED: KeyFailed,
    Reason.EFFECT_UNSETTLED: UnknownOutcome,
    Reason.EXPIRED: JobExpired,
}
_CATEGORIES = {
    Reason.POISON: Category.POISON,
    Reason.KEY_CONFLICT: Category.VALIDATION,
    Reason.EFFECT_UNSETTLED: Category.UNKNOWN_OUTCOME,
}


def error(reason: Reason, key: str, holder: Job | None) -> JobError:
    """Make the error that says why a delivery was refused, of which key, and who has that."""
    kind = _ERRORS[reason]
    facts = [f"key {key!r}"] if key else []
    if holder is not None:
        facts.append(f"its job is {holder.task_id}")
    return kind(f"{kind().message.rstrip('.')} ({', '.join(facts)})" if facts else "")


def recorded(reason: Reason) -> str:
    """Record a refusal as a job's failure; the words are all ours, so no encoder is needed."""
    return f'{{"type": "celery_replay.refused", "message": "{reason}", "reason": "{reason}"}}'


def category(reason: Reason) -> Category:
    """Name the category of a refusal's letter."""
    return _CATEGORIES.get(reason, Category.UNCLASSIFIED)
