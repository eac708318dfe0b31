"""One operating system process of a test, with its log."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.support.net import wait_until


class LoggedProcess:
    """A process in a session of its own, so that it can be killed with all that it started."""

    def __init__(self, command: Sequence[str], log_path: Path, **popen: object) -> None:
        self.command = list(command)
        self.log_path = log_path
        self._popen_options = popen
        self._process: subprocess.Popen[bytes] | None = None
        self._orphans: list[psutil.Process] = []

    @property
    def pid(self) -> int:
        """The id of the process itself; stays readable after its death."""
        if self._process is None:
            raise RuntimeError(f"not started: {self.command}")
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll() if self._process else None

    @property
    def running(self) -> bool:
        """True from start until the process itself ended, also while it is stopped by a signal."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Return all that it wrote to stdout and stderr."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self, lines: int = 60) -> str:
        """Return the last lines of the log, as a failure message shows them."""
        return "\n".join(self.log().splitlines()[-lines:])

    def launch(self, env: Mapping[str, str] | None = None) -> None:
        """Start the process; the log is appended to."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(env) if env is not None else None,
                **self._popen_options,
            )

    def wait_for(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait for a condition while the process lives; the error carries the log's tail."""

        def held_or_dead() -> bool:
            return condition() or not self.running

        try:
            wait_until(held_or_dead, timeout_s, what)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.log_tail()}") from None
        if not condition():
            raise RuntimeError(f"{what}: ended with {self.returncode}\n{self.log_tail()}")

    def signal(self, number: int) -> None:
        """Send a signal to the process itself; nothing happens when it is gone."""
        if self.running:
            os.kill(self.pid, number)

    def signal_all(self, number: int) -> None:
        """Send a signal to the process and to all that descends from it."""
        for process in [*self.descendants(), *self._orphans]:
            with suppress(psutil.NoSuchProcess):
                # psutil compares start times: an id that was given to another process is left alone.
                process.send_signal(number)
        # The group outlives its leader, and has what was started since.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def descendants(self) -> list[psutil.Process]:
        """Return the live processes below this one; none once it is dead."""
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def wait(self, timeout_s: float = 10.0) -> int:
        """Wait for the end and return the exit code."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"still runs after {timeout_s:g} s\n{self.log_tail()}") from None

    def kill_parent(self) -> None:
        """Kill the process alone, as an out-of-memory killer would; its children notice by themselves."""
        self._orphans = self.descendants()
        self.signal(signal.SIGKILL)
        self.wait()

    def kill(self) -> None:
        """Kill the process and all that descends from it, as a machine that loses its power would."""
        if self._process is not None:
            self.signal_all(signal.SIGKILL)
            self.wait()
