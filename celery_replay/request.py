"""The request that a worker's parent keeps of each message: it tells the steward what an attempt can't tell itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from celery.exceptions import (
    Ignore,
    InvalidTaskError,
    Reject,
    Retry,
    TaskError,
    Terminated,
    TimeLimitExceeded,
    WorkerLostError,
)
from celery.worker.request import Request

from . import headers
from .chord_bodies import waiting_for
from .clock import micros, wall
from .losses import News
from .older_celery import announces_limits_twice, loss_of, retries_when_lost
from .parent import announce, described, forking
from .redaction import kept_text
from .runtime import plain_app, runtime_of
from .serialization import safe_text
from .signals import observe_failure
from .states import Capture, Reason


class ReplayRequest(Request):
    """A request that tells the steward what its attempt can't."""

    _told: Reason | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """See to what Celery's own subclass, of which it makes one for each task, does with a success."""
        super().__init_subclass__(**options)
        if "on_success" in vars(cls):
            cls.on_success = _losses_apart(cls.on_success)

    def __init__(self, message: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(message, *args, **kwargs)
        # Where it has to wait for a free process, Celery stumbles over such things too late, and ends or stands still.
        if not _are_limits(self.time_limits):
            raise InvalidTaskError(f"invalid time limits {safe_text(self.time_limits, 100)}")
        if not _are_stamps(self._request_dict):
            raise InvalidTaskError("invalid stamps")
        self._request_dict["replay_received_at"] = wall()
        self._request_dict["content_type"] = message.content_type

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Tell of what the attempt could not, before Celery decides about the message."""
        error = _unwrapped(exc_info)
        if isinstance(error, TimeLimitExceeded) and not return_ok:
            self._tell_limit(error)
            if announces_limits_twice():
                return None
        if isinstance(error, (WorkerLostError, SystemExit, KeyboardInterrupt)):
            self._tell_loss(error)
            if isinstance(error, SystemExit) and not (self._already_revoked or self._already_cancelled):
                exc_info = loss_of(exc_info)
        elif not return_ok and isinstance(error, Exception) and not isinstance(error, _TOLD_OTHERWISE):
            # Raised outside of the tracer: no task was made of the message.
            self._tell(Reason.UNDECODABLE, final=True, error=error)
        if isinstance(error, MemoryError):
            # Celery would raise it again here, in the parent, which would end with everything that it does.
            exc_info = _as_task_error(error)
        answer = super().on_failure(exc_info, send_failed_event, return_ok)
        if isinstance(error, Reject) and not error.requeue:
            # Its failure is announced here in the parent, and only now through with.
            self._tell(Reason.REJECTED, final=True)
        return answer

    def on_timeout(self, soft: bool, timeout: float) -> Any:
        """Tell of a hard time limit."""
        if not soft:
            self._tell_limit(TimeLimitExceeded(timeout))
        return super().on_timeout(soft, timeout)

    def reject(self, requeue: bool = False) -> Any:
        """Tell of a message that Celery throws away before it began: its ETA is no time that this machine knows."""
        if not requeue and self.time_start is None and not self.acknowledged:
            error = InvalidTaskError(f"its ETA can't be converted to local time: {self.eta}")
            self._tell(Reason.UNDECODABLE, final=True, error=error)
        return super().reject(requeue=requeue)

    def _success_was_stored(self) -> Any:
        """Let the message of a chord's member come back although its SUCCESS is stored.

        Celery acknowledges it then, but stores the result before it counts the chord's part: OPEN knows better whether
        the part was counted.
        """
        recorded = not runtime_of(self._app).policy(self.task).excluded
        if recorded and self._brought_back and self._context.chord:
            return False
        return super()._success_was_stored()

    def _retry_worker_lost(self, exc: BaseException, exc_info: Any) -> Any:
        """Tell that Celery has published a retry for a lost child."""
        retried = super()._retry_worker_lost(exc, exc_info)
        delay = micros(float(self.task.default_retry_delay or 0)) if retried else None
        self._tell(Reason.WORKER_LOST, final=not retried and not self._brought_back, error=exc, retry_us=delay)
        return retried

    @property
    def _brought_back(self) -> bool:
        return bool(self.task.acks_late and self.task.reject_on_worker_lost)

    @property
    def _says(self) -> bool:
        """May it be told what the task raised?"""
        return runtime_of(self._app).policy(self.task).capture is not Capture.NONE

    @property
    def _retries_left(self) -> bool:
        most = self.task.max_retries
        return most is None or self._context.retries < most

    @property
    def _holds_up(self) -> bool:
        """Does the body of a chord wait for it?"""
        return bool(self._context.chord or waiting_for({"chain": self._context.chain}))

    @property
    def _process(self) -> int:
        """The attempt's process; in pools that don't fork, Celery's `worker_pid` may name a greenlet."""
        return (self.worker_pid or 0) if forking.get(plain_app(self._app), True) else os.getpid()

    def _tell_loss(self, error: BaseException) -> None:
        retries = retries_when_lost(self.task)
        if self._already_revoked or (retries and self._retries_left):
            # Told as such; or as soon as Celery has published the retry.
            return
        text = str(error)
        if isinstance(error, SystemExit):
            own = f": {kept_text(repr(error), 300)}" if self._says else ""
            text = f"the task ended its process{own}"
        self._tell(Reason.WORKER_LOST, final=retries or not self._brought_back, error=error, text=text)

    def _tell_limit(self, error: TimeLimitExceeded) -> None:
        limit = error.args[0] if error.args else None
        text = f"it ran longer than its hard time limit of {limit} s"
        self._tell(Reason.HARD_TIME_LIMIT, final=True, error=error, text=text, limit_s=limit)

    def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> Any:
        self._tell(Reason.EXPIRED if expired else Reason.REVOKED, final=True)
        return super()._announce_revoked(reason, terminated, signum, expired)

    def _tell(
        self,
        reason: Reason,
        *,
        final: bool,
        error: BaseException | None = None,
        text: str = "",
        **more: Any,
    ) -> None:
        """Tell the steward, once."""
        if self._told is reason:
            return
        self._told = reason
        try:
            fields = self._request_dict
            runtime = runtime_of(self._app)
            policy = runtime.policy(self.task)
            if policy.excluded:
                return
            stamp = runtime.stamp(self.name, fields, self.hostname)
            item = News(
                submission=stamp.submission,
                operation=self.name,
                task_id=safe_text(self.id, 250),
                trace_id=stamp.trace_id,
                correlation_id=stamp.correlation_id,
                key=safe_text(stamp.key or "", 500),
                original=stamp.original,
                keep_us=policy.keep_us,
                generation=headers.generation_of(fields),
                worker=self.hostname,
                pid=self._process,
                reason=reason,
                final=final,
                **described(error, text, says=self._says),
                **more,
            )
            # Of a delivery that has come to its end like this the store may not even have heard.
            needed = final and (error is not None or self._holds_up)
            announce(self._app, item, self._message if needed else None)
        except Exception:
            observe_failure("news")


_LONGEST = 10**9
"""Seconds."""


def _are_limits(value: Any) -> bool:
    pair = isinstance(value, (list, tuple)) and len(value) == 2
    return pair and all(limit is None or (type(limit) in (int, float) and 0 <= limit <= _LONGEST) for limit in value)


def _are_stamps(fields: Mapping[str, Any]) -> bool:
    names, stamps = fields.get("stamped_headers") or [], fields.get("stamps") or {}
    named = isinstance(names, (list, tuple, set)) and all(isinstance(name, str) for name in names)
    return named and isinstance(stamps, Mapping)


_TOLD_OTHERWISE = (WorkerLostError, Terminated, Reject, Ignore, Retry)


def _losses_apart(on_success: Callable[..., Any]) -> Callable[..., Any]:
    """Take the end of a body that left its thread or greenlet by `sys.exit` for what it is.

    Pools without processes report it as a success, over which Celery trips: the message is then neither acknowledged
    nor rejected, and a solo worker ends.
    """

    def on_end(self: ReplayRequest, outcome: Any, **kwargs: Any) -> Any:
        if isinstance(outcome, ExceptionInfo):
            return self.on_failure(outcome)
        return on_success(self, outcome, **kwargs)

    return on_end


def _unwrapped(exc_info: Any) -> BaseException:
    error: BaseException = exc_info.exception
    return error.exc if isinstance(error, ExceptionWithTraceback) else error


def _as_task_error(error: BaseException) -> ExceptionInfo:
    try:
        raise TaskError(f"out of memory: {error!r}")
    except TaskError:
        return ExceptionInfo()
