"""What runs in a worker's parent beside Celery's own steps: message leases, the steward's spawning.

In pools that fork, the parent keeps no thread and no socket of ours.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

from celery import bootsteps
from kombu.utils.imports import symbol_by_name

from . import message_leases, policy, steward, targets
from .exceptions import ConfigurationError
from .logs import logger_of
from .news import Pipe
from .parent import forking, listeners
from .reception import ReceptionStep
from .runtime import runtime_of

logger = logger_of(__name__)


def tell_of_unprotected(app: Any) -> None:
    """Warn of tasks that declare what their class knows nothing of."""
    for sentence in policy.unprotected(app.tasks.values()):
        logger.warning("replay.unprotected: %s", sentence)


class TrialStep(bootsteps.Step):
    """Makes the task known by which a worker does dry runs: to each worker, as any may be told to consume its queue."""

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        # While the steps are put together, and so before a pool forks. By its name, since it is on a layer above.
        if runtime_of(worker.app).settings.trial_queue:
            symbol_by_name("celery_replay.dry_run.working:register")(worker.app)


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
        for task in worker.app.tasks.values():
            # Again: when a task was bound, the project's databases may not have been known.
            targets.check(task)
            policy.check_lease(task, runtime.settings)
        tell_of_unprotected(worker.app)
        forks = forking[worker.app] = "prefork" in worker.pool_cls.__module__
        if not runtime.store.shared:
            if forks:
                raise ConfigurationError(
                    "replay_store = memory:// can't be shared by a prefork pool; "
                    "use a database, or --pool solo or threads"
                )
            self.thread = steward.Steward(runtime)
            listeners[worker.app] = self.thread
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
        listeners[app] = Pipe(process.stdin.fileno())
        self.process = process

    def revive(self, app: Any) -> None:
        """Spawn it again if it died."""
        if self.process is not None and self.process.poll() is not None:
            logger.warning("replay.steward_died", extra={"exit_code": self.process.returncode})
            self._spawn(app)

    def stop(self, worker: Any) -> None:
        """Let it end with the worker."""
        listeners.pop(worker.app, None)
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
    """Renews the leases of messages by the transport's own client, in the parent's event loop.

    By a thread in the solo pool, whose loop stands still while a task runs.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._stop = threading.Event()
        self._timers: list[Any] = []

    def start(self, consumer: Any) -> None:
        """Begin to renew, where the transport has a visibility timeout."""
        self._stop.clear()
        self._timers.append(consumer.timer.call_repeatedly(5.0, _revive_steward, (consumer,)))
        channel: Any = getattr(consumer.task_consumer, "channel", None)
        renewal = message_leases.renewal_of(channel)
        if renewal is None or not runtime_of(consumer.app).settings.message_lease:
            return
        period = message_leases.seconds_of(channel, [queue.name for queue in consumer.task_consumer.queues]) / 3
        if "solo" in type(consumer.pool).__module__:
            arguments = (consumer, renewal, period)
            threading.Thread(target=self._run, args=arguments, name="celery-replay-message-lease", daemon=True).start()
        else:
            self._timers.append(consumer.timer.call_repeatedly(period, message_leases.renew, (renewal, channel)))

    def _run(self, consumer: Any, renewal: message_leases.Renewal, period: float) -> None:
        with consumer.app.connection_for_write() as connection:
            while not self._stop.wait(period):
                message_leases.renew(renewal, consumer.task_consumer.channel, connection.default_channel)

    def stop(self, consumer: Any) -> None:
        """Stop renewing: what this worker still holds shall come back to others."""
        self._stop.set()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    shutdown = stop


def _revive_steward(consumer: Any) -> None:
    worker: Any = getattr(consumer, "controller", None)
    for step in getattr(getattr(worker, "blueprint", None), "steps", {}).values():
        if isinstance(step, StewardStep):
            step.revive(worker.app)


def add_steps(app: Any) -> None:
    """Add our bootsteps to the app's workers."""
    app.steps["worker"].add(TrialStep)
    app.steps["worker"].add(StewardStep)
    app.steps["consumer"].add(ReceptionStep)
    app.steps["consumer"].add(MessageLeaseStep)


def remove_steps(app: Any) -> None:
    """Take them out again."""
    app.steps["worker"].discard(TrialStep)
    app.steps["worker"].discard(StewardStep)
    app.steps["consumer"].discard(ReceptionStep)
    app.steps["consumer"].discard(MessageLeaseStep)
