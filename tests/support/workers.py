"""Real `celery worker` processes that a test may stop, freeze and kill."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support.processes import LoggedProcess

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (str(ROOT), str(ROOT / "django_app"))
# A worker says hello and waits for an answer for a second before it is ready; tests have no use for it.
QUIET = ("--without-mingle", "--without-gossip", "--without-heartbeat")


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How a worker is started."""

    app: str
    """The module, or `module:attribute`, after `celery -A`."""
    pool: str = "prefork"
    """prefork, threads, solo or gevent."""
    concurrency: int = 1
    queues: Sequence[str] = ()
    """Queues to consume; the app's default one when empty."""
    broker_url: str | None = None
    result_backend: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to this process's environment; PYTHONPATH is put before the sources."""
    arguments: Sequence[str] = QUIET
    """More arguments of `celery worker`."""
    log_level: str = "INFO"
    """At least INFO, for the line that says ready."""
    ready_timeout_s: float = 30.0


class WorkerProcess(LoggedProcess):
    """One worker: the parent process, its pool and whatever else it starts."""

    def __init__(self, options: WorkerOptions, log_folder: Path) -> None:
        self.options = options
        self.name = f"{options.pool}-{uuid.uuid4().hex[:8]}"
        super().__init__(self._command(), log_folder / f"{self.name}.log", cwd=ROOT)

    @property
    def hostname(self) -> str:
        """The node name that Celery knows the worker by."""
        return f"{self.name}@localhost"

    def start(self) -> None:
        """Start the worker and return once it consumes."""
        before = self.log().count(self._ready_line)
        self.launch(self._environment())
        self.wait_for(
            lambda: self.log().count(self._ready_line) > before,
            self.options.ready_timeout_s,
            f"worker {self.name} ready",
        )

    def stop(self, timeout_s: float = 20.0) -> int:
        """Ask for a warm shutdown, wait for it and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def pool_pids(self) -> list[int]:
        """Return the ids of prefork's children; other pools have none."""
        if self.options.pool != "prefork":
            return []
        return [child.pid for child in self.descendants() if self._is_pool_child(child)]

    def kill_pool(self) -> list[int]:
        """Kill the pool's children alone; the parent replaces them. Return whom it killed."""
        pids = self.pool_pids()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    def pause(self) -> None:
        """Freeze the worker and all its children, as a long pause of the machine would."""
        self.signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused worker go on."""
        self.signal_all(signal.SIGCONT)

    def _is_pool_child(self, process: psutil.Process) -> bool:
        # A forked child keeps its parent's command line; a process that was spawned has one of its own.
        try:
            return process.ppid() == self.pid and process.cmdline() == self.command
        except psutil.Error:
            return False

    @property
    def _ready_line(self) -> str:
        return f"{self.hostname} ready."

    def _command(self) -> list[str]:
        options = self.options
        command = [sys.executable, "-m", "celery", "-A", options.app, "worker", f"--pool={options.pool}"]
        command += [f"--concurrency={options.concurrency}", f"--hostname={self.hostname}"]
        command += [f"--loglevel={options.log_level}", *options.arguments]
        if options.queues:
            command.append("--queues=" + ",".join(options.queues))
        return command

    def _environment(self) -> dict[str, str]:
        options = self.options
        # Left by pytest-django; it would turn every app into a Django app.
        inherited = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
        chosen = {"CELERY_BROKER_URL": options.broker_url, "CELERY_RESULT_BACKEND": options.result_backend}
        given = {key: value for key, value in chosen.items() if value is not None} | dict(options.env)
        paths = [given.pop("PYTHONPATH", ""), *SOURCES, inherited.get("PYTHONPATH", "")]
        return {
            **inherited,
            # As root, Celery would refuse to start with pickle among the accepted serializers.
            "C_FORCE_ROOT": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONUNBUFFERED": "1",
            **given,
        }


class Workers:
    """The workers of one test."""

    def __init__(self, log_folder: Path) -> None:
        self.started: list[WorkerProcess] = []
        self._log_folder = log_folder

    def start(self, app: str, **options: object) -> WorkerProcess:
        """Start a worker and wait until it consumes; the keywords are those of `WorkerOptions`."""
        worker = WorkerProcess(WorkerOptions(app=app, **options), self._log_folder)  # type: ignore[arg-type]
        self.started.append(worker)
        worker.start()
        return worker

    def log_tails(self) -> Iterator[tuple[str, str]]:
        """Yield a title and the last lines of each worker's log, for a report."""
        for worker in self.started:
            yield f"log of worker {worker.name} ({worker.options.app})", worker.log_tail()

    def kill_all(self) -> None:
        """End all of them, paused and orphaned processes too."""
        for worker in self.started:
            worker.kill()


@contextmanager
def worker_pool(log_folder: Path) -> Iterator[Workers]:
    """Lend out workers that end with the block."""
    workers = Workers(log_folder)
    try:
        yield workers
    finally:
        workers.kill_all()
