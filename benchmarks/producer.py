"""What `apply_async` costs with celery-replay, beside without it, in one process."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis
from celery import Celery

from celery_replay import ReplayTask, signal_handlers

from .figures import Figure, figure

SIZES_KB = {0.2: 40, 1: 40, 9: 25, 90: 8}
"""Kilobytes of payload, and how many messages of them are sent at a time."""
KINDS = ("nothing declared", "a key declared")
QUEUE = "bench-producer"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Time of `apply_async` over plain Celery's, at one size of payload."""

    kind: str
    size_kb: float
    plain_us: float
    ratio: Figure
    added_us: Figure


def payload(size_kb: float) -> list[dict[str, Any]]:
    """Return rows of an order, as JSON about this large."""
    row = {
        "sku": "A-1047-blue",
        "name": "Größe M, dark blue",
        "quantity": 3,
        "price": 19.9,
        "discount": None,
        "in_stock": True,
        "tags": ["new", "sale"],
        "supplier": {"id": 1204, "city": "Rotterdam"},
    }
    count = max(1, round(size_kb * 1024 / 190))
    return [{**row, "line": number} for number in range(count)]


def measure(broker_url: str, rounds: int, tell: Callable[[str], None]) -> list[Cost]:
    """Measure all sizes, in rounds of a random order."""
    tasks = _tasks(broker_url)
    times: dict[tuple[str, float], list[float]] = {}
    with redis.Redis.from_url(broker_url) as client:
        for number in range(rounds + 1):
            for size_kb, count in SIZES_KB.items():
                data = payload(size_kb)
                for kind in random.sample(list(tasks), len(tasks)):
                    spent = _publish(tasks[kind], data, count, ours=kind != "plain")
                    if number:  # the first round is the warm-up
                        times.setdefault((kind, size_kb), []).append(spent)
            client.delete(QUEUE)
            tell(f"producer: round {number} of {rounds}")
    signal_handlers.disconnect()
    return [_cost(times, kind, size_kb) for kind in KINDS for size_kb in SIZES_KB]


def _tasks(broker_url: str) -> dict[str, Any]:
    def app() -> Celery:
        made = Celery("bench", broker=broker_url, set_as_current=False)
        made.conf.update(task_ignore_result=True, task_default_queue=QUEUE, replay_store="memory://")
        return made

    def job(number: int, lines: list[dict[str, Any]]) -> None:
        pass

    plain = app().task(job, name="benchmarks.plain")
    ours = app()
    ours.set_current()
    base = ours.task(job, name="benchmarks.base", base=ReplayTask)
    keyed = ours.task(job, name="benchmarks.keyed", base=ReplayTask, idempotency_key="job:{number}")
    made = dict(zip(("plain", *KINDS), (plain, base, keyed), strict=True))
    for task in made.values():
        task.app.finalize()
    return made


def _publish(task: Any, data: list[dict[str, Any]], count: int, *, ours: bool) -> float:
    # Signals belong to the process, not to an app.
    if ours:
        signal_handlers.connect()
    else:
        signal_handlers.disconnect()
    begun = time.perf_counter()
    for number in range(count):
        task.apply_async((number, data))
    return (time.perf_counter() - begun) / count * 1e6


def _cost(times: dict[tuple[str, float], list[float]], kind: str, size_kb: float) -> Cost:
    ours, plain = times[kind, size_kb], times["plain", size_kb]
    return Cost(
        kind=kind,
        size_kb=size_kb,
        plain_us=sorted(plain)[len(plain) // 2],
        ratio=figure([a / b for a, b in zip(ours, plain, strict=True)]),
        added_us=figure([a - b for a, b in zip(ours, plain, strict=True)]),
    )
