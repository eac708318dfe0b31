"""Medians of paired ratios, with the interval that they may lie in."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A median with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def shown(self, digits: int = 2) -> str:
        """Write it as `0.66 (0.62 to 0.71)`."""
        return f"{self.value:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def figure(values: Sequence[float], resamples: int = 2000) -> Figure:
    """Return the median of values and where it may lie."""
    chance = random.Random(len(values))
    medians = sorted(median(chance.choices(values, k=len(values))) for _ in range(resamples))
    low, high = medians[int(resamples * 0.025)], medians[int(resamples * 0.975)]
    return Figure(value=median(values), low=low, high=high)
