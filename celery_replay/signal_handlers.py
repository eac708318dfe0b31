"""Receivers of Celery's signals. They observe, and stamp what is published; none may raise."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from celery import current_app
from celery import signals as celery_signals
from celery._state import get_current_task

from . import headers, runtime
from .attempts import Attempt
from .chord_bodies import named
from .clock import moment, new_id, wall
from .current import current_attempt
from .failures import failure_json
from .headers import Stamp
from .signals import observe_failure
from .signatures import frozen_id, parts_of
from .states import Outcome, Reason

publishing: ContextVar[Any] = ContextVar("celery_replay_publishing", default=None)
"""The task whose `apply_async` is running: the signal does not tell of which app it is."""

sending: ContextVar[Mapping[str, Any] | None] = ContextVar("celery_replay_sending", default=None)
"""The chord's body that a result backend of ours sends, maybe not for the first time, and from any process."""

_RECEPTION = ("replay_received_at", "content_type")
"""What our request class adds to a received message's fields."""


def _observer(receiver: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(receiver)
    def observe(**arguments: Any) -> None:
        try:
            receiver(**arguments)
        except Exception:
            observe_failure(receiver.__name__)

    return observe


@_observer
def stamp_message(
    sender: str = "", body: Any = None, headers: MutableMapping[str, Any] | None = None, **_: Any
) -> None:
    """Put the submission's stamp on a message that is about to be published."""
    if not isinstance(headers, dict) or "id" not in headers:
        return
    _stamp(sender, body, headers)


def _stamp(name: str, body: Any, table: dict[str, Any]) -> None:
    _forget_reception(table)
    present = headers.find(table)
    attempt = current_attempt()
    # Its own name, too: another task may be published under the same id.
    is_own = attempt is not None and (attempt.request.id, attempt.task.name) == (table.get("id"), name)
    own = attempt if is_own else None
    replacement = present is not None and present.operation is not None and table.get("replaced_task_nesting")
    retries = table.get("retries") or 0
    # A task that publishes itself anew, under the same id, begins another job: only a retry goes on with this one.
    retry = retries > (own.request.retries or 0) if own is not None else bool(retries)
    carried_on = present if retry or replacement else None
    if own is not None and retry:
        own.retry_at = moment(table.get("eta")) or wall()
        carried_on = carried_on or own.stamp
    if carried_on is not None:
        headers.write(table, replace(carried_on, published_at=wall()))
        return
    stamp = _new_stamp(name, body, table, attempt)
    headers.write(table, stamp)
    if attempt is not None:
        attempt.recorder.record("child_published", attributes={"task": name, "job": table.get("id")})


def _forget_reception(table: dict[str, Any]) -> None:
    """Take off what a worker noted of the message that it received: Celery's retry sends it on."""
    for level in (table, table.get("headers")):
        if isinstance(level, dict):
            for name in _RECEPTION:
                level.pop(name, None)


def _new_stamp(name: str, body: Any, table: dict[str, Any], attempt: Attempt | None) -> Stamp:
    key, fingerprint = _identify(name, body)
    now = wall()
    # Its trace has its own name, so that a store needs no index to find one by the other.
    submission = _submission(name, table, attempt)
    if attempt is None:
        return Stamp(
            submission=submission,
            trace_id=submission,
            correlation_id=submission,
            first_request_at=now,
            published_at=now,
            key=key or None,
            fingerprint=fingerprint,
        )
    return Stamp(
        submission=submission,
        trace_id=submission,
        correlation_id=attempt.stamp.correlation_id,
        causation_id=attempt.submission,
        first_request_at=attempt.stamp.first_request_at,
        published_at=now,
        key=key or None,
        fingerprint=fingerprint,
    )


def _submission(name: str, table: dict[str, Any], attempt: Attempt | None) -> str:
    """Name a job: at random from outside or a body, by derivation from the tracer, whose work may be done again."""
    by_tracer = attempt is not None and attempt.by_tracer
    body = sending.get() or (attempt.request.chord if attempt is not None and by_tracer else _unlocking())
    task_id = table.get("id")
    if body and task_id and task_id in map(frozen_id, parts_of(body)):
        # Whichever member comes last publishes the body: its tasks are named by what all of them know.
        return named(task_id)
    return attempt.derived_submission(name) if attempt is not None and by_tracer else new_id()


def _unlocking() -> Any:
    """Return the chord's body for which Celery's own task waits, where a result backend does not count parts."""
    task = get_current_task()
    return task.request.args[1] if task is not None and task.name == "celery.chord_unlock" else None


def _identify(name: str, body: Any) -> tuple[str, str | None]:
    task = _known_task(name)
    if task is None or not isinstance(body, (tuple, list)) or len(body) < 2:
        return "", None
    try:
        return runtime.runtime_of(task.app).policy(task).identify(body[0], body[1])
    except Exception:
        # The worker computes the key again, and fails with evidence where that goes wrong, too.
        observe_failure("idempotency_key")
        return "", None


def _known_task(name: str) -> Any:
    task = publishing.get()
    if task is None or task.name != name:
        task = current_app.tasks.get(name)
    return task if task is not None and hasattr(task, "replay_target") else None


@_observer
def canvas_advanced(sender: Any = None, **_: Any) -> None:
    """Note that the tracer is through with a job that ended well."""
    attempt = _closed_attempt(sender)
    if attempt is not None:
        attempt.canvas_advanced()


@_observer
def failure_announced(sender: Any = None, exception: BaseException | None = None, **_: Any) -> None:
    """Note that the tracer is through with a job that failed; or that it failed after our CLOSE."""
    attempt = _closed_attempt(sender)
    if attempt is None:
        return
    if attempt.closed in (Outcome.SUCCEEDED, Outcome.DEDUPLICATED) and exception is not None:
        failure = attempt.failure(exception, Reason.RESULT_LOST, attempt.judge(exception))
        attempt.recorder.record("result_lost", status="fail", attributes={"error": failure.type})
        attempt.runtime.store.amend(attempt.submission, failure, failure_json(failure), attempt.delivery.message())
    attempt.canvas_advanced()


def _closed_attempt(task: Any) -> Attempt | None:
    attempt: Attempt | None = vars(task.request).get("replay_attempt")
    if attempt is None or attempt.closed is None or not attempt.closed.ended:
        return None
    return attempt


@_observer
def retry_announced(**_: Any) -> None:
    """Let the retry run that came before its predecessor had ended."""
    attempt = current_attempt()
    if attempt is not None:
        attempt.dispatch_freed()


@_observer
def process_ends(**_: Any) -> None:
    """Write what is buffered before a process goes."""
    runtime.drain_all()


_RECEIVERS: tuple[tuple[Any, Callable[..., None]], ...] = (
    (celery_signals.before_task_publish, stamp_message),
    (celery_signals.task_success, canvas_advanced),
    (celery_signals.task_failure, failure_announced),
    (celery_signals.task_retry, retry_announced),
    (celery_signals.worker_process_shutdown, process_ends),
    (celery_signals.worker_shutdown, process_ends),
)


def connect() -> None:
    """Connect all receivers; repeating it is harmless."""
    for signal, receiver in _RECEIVERS:
        signal.connect(receiver, weak=False, dispatch_uid=f"celery_replay.{receiver.__name__}")


def disconnect() -> None:
    """Disconnect all receivers."""
    for signal, receiver in _RECEIVERS:
        signal.disconnect(receiver, dispatch_uid=f"celery_replay.{receiver.__name__}")
