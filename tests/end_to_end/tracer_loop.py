"""Runs a task over and over through Celery's own tracer in this process, and says what memory it holds on the way.

A process of its own for `test_memory.py`: what a test session does with its memory must not show. The store keeps what
it is told to keep, so the one in memory forgets everything old now and then.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import psutil
from celery import Celery
from celery.app.trace import build_tracer

from celery_replay import ReplayTask, clock, record
from celery_replay.runtime import runtime_of, use_store
from celery_replay.stores.memory import MemoryStore

FORGET_EVERY = 500
DAY = 86_400 * clock.SECOND

app = Celery("loop", broker="memory://", task_cls=ReplayTask)
app.conf.update(task_ignore_result=True, replay_store="memory://", replay_retention=60, replay_flush_interval=0.05)


@app.task(name="looped", idempotency_key="loop:{number}", on_incomplete="resume")
def looped(number: int, payload: list[str]) -> dict[str, int]:
    """Do next to nothing."""
    record("computed", number=number)
    return {"number": number}


class Loop:
    """A worker's child without the worker."""

    def __init__(self) -> None:
        self._ahead = 0
        self._store = MemoryStore(now=lambda: clock.wall() + self._ahead)
        use_store(app, self._store)
        self._trace = build_tracer(looped.name, looped, app=app)
        self._done = 0

    def run(self, until: int) -> None:
        """Run tasks until so many are done."""
        while self._done < until:
            self._run_one()
            self._done += 1
            if self._done % FORGET_EVERY == 0:
                self._forget()

    def _run_one(self) -> None:
        task_id = clock.new_id()
        args = (self._done, [f"{self._done}-{i}" for i in range(5)])
        outcome = self._trace(task_id, args, {}, _request(task_id))
        if outcome[1] is not None:
            raise RuntimeError(f"the task failed: {outcome[1]}")

    def _forget(self) -> None:
        runtime_of(app).heartbeat.drain()
        self._ahead += DAY
        while self._store.prune(FORGET_EVERY):
            pass


def _request(task_id: str) -> dict[str, Any]:
    names = ("args", "kwargs", "callbacks", "errbacks", "chain", "chord", "reply_to", "expires", "eta")
    return {
        **dict.fromkeys(names),
        "id": task_id,
        "root_id": task_id,
        "correlation_id": task_id,
        "task": looped.name,
        "lang": "py",
        "retries": 0,
        "is_eager": False,
        "hostname": "loop@localhost",
        "content_type": "application/json",
        "delivery_info": {"exchange": "", "routing_key": "celery", "priority": 0, "redelivered": False},
        "replay_received_at": clock.wall(),
        "celery_replay": {"v": 1, "s": clock.new_id(), "t": clock.new_id(), "a": clock.wall()},
    }


def main(marks: list[int]) -> None:
    """Print, for each mark, the bytes that are resident and the blocks that Python has allocated."""
    loop, found = Loop(), []
    for mark in marks:
        loop.run(mark)
        gc.collect()
        found.append((psutil.Process().memory_info().rss, sys.getallocatedblocks()))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main([int(mark) for mark in sys.argv[1:]])
