"""What runs in a worker's parent: news of attempts that can't close themselves, message leases, the steward's spawning.

In pools that fork, the parent keeps no thread and no socket of ours.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

from celery import bootsteps
from celery.exceptions import Reject, TimeLimitExceeded, WorkerLostError
from celery.worker.request import Request

from . import headers, steward
from .clock import wall
from .exceptions import ConfigurationError
from .lifecycle import News
from .news import Pipe
from .older_celery import acknowledges_timeout, loss_of
from .runtime import Runtime, plain_app, runtime_of
from .serialization import safe_text
from .signals import observe_failure
from .states import Reason

logger = logging.getLogger(__name__)

_pipes: weakref.WeakKeyDictionary[Any, Pipe | steward.Steward] = weakref.WeakKeyDictionary()

_forking: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


class ReplayRequest(Request):
    """A request that tells the steward what its attempt can't."""

    _told: Reason | None = None

    def __init__(self, message: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(message, *args, **kwargs)
        self._request_dict["replay_received_at"] = wall()
        self._request_dict["content_type"] = message.content_type

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """Tell of a lost child before Celery decides about the message."""
        error = getattr(exc_info.exception, "exc", exc_info.exception)
        if isinstance(error, (WorkerLostError, SystemExit)) and not self._already_revoked:
            self._tell(Reason.WORKER_LOST, final=not self._brought_back)
            if isinstance(error, SystemExit) and not self._already_cancelled:
                exc_info = loss_of(exc_info)
        elif isinstance(error, TimeLimitExceeded):
            self._tell_timeout()
        answer = super().on_failure(exc_info, *args, **kwargs)
        if isinstance(error, Reject) and not error.requeue:
            # Its failure is announced here in the parent, and only now through with.
            self._tell(Reason.REJECTED, final=True)
        return answer

    def on_timeout(self, soft: bool, timeout: float) -> Any:
        """Tell of a hard time limit."""
        if not soft:
            self._tell_timeout()
        return super().on_timeout(soft, timeout)

    def _success_was_stored(self) -> Any:
        """Let the message of a chord's member come back although its SUCCESS is stored.

        Celery acknowledges it then, but stores the result before it counts the chord's part: OPEN knows better whether
        the part was counted.
        """
        recorded = not runtime_of(self._app).policy(self.task).excluded
        if recorded and self._brought_back and self._context.chord:
            return False
        return super()._success_was_stored()

    @property
    def _brought_back(self) -> bool:
        return bool(self.task.acks_late and self.task.reject_on_worker_lost)

    @property
    def _process(self) -> int:
        """The attempt's process; in pools that don't fork, Celery's `worker_pid` may name a greenlet."""
        return (self.worker_pid or 0) if _forking.get(plain_app(self._app), True) else os.getpid()

    def _tell_timeout(self) -> None:
        acknowledged = not self.task.acks_late or acknowledges_timeout(self.task)
        self._tell(Reason.HARD_TIME_LIMIT, final=acknowledged)

    def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> Any:
        self._tell(Reason.EXPIRED if expired else Reason.REVOKED, final=True)
        return super()._announce_revoked(reason, terminated, signum, expired)

    def _tell(self, reason: Reason, *, final: bool) -> None:
        if self._told is reason:
            # Celery announces a hard time limit twice.
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
            )
            channel = _pipes.get(plain_app(self._app))
            if isinstance(channel, Pipe):
                channel.tell(item)
            elif channel is not None:
                channel.hear(item)
        except Exception:
            observe_failure("news")


