"""A failed body tried again, where its task says so with `failures=`. Celery's own retry carries the message on."""

from __future__ import annotations

from typing import Any

from celery.exceptions import Ignore, Reject, Retry

from .attempts import Attempt
from .clock import SECOND, wall
from .exceptions import OwnershipLost, PostconditionFailed
from .failures import leaves_outcome_unknown
from .retries import policy as policies

_FINAL = (Ignore, Reject, Retry, PostconditionFailed)
"""How a body speaks to Celery, which are no failures; and a wrong result, which a retry would but repeat."""


def retried(attempt: Attempt, error: BaseException) -> BaseException:
    """Return what an attempt ends with: a retry that is published by now, or the error that its body raised."""
    failures = attempt.policy.failures
    if failures is None or not _is_ours_to_decide(attempt, error):
        return error
    judged = attempt.judge(error)
    if attempt.policy.is_step and leaves_outcome_unknown(error):
        # The next attempt is to ask.
        attempt.steps.doubts.add(attempt.identity)
    made, most = attempt.made, policies.most_attempts(attempt.task.max_retries)
    seed = attempt.stamp.submission
    decision = policies.decide(failures, judged, made=made, most=most, age_s=_age_s(attempt), seed=seed)
    told = {"category": str(judged.category), "rule": judged.rule, "because": judged.because, "decision": decision.said}
    if decision.delay_s is None:
        attempt.recorder.record("retry_refused", status="skipped", attributes=told)
        return error
    attempt.recorder.record("retry_decided", attributes={**told, "delay_s": round(decision.delay_s, 3)})
    try:
        attempt.task.retry(exc=error, countdown=decision.delay_s, max_retries=made)
    except BaseException as end:  # the retry itself, or what became of its publishing
        return end
    return error


def delay_s(attempt: Attempt, error: BaseException | None) -> float | None:
    """Return how long a retry waits where the body does not say; None where its task does not, either."""
    failures = attempt.policy.failures
    if failures is None or error is None:
        return None
    judged = attempt.judge(error)
    then = failures.of(judged.category)
    if not isinstance(then, policies.Retry):
        return None
    return then.wait_s(judged, attempt.made, attempt.stamp.submission)


def _is_ours_to_decide(attempt: Attempt, error: BaseException) -> bool:
    if not isinstance(error, Exception) or isinstance(error, _FINAL) or attempt.celery_gave_up:
        return False
    if isinstance(error, OwnershipLost) and error.is_owners:
        return False
    return not _is_celerys(attempt.task, error)


def _is_celerys(task: Any, error: Exception) -> bool:
    """Has `autoretry_for` decided? Two that retry would multiply."""
    never = tuple(getattr(task, "dont_autoretry_for", ()))
    return isinstance(error, tuple(getattr(task, "autoretry_for", ()))) and not isinstance(error, never)


def _age_s(attempt: Attempt) -> float:
    """Say how old a job is, by its publisher's clock and ours."""
    sent = attempt.stamp.first_request_at or attempt.stamp.published_at
    return max(0.0, (wall() - sent) / SECOND) if sent else 0.0
