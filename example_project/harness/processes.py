"""The processes of one round: broker, world outside, workers, and Django's commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from .broker import broker

ROOT = Path(__file__).resolve().parents[2]
APP = "example_project.shop_project"
SLOTS = 2
"""Jobs that one worker runs at a time."""


class Shop:
    """The shop with its own broker, world outside and database files."""

    def __init__(self, folder: Path, env: dict[str, str], redis_url: str, outside_url: str) -> None:
        paths = [str(ROOT), str(ROOT / "django_app"), os.environ.get("PYTHONPATH", "")]
        self.folder = folder
        self.redis_url = redis_url
        self.outside_url = outside_url
        self.workers: list[Worker] = []
        self.env = {
            **os.environ,
            **env,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "SHOP_DATA_DIR": str(folder),
            "SHOP_REDIS_URL": redis_url,
            "SHOP_OUTSIDE_URL": outside_url,
        }

    def manage(self, *words: str, show: bool = False, env: Mapping[str, str] = MappingProxyType({})) -> str:
        """Run one of Django's commands and return what it prints; that is shown, or told if it fails."""
        command = [sys.executable, str(ROOT / "example_project" / "manage.py"), *words]
        env = {**self.env, **env}
        done = subprocess.run(command, check=False, env=env, cwd=ROOT, capture_output=not show, text=True)
        if done.returncode:
            raise RuntimeError(f"manage.py {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout or ""

    def start_workers(self, count: int) -> None:
        self.workers = [Worker(f"w{number}", self) for number in range(1, count + 1)]

    def stop_workers(self) -> None:
        """Ask all to stop, so that each ends what it spawned."""
        for worker in self.workers:
            worker.ask_to_stop()
        for worker in self.workers:
            worker.wait()


class Worker:
    """A prefork worker that can be frozen, killed and started again, children included."""

    def __init__(self, name: str, shop: Shop) -> None:
        self._shop = shop
        self._command = [
            *(sys.executable, "-m", "celery", "-A", APP, "worker", "-n", f"{name}@demo"),
            *("-c", str(SLOTS), "-l", "INFO", "--without-gossip", "--without-mingle"),
            # Its own jobs, and dry runs from the admin.
            *("-Q", "celery,celery-replay"),
        ]
        self._log = shop.folder / f"{name}.log"
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._shop.env,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a process group of its own, to kill as a whole
            )

    def owns(self, pid: int) -> bool:
        """Return whether a process is one of this worker's."""
        try:
            return os.getpgid(pid) == self._process.pid
        except ProcessLookupError:
            return False

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill parent and children at once, as a power cut or the OOM killer would."""
        self.send(signal.SIGKILL)
        self._process.wait()

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def wait(self) -> None:
        """Wait a little for it to end by itself; kill what is left."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self.kill()


@contextmanager
def shop(folder: Path, env: dict[str, str]) -> Iterator[Shop]:
    """Start broker and world outside, and yield a shop without workers yet."""
    folder.mkdir(parents=True)
    with broker(folder) as redis_url, outside() as outside_url:
        running = Shop(folder, env, redis_url, outside_url)
        try:
            yield running
        finally:
            running.stop_workers()


@contextmanager
def outside() -> Iterator[str]:
    """Start the carrier and the gateway, and yield their address."""
    command = [sys.executable, "-m", "example_project.outside"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()
