"""Beats a stage: faults of every kind in a random order that a seed repeats."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import psutil
import psycopg
import redis

from tests.end_to_end.stage import Stage
from tests.end_to_end.wire import put, take
from tests.support.redis_server import RedisServer
from tests.support.watched_redis import WatchedRedis
from tests.support.workers import WorkerProcess


class Chaos:
    """Faults for the workers of a stage, their broker and their store.

    Args:
        seed: of the order and the times of the faults; the same one makes the same schedule again.
        broker: a server of the stage's own.
        store: where the stage's store is, if that is a Redis of its own.
        lease_s: how long leases last; pauses are longer and shorter than that.
    """

    KINDS: ClassVar[Mapping[str, str]] = {
        "kill a child": "kill_child",
        "kill a parent": "kill_parent",
        "kill a machine": "kill_machine",
        "kill a steward": "kill_steward",
        "freeze a worker": "freeze_worker",
        "freeze a child": "freeze_child",
        "cut the broker's connections": "cut_broker",
        "cut the store's connections": "cut_store",
        "restart the broker": "restart_broker",
    }
    """Faults after which nothing may be missing."""
    LOSSES: ClassVar[Mapping[str, str]] = {"wipe the store": "wipe_store"}
    """Faults that take away what the store knew."""
    TROUBLES: ClassVar[Mapping[str, str]] = {
        "fill the store": "fill_store",
        "let the store take no writes": "stop_writes",
    }
    """Faults of a Redis of its own, which forgets nothing by them."""
    CHANGES: ClassVar[Mapping[str, str]] = {
        "restart the store": "restart_store",
        "restart the store without what it knew": "empty_store",
        "fail the store over": "fail_over",
        "fail the store over to one that was not told everything": "fail_over_late",
    }
    """Faults of a Redis under sentinels that may lose what it knew."""

    def __init__(
        self, stage: Stage, broker: RedisServer, seed: int, lease_s: float, store: WatchedRedis | None = None
    ) -> None:
        self.done: list[str] = []
        """What was done, with seconds from the start, for the report of a failure."""
        self._stage = stage
        self._broker = broker
        self._store = store
        self._random = random.Random(seed)
        self._lease_s = lease_s
        self._began = time.monotonic()

    def schedule(self, count: int, names: Sequence[str] = ()) -> Iterator[str]:
        """Choose so many faults, each kind about as often as the others."""
        kinds = list(names or self.KINDS)
        while count > 0:
            self._random.shuffle(kinds)
            yield from kinds[:count]
            count -= len(kinds)

    def beat(self, count: int, pause_s: float = 0.8, names: Sequence[str] = ()) -> None:
        """Let so many faults happen, one after the other."""
        for name in self.schedule(count, names):
            time.sleep(self._random.uniform(0.1, 2 * pause_s))
            self.done.append(f"{time.monotonic() - self._began:.1f} s {name}")
            getattr(self, {**self.KINDS, **self.LOSSES, **self.TROUBLES, **self.CHANGES}[name])()

    def copies(self, publish: Callable[[str], Any], count: int) -> None:
        """Publish to a queue that nobody consumes, and put each message on the real one several times."""
        source = f"{self._stage.queue}-source"
        publish(source)
        for message in self._stage.web(take, source, count):
            self._stage.web(put, self._stage.queue, *[message] * self._random.randint(2, 4))

    # Faults

    def kill_child(self) -> None:
        """As an out-of-memory killer does."""
        for pid in self._child():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_parent(self) -> None:
        """Its children live on for a moment."""
        worker = self._worker()
        worker.kill_parent()
        self._revive(worker)

    def kill_machine(self) -> None:
        """All at once."""
        worker = self._worker()
        worker.kill()
        self._revive(worker)

    def kill_steward(self) -> None:
        """The worker spawns another one."""
        worker = self._worker()
        for process in worker.descendants():
            with suppress(psutil.Error):
                if "steward" in " ".join(process.cmdline()):
                    process.kill()

    def freeze_worker(self) -> None:
        """For less than a lease, or for more: then it wakes up as a zombie."""
        worker = self._worker()
        worker.pause()
        time.sleep(self._pause_s())
        worker.resume()

    def freeze_child(self) -> None:
        """Its parent goes on, and renews the lease of its message."""
        for pid in self._child():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(self._pause_s())
                os.kill(pid, signal.SIGCONT)

    def cut_broker(self) -> None:
        """All connections that there are; new ones are welcome."""
        with redis.Redis.from_url(self._broker.url) as client:
            for kind in ("normal", "pubsub"):
                client.client_kill_filter(_type=kind, skipme=True)

    def cut_store(self) -> None:
        """All connections to the store and to the database, the tasks' own as well; the broker has its own fate."""
        for server in self._servers():
            with redis.Redis.from_url(server.url) as client:
                client.client_kill_filter(_type="normal", skipme=True)
        with psycopg.connect(self._stage.database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    def wipe_store(self) -> None:
        """All that a store in Redis knows, as after a restart without persistence."""
        url = self._store.master.url if self._store else self._stage.settings["replay_store"]
        with redis.Redis.from_url(url) as client:
            client.flushdb()

    def fill_store(self) -> None:
        """It keeps what it has, and takes nothing more for a while."""
        self._for_a_while("maxmemory", 1, 0)

    def stop_writes(self) -> None:
        """As one does that has too few replicas, or was cut off from its disk."""
        self._for_a_while("min-replicas-to-write", 9, 0)

    def _for_a_while(self, setting: str, wrong: int, right: int) -> None:
        for value in (wrong, right):
            for server in self._servers():
                with redis.Redis.from_url(server.url) as client:
                    client.config_set(setting, value)
            time.sleep(self._pause_s() if value == wrong else 0)

    def restart_store(self) -> None:
        """It keeps what it was told, and nobody can know that. The sentinels may be quicker."""
        assert self._store is not None
        server = self._store.master
        server.stop()
        server.start()
        self._store.settle()

    def empty_store(self) -> None:
        """Both servers begin anew."""
        assert self._store is not None
        self._store.empty()

    def fail_over(self) -> None:
        """The replica has heard nearly everything."""
        assert self._store is not None
        self._store.fail_over()

    def fail_over_late(self) -> None:
        """The replica has heard nothing for a while."""
        assert self._store is not None
        self._store.fail_over(lag_s=self._random.uniform(0.3, 1.5))

    def _servers(self) -> list[RedisServer]:
        return self._store.servers if self._store else []

    def restart_broker(self) -> None:
        """It keeps what it was told."""
        self._broker.stop()
        time.sleep(self._random.uniform(0, 1))
        self._broker.start()

    # Choices

    def _worker(self) -> WorkerProcess:
        return self._random.choice(self._stage.workers.started)

    def _child(self) -> list[int]:
        pids = self._worker().pool_pids()
        return [self._random.choice(pids)] if pids else []

    def _pause_s(self) -> float:
        return self._random.uniform(0.3, 2.0) * self._lease_s

    def _revive(self, worker: WorkerProcess) -> None:
        time.sleep(self._random.uniform(0, 0.5))
        # What was left of it has had its moment.
        worker.kill()
        worker.start()
