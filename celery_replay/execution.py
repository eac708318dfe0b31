"""Runs a task's body as an attempt, and says the store's verdicts in Celery's language."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from celery.app.autoretry import add_autoretry_behaviour
from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded

from . import parking, postconditions, refusals
from .admission import Admission
from .attempts import Attempt
from .clock import Micros, micros, wall
from .exceptions import (
    JobError,
    LostTooOften,
    OwnershipLost,
    PostconditionFailed,
    RecordedFailure,
    ReplayError,
    RequeuedTooOften,
    ResultUnavailable,
    RolledBack,
    UnknownOutcome,
)
from .headers import BODY
from .logs import logger_of
from .records import Job
from .resources import who_has_it
from .retrying import retried
from .serialization import result_json, result_value
from .snapshots.capture import AFTER, BEFORE
from .states import OnIncomplete, Outcome, Reason, Verdict
from .targets import Marker, target_of

logger = logger_of(__name__)

_BODY_IS_EFFECT = ("", "step")
"""What a body declares that may do something outside of its steps."""
_ELSEWHERE = "ownership lost: the job goes on elsewhere"


def execute(attempt: Attempt) -> Any:
    """Run the body of an attempt's task, if the store admits the delivery.

    Returns:
        What the task returns: its body's value, or the first result of its key.

    Raises:
        Ignore: somebody else moves, or will move, this job's canvas.
        Exception: the body's, or a final refusal; Celery's tracer tells the canvas.
    """
    try:
        admission = attempt.open()
    except SoftTimeLimitExceeded as error:
        if not _closed_as(attempt, error):
            raise Ignore(_ELSEWHERE) from error
        raise
    except Exception as error:  # a store of a third party may raise anything
        attempt.unsure = getattr(error, "sent", True)
        return _without_store(attempt)
    if admission.verdict is Verdict.RUN:
        return _run(attempt, admission)
    return _answer(attempt, admission)


def _answer(attempt: Attempt, admission: Admission) -> Any:
    verdict, source = admission.verdict, admission.source
    attempt.recorder.record(str(verdict), status="skipped", attributes={"reason": str(admission.reason)})
    attempt.runtime.heartbeat.write(attempt.recorder.take())
    if verdict in (Verdict.IGNORE, Verdict.PARKED):
        raise Ignore(": ".join((str(verdict), str(admission.reason), *who_has_it(admission))))
    attempt.closed = admission.facts.job.status if admission.facts.job else Outcome.FAILED
    if verdict is Verdict.FIRST_RESULT and source is not None:
        return first_result(source)
    if verdict is Verdict.RAISE_AGAIN and source is not None:
        raise _recorded(source)
    raise refusals.error(admission.reason or Reason.EFFECT_UNSETTLED, attempt.key, admission.facts.holder)


def first_result(job: Job) -> Any:
    """Decode the value that a job returned.

    Raises:
        ResultUnavailable: it is not JSON.
    """
    if job.status is Outcome.IGNORED:
        raise Ignore("the job was ignored by its own body")
    if job.result_lost or job.result is None:
        raise ResultUnavailable
    return result_value(job.result)


def _recorded(job: Job) -> RecordedFailure:
    failure = json.loads(job.failure or "{}")
    # Of a task that lets nothing be told there is no message.
    return RecordedFailure(": ".join(filter(None, (failure.get("type", "error"), failure.get("message")))))


def _without_store(attempt: Attempt) -> Any:
    """Follow the task's `on_store_error`: run without protection, or come again later."""
    logger.warning(
        "replay.store_down",
        exc_info=True,
        extra={"task": attempt.task.name, "policy": "open" if attempt.policy.fail_open else "closed"},
    )
    if attempt.policy.fail_open and not parking.again_of(attempt.request).is_over:
        return _unprotected(attempt)
    if attempt.request.is_eager:
        raise  # noqa: PLE0704 - called where the store's error is handled; there is no message to come again
    if attempt.unsure:
        attempt.close(Outcome.REQUEUED)
    try:
        delay = attempt.runtime.settings.store_retry_delay
        parking.publish(attempt.runtime.app, attempt.delivery.message(), delay)
    except Exception as error:
        raise Reject(error, requeue=True) from error
    raise Ignore("store down: the same delivery comes again")


