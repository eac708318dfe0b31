"""The base class that makes each run of a task an attempt."""

from __future__ import annotations

from typing import Any, ClassVar

from celery import Task

from . import extension
from .attempts import Attempt, current_attempt
from .execution import execute
from .states import Outcome
from .targets import Target


class ReplayTask(Task):  # type: ignore[misc]
    """A Celery task whose runs are admitted, traced and closed in a store.

    Use it for an app (`Celery(task_cls="celery_replay:ReplayTask")`) or for one task (`base=ReplayTask`). A task that
    declares nothing keeps its acknowledgement settings. One that declares `idempotency_key`, `on_incomplete` or
    `atomic` is acknowledged late and brought back when its worker is lost, unless it says otherwise.
    """

    abstract = True
    Request = "celery_replay.worker:ReplayRequest"

    replay_target: ClassVar[Target | None] = None
    """The database adapter behind `atomic=` and `attempt.fenced()`."""

    @classmethod
    def bind(cls, app: Any) -> Any:
        """Bind the task to an app: install celery-replay there once, and let declared tasks be acknowledged late."""
        if not cls.__bound__:
            extension.install(app)
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
        if runtime is None or runtime.policy(self).excluded or (request.is_eager and runtime.bypasses_eager):
            return self.run(*args, **kwargs)
        attempt = Attempt(runtime, self, request, args, kwargs)
        request.replay_attempt = attempt
        return execute(attempt)

    def replace(self, sig: Any) -> Any:
        """Replace this task by another one, which carries the same submission on."""
        attempt = self.attempt
        if attempt is not None:
            attempt.replaced = True
        return super().replace(sig)

    def retry(self, *args: Any, **kwargs: Any) -> Any:
        """Schedule a retry. An eager one runs at once, inside this call: its attempt needs ours to be over."""
        attempt = current_attempt()
        if attempt is not None and self.request.is_eager and attempt.closed is None:
            attempt.close(Outcome.RETRY_SCHEDULED, reserve_us=attempt.runtime.redelivery_us)
        return super().retry(*args, **kwargs)
