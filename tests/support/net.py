"""Ports and waiting: who answers, which port is free, until when."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

LOCALHOST = "127.0.0.1"


class ServerUnavailable(RuntimeError):
    """No server of this kind can be had here; the message says how to get one."""


def answers(port: int, host: str = LOCALHOST, timeout_s: float = 0.3) -> bool:
    """Tell whether something accepts connections on this port."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((LOCALHOST, 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str, every_s: float = 0.02) -> None:
    """Poll a condition until it holds.

    Raises:
        TimeoutError: it did not hold within `timeout_s`; the message names `what`.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(every_s)