def _unprotected(attempt: Attempt) -> Any:
    """Run without the store; if it may have opened the attempt all the same, it is told later how that ended."""
    try:
        check = postconditions.begin(attempt)
        result = _run_body(attempt)
        check(result)
    except BaseException as error:
        if attempt.unsure:
            _closed_as(attempt, error)
        raise
    else:
        if attempt.unsure:
            attempt.close(Outcome.SUCCEEDED, result=result)
    finally:
        # Whoever runs it again gives its callbacks the same names.
        attempt.ran_unprotected = True
    return result


def _run(attempt: Attempt, admission: Admission) -> Any:
    attempt.started()
    attempt.runtime.heartbeat.add(attempt)
    try:
        result = _body(attempt, admission)
    except BaseException as raised:
        if attempt.policy.state and isinstance(raised, Exception) and not isinstance(raised, OwnershipLost):
            # As its transaction has left it.
            attempt.snapshot(AFTER)
        error = retried(attempt, _capped(attempt, raised))
        if not _closed_as(attempt, error) and isinstance(error, Exception):
            raise Ignore(_ELSEWHERE) from raised
        if attempt.closed is Outcome.REQUEUED:
            raise Ignore("given back: the same delivery comes again") from raised
        if error is not raised:
            raise error from raised
        raise
    ended = (Outcome.SUCCEEDED, 0) if attempt.retry_at is None else (Outcome.RETRY_SCHEDULED, _until_retry(attempt))
    if not _closed(attempt, *ended, result=result):
        raise Ignore(_ELSEWHERE)
    return result


def _capped(attempt: Attempt, error: BaseException) -> BaseException:
    """Take a message that was given back too often for a failure, and so a job that was lost each time it ran."""
    cap = int(attempt.runtime.settings.requeue_cap)
    kind: type[JobError] | None = None
    if _gives_back(attempt, error):
        kind = RequeuedTooOften
    elif isinstance(error, OwnershipLost) and error.is_owners:
        kind = LostTooOften
    if kind is None or attempt.requeues + 1 < cap:
        return error
    said = f"; the last time: {error}" if kind is LostTooOften else ""
    given_up = kind(f"{kind().message} (setting replay_requeue_cap is {cap}{said})")
    given_up.__cause__ = error
    return given_up


def _gives_back(attempt: Attempt, error: BaseException) -> bool:
    return isinstance(error, Reject) and error.requeue and not attempt.request.is_eager


def _closed_as(attempt: Attempt, error: BaseException) -> bool:
    outcome, reserve_us = _outcome(attempt, error)
    return _closed(attempt, outcome, reserve_us, error=error)


def _closed(attempt: Attempt, outcome: Outcome, reserve_us: Micros, **how: Any) -> bool:
    try:
        return attempt.close(outcome, reserve_us=reserve_us, **how)
    except SoftTimeLimitExceeded:
        # It is meant for the body, and that has ended.
        return attempt.close(outcome, reserve_us=reserve_us, **how)


def _until_retry(attempt: Attempt) -> Micros:
    """Say how long the key waits for the retry that the body has published."""
    return max(0, (attempt.retry_at or 0) - wall()) + attempt.runtime.redelivery_us


def _outcome(attempt: Attempt, error: BaseException) -> tuple[Outcome, Micros]:
    """Say how an attempt ended whose body raised; for a scheduled retry, also how long the key waits for it."""
    wait: Micros = 0
    match error:
        case Retry():
            outcome, wait = Outcome.RETRY_SCHEDULED, _until_retry(attempt)
        case Ignore() if attempt.replaced:
            outcome, wait = Outcome.SUPERSEDED, attempt.runtime.redelivery_us
        case Ignore():
            outcome = Outcome.IGNORED
        case Reject() if _gives_back(attempt, error):
            outcome, wait = Outcome.REQUEUED, micros(attempt.runtime.settings.requeue_delay)
        case RolledBack():
            outcome = Outcome.ROLLED_BACK
        case PostconditionFailed():
            outcome = Outcome.FAILED_VALIDATION
        case OwnershipLost(is_owners=True):
            outcome = Outcome.REFUSED
        case UnknownOutcome():
            attempt.steps.doubts.add(attempt.identity)
            outcome = Outcome.FAILED
        case Exception():
            outcome = Outcome.FAILED
        case _:
            outcome = Outcome.INTERRUPTED
    return outcome, wait


def _body(attempt: Attempt, admission: Admission) -> Any:
    policy = attempt.policy
    # A job that raised may have had its effect before: whoever replays it counts on the look.
    doubtful = admission.incomplete or attempt.stamp.original is not None
    to_verify = doubtful and policy.is_step and policy.on_incomplete is OnIncomplete.VERIFY
    if to_verify:
        # Until the hook has answered; if it fails, the next attempt has to ask again.
        attempt.steps.doubts.add(attempt.identity)
    if attempt.key_error is not None:
        raise attempt.key_error
    if not (to_verify or policy.atomic):
        return _checked(attempt)
    return _Embedded(attempt.task, partial(_embedded, attempt, to_verify=to_verify)).run()