class StewardStep(bootsteps.StartStopStep):
    """Spawns this worker's steward: a process, or a thread where the store lives in this process's memory."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self.process: subprocess.Popen[bytes] | None = None
        self.thread: steward.Steward | None = None

    def start(self, worker: Any) -> None:
        """Start it, unless the settings say that none is wanted."""
        runtime = runtime_of(worker.app)
        forks = _forking[worker.app] = "prefork" in worker.pool_cls.__module__
        if not runtime.store.shared:
            if forks:
                raise ConfigurationError(
                    "replay_store = memory:// can't be shared by a prefork pool; "
                    "use a database, or --pool solo or threads"
                )
            self.thread = steward.Steward(runtime)
            _pipes[worker.app] = self.thread
            threading.Thread(target=self.thread.run, name="celery-replay-steward", daemon=True).start()
            return
        steward.see_that_it_works(runtime.store)
        if runtime.settings.steward != "off":
            self._spawn(worker.app)

    def _spawn(self, app: Any) -> None:
        process = subprocess.Popen([sys.executable, "-c", steward.COMMAND], stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(steward.hand_over(app))
        process.stdin.flush()
        _pipes[app] = Pipe(process.stdin.fileno())
        self.process = process

    def revive(self, app: Any) -> None:
        """Spawn it again if it died."""
        if self.process is not None and self.process.poll() is not None:
            logger.warning("replay.steward_died", extra={"exit_code": self.process.returncode})
            self._spawn(app)

    def stop(self, worker: Any) -> None:
        """Let it end with the worker."""
        _pipes.pop(worker.app, None)
        if self.thread is not None:
            self.thread.stop()
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
            self.process = None

    terminate = stop


class MessageLeaseStep(bootsteps.StartStopStep):
    """Keeps the visibility timeout of messages that this worker holds from running out.

    kombu's Redis transport gives a message to another worker when it is older than the timeout, whether or not its
    holder lives. Renewed by the transport's own client in the parent's event loop; by a thread in the solo pool, whose
    loop stands still while a task runs.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._stop = threading.Event()
        self._timers: list[Any] = []

    def start(self, consumer: Any) -> None:
        """Begin to renew, where the transport has such a timeout."""
        self._stop.clear()
        runtime = runtime_of(consumer.app)
        self._timers.append(consumer.timer.call_repeatedly(5.0, _revive_steward, (consumer,)))
        period = _renewal_period(consumer, runtime)
        if period is None:
            return
        if "solo" in type(consumer.pool).__module__:
            threading.Thread(
                target=self._run, args=(consumer, period), name="celery-replay-message-lease", daemon=True
            ).start()
        else:
            channel = consumer.task_consumer.channel
            self._timers.append(consumer.timer.call_repeatedly(period, renew_messages, (channel,)))

    def _run(self, consumer: Any, period: float) -> None:
        with consumer.app.connection_for_write() as connection:
            while not self._stop.wait(period):
                renew_messages(consumer.task_consumer.channel, connection.default_channel)

    def stop(self, consumer: Any) -> None:
        """Stop renewing: what this worker still holds shall come back to others."""
        self._stop.set()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    shutdown = stop


def _renewal_period(consumer: Any, runtime: Runtime) -> float | None:
    channel: Any = getattr(consumer.task_consumer, "channel", None)
    timeout = getattr(channel, "visibility_timeout", None)
    if not runtime.settings.message_lease or timeout is None or not hasattr(channel.qos, "unacked_index_key"):
        return None
    return float(timeout) / 3


def renew_messages(channel: Any, through: Any = None) -> int:
    """Make the messages that a Redis channel holds young again; return how many.

    Only those that are still held are touched (ZADD XX): one that was acknowledged or restored stays as it is.
    """
    try:
        tags = list(channel.qos._delivered)
        if not tags:
            return 0
        with (through or channel).conn_or_acquire() as client:
            client.zadd(channel.unacked_index_key, dict.fromkeys(tags, time.time()), xx=True)
    except Exception:
        observe_failure("message_lease")
        return 0
    return len(tags)


def _revive_steward(consumer: Any) -> None:
    worker: Any = getattr(consumer, "controller", None)
    for step in getattr(getattr(worker, "blueprint", None), "steps", {}).values():
        if isinstance(step, StewardStep):
            step.revive(worker.app)


def add_steps(app: Any) -> None:
    """Add our bootsteps to the app's workers."""
    app.steps["worker"].add(StewardStep)
    app.steps["consumer"].add(MessageLeaseStep)


def remove_steps(app: Any) -> None:
    """Take them out again."""
    app.steps["worker"].discard(StewardStep)
    app.steps["consumer"].discard(MessageLeaseStep)
