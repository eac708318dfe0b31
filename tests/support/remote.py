"""A process of the user's own, such as a web server's: it has the app, publishes, and asks for results."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from celery.app.utils import find_app

from tests.support.net import LOCALHOST
from tests.support.processes import LoggedProcess
from tests.support.workers import ROOT, SOURCES

START_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 60.0


class RemoteError(AssertionError):
    """The function raised in the other process; the message is its traceback."""


class Remote:
    """Calls functions in a process of its own: `remote(function, *args)` runs `function(app, *args)` there.

    Arguments and what the function returns are pickled. Threads that call at once are served one after the other.

    Args:
        app: the module with the app, as after `celery -A`.
        env: added to this process's environment.
        log_folder: where its output goes.
    """

    def __init__(self, app: str, env: Mapping[str, str], log_folder: Path) -> None:
        self._listener = Listener((LOCALHOST, 0), authkey=b"tests")
        host, port = self._listener.address
        command = [sys.executable, "-m", "tests.support.remote", app, str(host), str(port)]
        inherited = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
        self.process = LoggedProcess(command, log_folder / f"remote-{port}.log", cwd=ROOT)
        self.process.launch({**inherited, "PYTHONPATH": os.pathsep.join(SOURCES), **env})
        self._connection: Connection | None = None
        self._calling = threading.Lock()

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run the function there, with the app as its first argument, and return what it returns."""
        with self._calling:
            connection = self._connected()
            connection.send((function.__module__, function.__qualname__, args, kwargs))
            if not connection.poll(CALL_TIMEOUT_S):
                raise TimeoutError(f"{function.__qualname__}: no answer\n{self.process.log_tail()}")
            good, value = connection.recv()
        if not good:
            raise RemoteError(value)
        return value

    def _connected(self) -> Connection:
        if self._connection is None:
            # A process that died before it called would otherwise be waited for without end.
            socket = self._listener._listener._socket  # type: ignore[attr-defined]
            socket.settimeout(START_TIMEOUT_S)
            try:
                self._connection = self._listener.accept()
            except OSError as error:
                raise RuntimeError(f"{error}\n{self.process.log_tail()}") from None
        return self._connection

    def close(self) -> None:
        """End the process."""
        if self._connection is not None:
            self._connection.close()
        self._listener.close()
        self.process.kill()


def main() -> None:
    """Serve calls until the other side hangs up."""
    name, host, port = sys.argv[1:]
    app = find_app(name)
    app.finalize()
    with Client((host, int(port)), authkey=b"tests") as connection:
        while True:
            try:
                module, function, args, kwargs = connection.recv()
            except EOFError:
                return
            connection.send(_answer(module, function, app, args, kwargs))


def _answer(module: str, function: str, app: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
    try:
        return True, getattr(importlib.import_module(module), function)(app, *args, **kwargs)
    except Exception:
        import traceback

        return False, traceback.format_exc()


if __name__ == "__main__":
    main()