class _Embedded:
    """What stands around a body, in a task's place: Celery retries its errors as those of the body.

    A commit that fails is one: Celery's own wrapper is around the body alone.
    """

    def __init__(self, task: Any, run: Callable[[], Any]) -> None:
        self._task = task
        self.run = run
        # What we refuse, the body's own wrapper has seen, if it was to.
        never = (*getattr(task, "dont_autoretry_for", ()), ReplayError)
        add_autoretry_behaviour(self, dont_autoretry_for=never)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_run":
            raise AttributeError(name)
        return getattr(self._task, name)

    def __delattr__(self, name: str) -> None:
        delattr(self._task, name)


def _embedded(attempt: Attempt, *, to_verify: bool) -> Any:
    policy = attempt.policy
    if to_verify and policy.verify is not None:
        with attempt.guarded():
            found = policy.verify(*attempt.args, **attempt.kwargs)
        attempt.steps.doubts.discard(attempt.identity)
        if found is not None:
            attempt.recorder.record("verified", attributes={"effect": "found"})
            postconditions.check_found(attempt, found)
            return found
    if policy.atomic:
        return _atomic(attempt, policy.atomic)
    return _checked(attempt)


def _checked(attempt: Attempt) -> Any:
    """Run the body, and see that its post-conditions hold."""
    check = postconditions.begin(attempt)
    result = _watched(attempt)
    check(result)
    return result


def _atomic(attempt: Attempt, aliases: tuple[str, ...]) -> Any:
    """Run the body in a transaction of each database, with the marker that says that it was done there.

    Each commits on its own, the last one first. What was committed in some and not in others is not done again there:
    the body may skip it, and is refused where it would write there.
    """
    target = target_of(attempt.task)
    with ExitStack() as stack:
        markers = {
            alias: stack.enter_context(target.marked(alias, attempt.identity, attempt.nonce)) for alias in aliases
        }
        attempt.committed = frozenset(alias for alias, marker in markers.items() if marker.done)
        if attempt.committed:
            attempt.recorder.record("effect_found", attributes={"marker": ", ".join(sorted(attempt.committed))})
            attempt.steps.doubts.add(attempt.identity)
        if attempt.committed == {*aliases}:
            result = _marked_result(markers[aliases[0]])
        else:
            stack.enter_context(target.without_writes_to(attempt.committed))
            # Within the transactions: what is refused here must leave no marker.
            check = postconditions.begin(attempt)
            result = _watched(attempt)
            fresh = [marker for marker in markers.values() if not marker.done]
            for marker in fresh:
                marker.refuse_doomed()
            check(result)
            for marker in fresh:
                marker.complete(result_json(result))
            # Until all is committed: from the first COMMIT on, an error says nothing about what has stayed.
            attempt.steps.doubts.add(attempt.identity)
    attempt.steps.doubts.discard(attempt.identity)
    return result


def _marked_result(marker: Marker) -> Any:
    if marker.result is None:
        raise ResultUnavailable("the effect was committed, but its return value is not JSON")
    return result_value(marker.result)


def _watched(attempt: Attempt) -> Any:
    """Run the body; refuse success to it where a transaction of its was rolled back without an error."""
    if getattr(attempt.task, "replay_target", None) is None:
        return _captured(attempt)
    with target_of(attempt.task).watch() as watch:
        result = _captured(attempt)
    if watch.seen:
        attempt.recorder.record("rolled_back_quietly", status="fail")
        if not attempt.policy.allow_rollback:
            raise RolledBack
    return result


def _captured(attempt: Attempt) -> Any:
    """Run the body between two snapshots of its state; in the transaction, where it has one around it."""
    if not attempt.policy.state:
        return _run_body(attempt)
    attempt.snapshot(BEFORE)
    result = _run_body(attempt)
    attempt.snapshot(AFTER)
    return result


def _run_body(attempt: Attempt) -> Any:
    if attempt.policy.told["protection"] in _BODY_IS_EFFECT and not attempt.allowance.includes(BODY):
        attempt.allowance.refuse(BODY)
    result = attempt.task.run(*attempt.args, **attempt.kwargs)
    attempt.allowance.check()
    return result
