"""The base class that makes each run of a task an attempt."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from celery import Task
from celery.canvas import chord
from celery.exceptions import Reject, Retry

from . import aftermath, extension, headers, retrying, targets
from .attempts import Attempt
from .current import carried, traced
from .execution import execute
from .policy import check_options
from .signal_handlers import publishing
from .snapshots.capture import StateProvider
from .targets import Target


class ReplayTask(Task):
    """A Celery task whose runs are admitted, traced and closed in a store.

    Use it for an app (`Celery(task_cls="celery_replay:ReplayTask")`) or for one task (`base=ReplayTask`). A task that
    declares nothing keeps its acknowledgement settings. One that declares `idempotency_key`, `on_incomplete` or
    `atomic` is acknowledged late and brought back when its worker is lost, unless it says otherwise.
    """

    abstract = True
    _guarded: Any = None
    Request = "celery_replay.request:ReplayRequest"

    replay_target: ClassVar[Target | None] = None
    """The database adapter behind `atomic=` and `attempt.fenced()`."""

    replay_state: ClassVar[Sequence[StateProvider]] = ()
    """Adapters that can read what `state=` returns; what none of them knows is captured as data."""

    replay_surroundings: ClassVar[Any] = None
    """What stands in for the framework's databases, mail, caches and files in a dry run; see `dry_run.engine`."""

    @classmethod
    def bind(cls, app: Any) -> Any:
        """Bind the task to an app: install celery-replay there once, and let declared tasks be acknowledged late.

        Raises:
            ConfigurationError: an option is wrong.
        """
        first_time = not vars(cls).get("__bound__", False)
        if first_time or cls._app is not app:
            extension.install(app)
        if first_time:
            check_options(cls)
            targets.check(cls)
            if any(getattr(cls, name, None) is not None for name in ("idempotency_key", "on_incomplete", "atomic")):
                if cls.acks_late is None:
                    cls.acks_late = True
                if cls.reject_on_worker_lost is None:
                    cls.reject_on_worker_lost = True
        return super().bind(app)

    @property
    def attempt(self) -> Attempt | None:
        """The running attempt; None where the task was called directly, or without records."""
        found: Attempt | None = vars(self.request).get("replay_attempt")
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as an attempt when a worker calls; as a plain function when anybody else does."""
        request = self.request
        if request.called_directly or not request.id:
            return super().__call__(*args, **kwargs)
        runtime = extension.active(self.app)
        if runtime is None or (request.is_eager and runtime.bypasses_eager):
            return self.run(*args, **kwargs)
        if runtime.policy(self).excluded and not headers.hands_over(vars(request)):
            return self.run(*args, **kwargs)
        attempt = Attempt(runtime, self, request, args, kwargs)
        request.replay_attempt = attempt
        told = traced.get()
        if told is not None and not request.is_eager:
            told.append(attempt)
        token = carried.set(attempt)
        try:
            return execute(attempt)
        finally:
            carried.reset(token)

    @property
    def __trace__(self) -> Any:
        """Celery's tracer for this task; None as long as no worker has made it."""
        return self._guarded

    @__trace__.setter
    def __trace__(self, tracer: Any) -> None:
        tells = type(self).__call__ is ReplayTask.__call__
        self._guarded = tracer and aftermath.guarded(tracer, self, tells=tells)

    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        """Publish a call, as Celery does; the key is computed on the way."""
        token = publishing.set(self)
        try:
            return super().apply_async(*args, **kwargs)
        finally:
            publishing.reset(token)

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: Any = None,
        throw: bool = True,
        eta: Any = None,
        countdown: Any = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Any:
        """Publish a retry, as Celery does; but not of a job that another attempt goes on with.

        Without a countdown it comes after the delay that `failures=` has for this error, if the task declares that.

        Raises:
            OwnershipLost: it is lost; let it pass. `autoretry_for=(Exception,)` comes here with that error, too.
        """
        attempt = self.attempt
        if attempt is not None:
            attempt.refuse_retry(exc)
            if countdown is None and eta is None:
                countdown = retrying.delay_s(attempt, exc if isinstance(exc, BaseException) else sys.exc_info()[1])
        try:
            return super().retry(args, kwargs, exc, throw, eta, countdown, max_retries, **options)
        except (Retry, Reject):
            raise
        except Exception:
            if attempt is not None:
                attempt.celery_gave_up = True
            raise

    def on_replace(self, sig: Any) -> Any:
        """Let the task that takes this one's id carry the submission on, and its key."""
        attempt = self.attempt
        if attempt is not None and not self.request.is_eager:
            attempt.replaced = _hand_over(attempt, sig)
        return super().on_replace(sig)


def _hand_over(attempt: Attempt, sig: Any) -> bool:
    """Put the attempt's stamp on the part of a replacement that takes its task id: the last of a chain, a chord's body.

    Returns:
        Whether there is one, and whether it is a task that will end the submission.
    """
    request, task = attempt.request, attempt.task
    for part in _parts(sig):
        if part.options.get("task_id") == request.id and isinstance(task.app.tasks.get(part.task), ReplayTask):
            stamp = replace(
                attempt.stamp,
                operation=attempt.stamp.operation or task.name,
                key=attempt.key or None,
                fingerprint=attempt.fingerprint,
            )
            table = dict(part.options.get("headers") or {})
            headers.write(table, stamp)
            part.set(headers=table, replaced_task_nesting=(request.get("replaced_task_nesting") or 0) + 1)
            return True
    return False


def _parts(sig: Any) -> Iterator[Any]:
    if isinstance(sig, chord):
        yield from _parts(sig.body)
    elif hasattr(sig, "tasks"):
        for part in sig.tasks:
            yield from _parts(part)
    else:
        yield sig
