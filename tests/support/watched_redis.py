"""A Redis with a replica, and three sentinels that put the one in the other's place when it dies."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import redis

from tests.support.net import LOCALHOST, free_port, wait_until
from tests.support.processes import LoggedProcess
from tests.support.redis_server import RedisServer, binary

SERVICE = "shop"
DOWN_AFTER_MS = 500
"""A replica that has not heard of its master for ten times as long is not put in its place."""
_CONFIGURATION = """port {port}
bind {host}
dir {folder}
sentinel monitor {service} {host} {master} 2
sentinel down-after-milliseconds {service} {down}
sentinel failover-timeout {service} 4000
"""


class WatchedRedis:
    """Two servers, of which one leads, as three sentinels say.

    Args:
        folder: for what they write.
        skew_s: how far the second one's clock is ahead; it may be negative.
        options: of both servers.
    """

    def __init__(self, folder: Path, stack: ExitStack, *options: str, skew_s: float = 0) -> None:
        self.servers = [
            RedisServer(_made(folder / name), *options, skew_s=skew) for name, skew in (("a", 0.0), ("b", skew_s))
        ]
        for server in self.servers:
            stack.callback(server.kill)
            server.start()
        first, second = self.servers
        with redis.Redis.from_url(second.url) as client:
            client.replicaof(LOCALHOST, first.port)
        self._sentinels = [free_port() for _ in range(3)]
        for number, port in enumerate(self._sentinels):
            stack.callback(_sentinel(_made(folder / f"sentinel-{number}"), port, first.port).kill)
        wait_until(self._complete, 20, "the sentinels know each other, and the replica")

    @property
    def url(self) -> str:
        """The service's address, as Celery spells it; its name is `SERVICE`."""
        return ";".join(f"sentinel://{LOCALHOST}:{port}" for port in self._sentinels)

    @property
    def master(self) -> RedisServer:
        """The one that leads, as most sentinels say."""
        said = [_master(port) for port in self._sentinels]
        return next(server for server in self.servers if said.count(server.port) >= 2)

    @property
    def replica(self) -> RedisServer:
        """The other one."""
        return next(server for server in self.servers if server is not self.master)

    def fail_over(self, lag_s: float = 0, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Kill the master, and wait until the other one leads and has it as its replica.

        Args:
            lag_s: how long the other one has heard nothing of it by then; it must not be much.
            meanwhile: what the other one is not to hear of.
        """
        dying, heir = self.master, self.replica
        if lag_s:
            _lose_touch(heir)
            meanwhile()
            time.sleep(lag_s)
        dying.kill()
        wait_until(lambda: self._leads(heir), 20, "the replica leads")
        with redis.Redis.from_url(heir.url) as client:
            client.config_set("masteruser", "")
        dying.start()
        self.settle()

    def settle(self) -> None:
        """Wait until one leads, and the other one follows."""
        wait_until(self._complete, 30, "one server leads, and one follows")

    def empty(self) -> None:
        """Kill both, and start them with nothing."""
        for server in self.servers:
            server.kill()
            for path in server.folder.glob("*.rdb"):
                path.unlink()
        for server in self.servers:
            server.start()
        self.settle()

    def _leads(self, server: RedisServer) -> bool:
        with redis.Redis.from_url(server.url) as client:
            return [_master(port) for port in self._sentinels] == [server.port] * 3 and client.role()[0] == b"master"

    def _complete(self) -> bool:
        try:
            for port in self._sentinels:
                with redis.Redis(LOCALHOST, port) as client:
                    state = client.sentinel_master(SERVICE)
                if state["num-other-sentinels"] != 2 or state["num-slaves"] != 1:
                    return False
            with redis.Redis.from_url(self.replica.url) as client:
                return bool(client.info("replication")["master_link_status"] == "up")
        except (redis.RedisError, KeyError, StopIteration):
            return False


def _lose_touch(server: RedisServer) -> None:
    """Let a replica hear nothing more from its master, who does not know the name that it gives."""
    with redis.Redis.from_url(server.url) as client:
        client.config_set("masterauth", "nothing")
        client.config_set("masteruser", "nobody")
        client.client_kill_filter(_type="master")


def _master(port: int) -> int:
    try:
        with redis.Redis(LOCALHOST, port, socket_timeout=2) as client:
            return int(client.sentinel_get_master_addr_by_name(SERVICE)[1])
    except (redis.RedisError, TypeError):
        return 0


def _sentinel(folder: Path, port: int, master: int) -> LoggedProcess:
    written = folder / "sentinel.conf"
    values = {"port": port, "host": LOCALHOST, "folder": folder, "master": master, "service": SERVICE}
    written.write_text(_CONFIGURATION.format(down=DOWN_AFTER_MS, **values))
    process = LoggedProcess([binary(), str(written), "--sentinel"], folder / "sentinel.log")
    process.launch()
    process.wait_for(lambda: _master(port) == master, 10, "the sentinel answers")
    return process


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
