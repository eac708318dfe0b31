"""How long to wait before the next attempt."""

from __future__ import annotations

import math
import random
from enum import Enum


class Jitter(str, Enum):
    """How delays are spread, so that jobs that failed together do not come back together."""

    FULL = "full"
    """Anything from nothing up to the backoff."""
    DECORRELATED = "decorrelated"
    """Anything from the first delay up to three times the last one."""
    NONE = "none"
    """The backoff itself: whatever failed together comes back together."""

    def __str__(self) -> str:
        return str(self.value)


def backoff_s(first_s: float, factor: float, cap_s: float, attempt: int) -> float:
    """Return the delay after an attempt, the first being 1: exponential, never above the cap, however late it is."""
    if factor <= 1 or first_s <= 0:
        return min(first_s, cap_s)
    # By its logarithm: the power itself has no float after some thousand attempts.
    if math.log(first_s) + (attempt - 1) * math.log(factor) >= math.log(cap_s):
        return cap_s
    return first_s * factor ** (attempt - 1)


def delay_s(jitter: Jitter, first_s: float, factor: float, cap_s: float, attempt: int, seed: str) -> float:
    """Return how long to wait after an attempt.

    Args:
        seed: the same gives the same delay, another one another: the submission's id.
    """
    chance = random.Random(f"{seed}:{attempt}" if jitter is Jitter.FULL else seed)
    if jitter is Jitter.FULL:
        return chance.uniform(0, backoff_s(first_s, factor, cap_s, attempt))
    if jitter is Jitter.NONE:
        return backoff_s(first_s, factor, cap_s, attempt)
    last = first_s
    # The delays before are those that the same seed gave: none has to be kept.
    for _ in range(min(attempt, _STEPS)):
        last = min(cap_s, chance.uniform(first_s, last * 3))
    return last


_STEPS = 1_000
