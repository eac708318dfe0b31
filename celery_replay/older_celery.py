"""What Celery and kombu 5.7 have and the older ones that we support lack. Asked for by feature, never by version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from billiard.einfo import ExceptionInfo
from celery import Task
from celery.app import trace
from celery.exceptions import WorkerLostError
from celery.worker.request import Request

_actual_ignore_result = getattr(trace, "get_actual_ignore_result", None)


def ignores_result(task: Any, request: Any) -> bool:
    """Does the tracer leave the result of this run unstored?

    Celery 5.5 stores it only where neither the task nor the call says otherwise; since 5.6 the call has the last word.
    """
    if _actual_ignore_result is None:
        return bool(task.ignore_result or request.ignore_result)
    return bool(_actual_ignore_result(task, request))


def retries_when_lost(task: Any) -> bool:
    """Does Celery publish a retry when the worker is lost? Before 5.7 the option means nothing."""
    return hasattr(Task, "retry_on_worker_lost") and bool(task.retry_on_worker_lost)


def announces_limits_twice() -> bool:
    """Does `on_timeout` all that `on_failure` did just before it, error callbacks and signals included?

    It does since 5.7, where failures and time limits also got options of their own.
    """
    return hasattr(Task, "acks_on_timeout")


def loss_of(exc_info: Any) -> Any:
    """Return what Celery takes for a lost worker where a body has ended its process.

    Since 4.3 billiard reports that as the `SystemExit` that it was. Celery before 5.7 takes this for a common failure:
    it acknowledges the message, although `reject_on_worker_lost` asks for it again.
    """
    if hasattr(Request, "_worker_lost_info"):
        return exc_info
    try:
        raise WorkerLostError(f"Worker exited prematurely: {exc_info.exception}.")
    except WorkerLostError:
        return ExceptionInfo()


def restore_period(options: Mapping[str, Any]) -> float:
    """Say how many seconds pass between two looks of kombu for messages on Redis whose visibility timeout is over.

    Every 10 s it asks itself whether to look, and does so every tenth time. Before kombu 5.7 neither can be set.
    """
    from kombu.transport.redis import Channel

    names = ("unacked_restore_interval", "unacked_restore_throttle")
    every, nth = (options.get(name) if hasattr(Channel, name) else None for name in names)
    return float(every or 10) * float(nth or 10)
