"""pytest-celery's nodes over processes of this machine: its interface without a Docker engine.

A node asks its container for what differs; the two classes here answer as containers do.
"""

from __future__ import annotations

import signal as signals

import celery
from pytest_celery import CeleryTestWorker

from tests.support.workers import WorkerProcess


class LocalServer:
    """A broker or result backend that runs already; its life is not the test's to end."""

    status = "running"

    def __init__(self, url: str) -> None:
        self.id = self.name = url.partition("://")[0]
        self.celeryconfig = {"url": url, "host_url": url}

    def ready(self) -> bool:
        """Servers are lent only once they answer."""
        return True

    def logs(self) -> str:
        """Return nothing: the server's log is not ours to read."""
        return ""

    def reload(self) -> None:
        """Do nothing: there is no cached state."""

    def teardown(self) -> None:
        """Leave the server to the session."""


class LocalWorker:
    """A worker process in the place of a worker container."""

    def __init__(self, process: WorkerProcess) -> None:
        self.process = process
        self.id = self.name = process.name

    @property
    def status(self) -> str:
        """Docker's word for whether it runs."""
        return "running" if self.process.running else "exited"

    def ready(self) -> bool:
        """Tell whether it lives; a started worker has said that it consumes."""
        return self.process.running

    def logs(self) -> str:
        """Return all that the worker wrote."""
        return self.process.log()

    def kill(self, signal: str | int = "SIGKILL") -> None:
        """Kill the worker with all its children, or send it another signal."""
        number = _signal_number(signal)
        if number == _signal_number("SIGKILL"):
            self.process.kill()
        else:
            self.process.signal(number)

    def restart(self, timeout: float = 20.0) -> None:
        """Shut the worker down if it runs, and start it again under its name."""
        if self.process.running:
            self.process.stop(timeout)
        self.process.start()

    def reload(self) -> None:
        """Do nothing: there is no cached state."""

    def teardown(self) -> None:
        """End the worker."""
        self.process.kill()

    def version(self) -> str:
        """Return the version of Celery, the same as the test's."""
        return str(celery.__version__)

    def log_level(self) -> str:
        """Return the level that the worker logs at."""
        return self.process.options.log_level

    def worker_name(self) -> str:
        """Return the part of the node name before the @."""
        return self.process.name

    def worker_queue(self) -> str:
        """Return the first queue that the worker consumes."""
        return next(iter(self.process.options.queues), "celery")


class LocalCeleryWorker(CeleryTestWorker):
    """A pytest-celery worker node whose name and processes are read here, not in a container."""

    container: LocalWorker

    def hostname(self) -> str:
        """Return the node name that `app.control` knows."""
        return self.container.process.hostname

    def get_running_processes_info(
        self, columns: list[str] | None = None, filters: dict[str, str] | None = None
    ) -> list[dict[str, object]]:
        """Return psutil's facts of the worker's descendants."""
        found = [child.as_dict(attrs=columns) for child in self.container.process.descendants()]
        return [item for item in found if all(item.get(k) == v for k, v in (filters or {}).items())]


def _signal_number(name: str | int) -> int:
    return name if isinstance(name, int) else int(signals.Signals[name])
