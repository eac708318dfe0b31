"""How an attempt ended: why its letter is filed, and what led to it."""

from __future__ import annotations

from typing import Any

from celery.exceptions import Reject, Retry, SoftTimeLimitExceeded, WorkerShutdown, WorkerTerminate

from .clock import SECOND, Micros, wall
from .exceptions import LostTooOften, RequeuedTooOften
from .serialization import safe_text
from .states import Outcome, Reason
from .tracebacks import name_of

_REASONS: tuple[tuple[type[BaseException], Reason], ...] = (
    (Reject, Reason.REJECTED),
    (RequeuedTooOften, Reason.REQUEUED),
    (LostTooOften, Reason.OWNERSHIP_LOST),
    (SoftTimeLimitExceeded, Reason.SOFT_TIME_LIMIT),
    (MemoryError, Reason.OUT_OF_MEMORY),
)


def reason_of(outcome: Outcome, error: BaseException) -> Reason:
    """Say why a job failed whose body raised this."""
    if outcome is Outcome.ROLLED_BACK:
        return Reason.ROLLED_BACK
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), Reason.EXCEPTION)


def by_its_own_hand(error: BaseException | None) -> bool:
    """Did the body end its process? A shutdown, or a signal, which billiard shows as a negative code, did not."""
    if not isinstance(error, SystemExit) or isinstance(error, (WorkerShutdown, WorkerTerminate)):
        return False
    return not (isinstance(error.code, int) and error.code < 0)


def led_to(error: BaseException, task: Any, request: Any, retry_at: Micros | None) -> dict[str, Any]:
    """Say what led to an end: the cause of a retry and when that is due, the time limit that was exceeded."""
    if isinstance(error, SoftTimeLimitExceeded):
        return {"limit": "soft", "limit_s": _soft_limit(task, request)}
    if not isinstance(error, Retry):
        return {}
    cause = {"cause": safe_text(name_of(error.exc), 500)} if isinstance(error.exc, BaseException) else {}
    due = {"due_in_s": max(0, retry_at - wall()) / SECOND} if retry_at is not None else {}
    # With a policy of its own the limit is another one, which the decision tells.
    most = {} if getattr(task, "failures", None) else {"of": task.max_retries}
    return {**cause, "retry": (request.retries or 0) + 1, **most, **due}


def _soft_limit(task: Any, request: Any) -> float | None:
    limits = request.timelimit
    given = limits[1] if isinstance(limits, (list, tuple)) and len(limits) > 1 else None
    limit: float | None = given or task.soft_time_limit
    return limit
