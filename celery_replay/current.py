"""The attempt that runs here and now, for code that is not handed it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from celery._state import _task_stack

from .attempts import Attempt
from .exceptions import StepError
from .runtime import is_serving

carried: ContextVar[Attempt | None] = ContextVar("celery_replay_attempt", default=None)
"""The attempt whose body runs, for threads of that body which run in a copy of its context."""

traced: ContextVar[list[Attempt] | None] = ContextVar("celery_replay_traced", default=None)
"""Takes the attempt that a worker's tracer runs, for what looks at it when the tracer is through."""


def current_attempt() -> Attempt | None:
    """Return the attempt that runs here, also from within tasks that it calls as functions.

    Here is its thread or greenlet, coroutines that run in it, and other threads that run in a copy of its context:
    those of `asyncio.to_thread()`, of asgiref's `async_to_sync()`, or of `contextvars.copy_context().run()`.
    """
    for task in reversed(_task_stack.stack or ()):
        found: Attempt | None = vars(task.request).get("replay_attempt")
        if found is not None:
            return found
    return carried.get()


def refuse_strays(step: str) -> None:
    """Refuse a side effect in a thread that was started by a body, and does not know it.

    Raises:
        StepError: no task is known here, though this process runs jobs.
    """
    if not _task_stack.stack and is_serving():
        raise StepError(
            f"step {step}: this thread does not know which job it works for, so nothing would keep the step from being "
            "done twice; start it by contextvars.copy_context().run, as in pool.submit(copy_context().run, function)"
        )


def record(name: str, /, **attributes: Any) -> None:
    """Add a domain event to the running attempt's trace; outside of an attempt, do nothing.

    Args:
        name: what happened, in the words of your domain, such as "payment_checked".
        attributes: a few small values; secrets are redacted. A task with `capture="none"` keeps the name alone.
    """
    attempt = current_attempt()
    if attempt is not None:
        attempt.record(name, **attributes)


def cache_read(key: str, value: Any = None, *, hit: bool, version: Any = None, cache: str = "default") -> None:
    """Note in the running attempt's trace what was found in a cache; outside of an attempt, do nothing.

    For caches other than Django's, which are noted by themselves with `django_celery_replay.cache.RecordedCache`. It
    never fails, and a place that is as it was read before is not told again. A value that is data, not secret and of up
    to 10,000 bytes is kept with the trace, unless the task has `capture="none"`; of others there is a digest at most.

    Args:
        key: as the application names it; a secret one is redacted.
        value: what was found.
        hit: whether anything was found.
        version: the key's or the value's, as the application counts it.
        cache: which cache it is.
    """
    attempt = current_attempt()
    if attempt is not None:
        attempt.cache_read(key, value, hit=hit, version=version, cache=cache)
