"""What celery-replay may cost, and whether it does."""

from __future__ import annotations

from dataclasses import dataclass

JOB_BYTES = 700
"""In Redis, of a finished job with its result and ten events, without a key."""
FLAT = 0.95
"""Share of the rate beside a thousand finished jobs, at least, beside a million."""

NOISE = {"prefork": 0.10, "solo": 0.05, "threads": 0.05}
"""Shares that differ by less between two runs of the same code, by pool."""
PRODUCER_NOISE = 0.02


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A share of plain Celery's rate."""

    least: float
    aim: float


SHARES = {
    ("base-redis", "prefork", 0): Budget(least=0.95, aim=1.0),
    ("base-redis", "solo", 0): Budget(least=0.72, aim=0.80),
    ("full-redis", "prefork", 0): Budget(least=0.90, aim=1.0),
    ("full-redis", "solo", 0): Budget(least=0.65, aim=0.76),
    ("full-redis", "threads", 0): Budget(least=0.65, aim=0.76),
    ("full-redis", "solo", 10): Budget(least=0.93, aim=0.95),
    ("full-redis", "solo", 50): Budget(least=0.97, aim=0.99),
    ("full-pg-off", "prefork", 0): Budget(least=0.60, aim=0.66),
    ("full-pg-on", "prefork", 0): Budget(least=0.40, aim=0.45),
}
"""By variant, pool and milliseconds of body."""

PRODUCER = {1: 1.05, 90: 1.12}
"""Time of `apply_async` over plain Celery's, at most, by kilobytes of payload, for a task that declares a key."""


def judge_share(share: float, pool: str, budget: Budget) -> str:
    """Say whether a share meets its budget: met, noise (missed by less than the measurement's own spread) or missed."""
    if share >= budget.least:
        return "met"
    return "noise" if share >= budget.least - NOISE[pool] else "missed"


def judge_producer(ratio: float, most: float) -> str:
    """Say whether the producer's ratio meets its budget."""
    if ratio <= most:
        return "met"
    return "noise" if ratio <= most + PRODUCER_NOISE else "missed"
