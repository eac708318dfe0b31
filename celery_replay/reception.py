"""Messages that no task can be made of: the worker's parent keeps them before Celery throws them away.

Celery expects that whatever can be decoded has the shape of a task. What has not ends the worker, and the next one that
gets it: such a message is turned away here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from celery import bootsteps
from celery.exceptions import InvalidTaskError, NotRegistered

from . import headers, parking
from .headers import Stamp
from .losses import News
from .parent import announce, described
from .policy import is_excluded
from .runtime import Runtime, runtime_of
from .serialization import canonical_json, digest, safe_text
from .signals import observe_failure
from .states import Reason

_DISCARDS = {
    "on_unknown_task": Reason.UNKNOWN_TASK,
    "on_unknown_message": Reason.UNDECODABLE,
    "on_invalid_task": Reason.UNDECODABLE,
    "on_decode_error": Reason.UNDECODABLE,
}
"""What Celery's consumer calls with a message that it is about to throw away."""
_STUMBLES = (TypeError, ValueError, AttributeError, LookupError)
NAMELESS = "(no name)"


class ReceptionStep(bootsteps.Step):
    """Stands between the broker and Celery's strategies."""

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        for name, reason in _DISCARDS.items():
            setattr(consumer, name, _keeping(consumer, getattr(consumer, name), reason))
        consumer.create_task_handler = _guarded(consumer, consumer.create_task_handler)


def _keeping(consumer: Any, discard: Callable[..., Any], reason: Reason) -> Callable[..., Any]:
    def keep(*args: Any) -> Any:
        try:
            _keep(consumer, _message(args), reason, args[-1])
        except Exception:
            observe_failure("reception")
        return discard(*args)

    return keep


def _message(args: Iterable[Any]) -> Any:
    """Pick the message: `on_decode_error` has it first, the others second."""
    return next(value for value in args if hasattr(value, "delivery_info"))


def _guarded(consumer: Any, create: Callable[..., Any]) -> Callable[..., Any]:
    def create_task_handler(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        handle = create(*args, **kwargs)

        def on_task_received(message: Any) -> Any:
            try:
                _check(consumer, message)
                return handle(message)
            except InvalidTaskError as error:
                return consumer.on_invalid_task(None, message, error)
            except _STUMBLES as error:
                if message.acknowledged:
                    raise
                return consumer.on_invalid_task(None, message, error)

        return on_task_received

    return create_task_handler


def _check(consumer: Any, message: Any) -> None:
    """Look for what would only be noticed in the pool, where nobody could tell what message it was.

    Raises:
        InvalidTaskError: it says what is wrong.
    """
    name = message.headers.get("task") if isinstance(message.headers, Mapping) else None
    if name not in consumer.strategies:
        return
    if not isinstance(message.headers.get("id"), str):
        raise InvalidTaskError("the message has no task id")
    try:
        payload = message.payload
    except Exception:  # Celery decodes it again, and says what is wrong
        return
    if isinstance(payload, Mapping):
        return
    if not isinstance(payload, (list, tuple)) or len(payload) != 3:
        raise InvalidTaskError("the body is no list of args, kwargs and canvas")
    args, kwargs, canvas = payload
    if not isinstance(args, Iterable) or not isinstance(kwargs, Mapping) or not isinstance(canvas or {}, Mapping):
        raise InvalidTaskError("the body has args, kwargs or a canvas of another type")


def _keep(consumer: Any, message: Any, reason: Reason, error: Any) -> None:
    runtime = runtime_of(consumer.app)
    fields = _fields(message)
    given = fields.get("task")
    name = safe_text(given, 250) if given else NAMELESS
    if is_excluded(name, runtime.settings.exclude):
        return
    if reason is Reason.UNKNOWN_TASK:
        error = NotRegistered(f"this worker has no task {name!r}: register it or route it elsewhere, then replay it")
    stamp = _stamp(runtime, name, fields, message, consumer.hostname)
    item = News(
        submission=stamp.submission,
        operation=name,
        task_id=safe_text(fields.get("id") or "", 250),
        trace_id=stamp.trace_id,
        correlation_id=stamp.correlation_id,
        key=safe_text(stamp.key or "", 500),
        original=stamp.original,
        keep_us=runtime.keep_us,
        generation=headers.generation_of(fields),
        worker=consumer.hostname,
        pid=runtime.pid,
        reason=reason,
        final=True,
        **described(error if isinstance(error, BaseException) else InvalidTaskError("it is no message of Celery")),
    )
    announce(consumer.app, item, message)


def _fields(message: Any) -> Mapping[str, Any]:
    """Return what names the task: the headers, or the body of an old message."""
    given = message.headers if isinstance(message.headers, Mapping) else {}
    if "task" in given:
        return given
    try:
        payload = message.payload
    except Exception:
        return given
    return payload if isinstance(payload, Mapping) else given


def _stamp(runtime: Runtime, name: str, fields: Mapping[str, Any], message: Any, worker: str) -> Stamp:
    """Name the submission. Copies of one message have one name, also where it says none."""
    if fields.get("id") or headers.find(fields) is not None:
        return runtime.stamp(name, {**fields, "delivery_info": message.delivery_info}, worker)
    cover, body = parking.raw(message)
    submission = digest("message", hashlib.blake2b(body).hexdigest(), canonical_json(cover["headers"]))
    trace_id = digest("trace", submission)
    return Stamp(submission=submission, trace_id=trace_id, correlation_id=trace_id)
