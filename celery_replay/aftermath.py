"""Stands around Celery's tracer: a job whose end could not be announced is not over.

When a body has ended, and CLOSE too, the tracer sends callbacks, stores the result and counts a chord's part. While the
broker or the result backend is away that fails, outside of the body, and Celery acknowledges the message all the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import celery
from billiard.einfo import ExceptionInfo
from celery.app import trace as tracing
from celery.app.task import Context
from celery.app.trace import TraceInfo, trace_ok_t
from celery.exceptions import Ignore, Reject
from celery.states import IGNORED, REJECTED

from . import extension, parking
from .attempts import Attempt
from .current import traced
from .failures import is_outage
from .logs import logger_of

logger = logger_of(__name__)

_CELERY = Path(celery.__file__).parent
_SENDING = (f"{_CELERY / 'backends'}{os.sep}", str(_CELERY / "canvas.py"))
"""Where Celery stores results, and sends callbacks and chains."""
_GROWS = 6
"""So often the delay doubles."""
_AGAIN = "its end could not be announced: the same delivery comes again"


def guarded(tracer: Callable[..., Any], task: Any, *, tells: bool) -> Callable[..., Any]:
    """Let a delivery come again whose tracer failed for want of a broker or a result backend.

    OPEN knows by then whether the job has ended; if so its body does not run, and its end is announced anew.

    Args:
        tells: no body runs but through our own `__call__`, so that one that is not told of has not begun.
    """

    def trace(uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:
        told: list[Attempt] = []
        token = traced.set(told)

        def instead(error: BaseException) -> Any:
            return _instead(task, told, Context(request or {}, args=args, kwargs=kwargs), error, tells=tells)

        try:
            ended = tracer(uuid, args, kwargs, request)
            if ended.info is None and isinstance(ended.retval, ExceptionInfo):
                # Before 5.7 Celery takes such an error for a success.
                return instead(ended.retval.exception) or ended
            return ended
        except (Reject, MemoryError):
            raise
        except Exception as error:
            other = instead(error)
            if other is None:
                raise
            return other
        finally:
            traced.reset(token)

    return trace


def _instead(task: Any, told: Sequence[Attempt], request: Context, error: BaseException, *, tells: bool) -> Any:
    """Return what the tracer shall have returned; None where nothing can be done about it."""
    runtime, attempt = extension.active(task.app), next(iter(told), None)
    if runtime is None or runtime.policy(task).excluded or not (is_outage(task, error) and _is_celerys(error)):
        return None
    if attempt is None and not tells:
        return None
    if attempt is not None and not attempt.owes_announcement:
        # A retry, for one, has been published.
        moved_on = attempt.closed is not None and attempt.closed.handed_over
        return _as_traced(Ignore("the job goes on elsewhere")) if moved_on else None
    earlier = parking.again_of(request)
    if earlier.times >= runtime.settings.requeue_cap:
        return None
    kinds = {"error": type(error).__name__, "times": earlier.times}
    logger.warning("replay.end_not_announced", extra={"task": task.name, "job": request.id, **kinds})
    try:
        message = _message(task, attempt, request, runtime.policy(task).told)
        delay = runtime.settings.store_retry_delay * 2 ** min(earlier.times, _GROWS)
        again = parking.Again(earlier.times + 1, is_over=attempt is not None)
        parking.publish(runtime.app, message, delay, again)
    except Exception:
        # The broker itself brings what was not acknowledged.
        return _as_traced(Reject(_AGAIN, requeue=True)) if task.acks_late else None
    return _as_traced(Ignore(_AGAIN))


def _is_celerys(error: BaseException) -> bool:
    """Did the tracer meet it in a result backend or in sending a canvas, and not in a handler of the project's?"""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, tracing.__file__):
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_SENDING)


def _message(task: Any, attempt: Attempt | None, request: Context, told: Mapping[str, Any]) -> bytes:
    try:
        if attempt is not None:
            return attempt.delivery.message()
    except ReferenceError:
        # Celery's request is gone. What the body made of its arguments is the best that there is.
        pass
    return parking.keep(request, request.args, request.kwargs, task.serializer, told)


def _as_traced(control: Ignore | Reject) -> Any:
    """Return what Celery's tracer returns for a body that raised this."""
    try:
        raise control
    except (Ignore, Reject):
        state = REJECTED if isinstance(control, Reject) else IGNORED
        return trace_ok_t(ExceptionInfo(internal=True), TraceInfo(state, control), 0.0, None)
