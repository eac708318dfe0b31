"""Time slices: all workers are up and warm, one runs at a time, each beside plain Celery.

A shared machine is at times twice as slow as at others. Two runs one after the other would compare its moods; two
slices beside each other see the same one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from .contestants import Contestant, Slice
from .figures import Figure, figure
from .ground import Ground
from .variants import PLAIN, Variant


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long and how often is measured."""

    pairs: int = 60
    """Slices per variant."""
    slice_s: float = 0.5
    warm_up_s: float = 2.0
    between: int = 3
    """A slice of plain Celery comes after so many others."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One variant against plain Celery."""

    variant: Variant
    pool: str
    body_ms: int
    rate: float
    """Tasks per second, the median over its slices: of this machine, at this time."""
    share: Figure
    """Of plain Celery's rate."""
    cpu_share: Figure
    """Plain Celery's CPU time per task over this one's."""
    added_us: Figure
    """Time per task over plain Celery's."""
    reads: float
    """Redis round trips per task."""
    slices: int


@dataclass(kw_only=True)
class _Lane:
    """All slices in the order in which they were run."""

    names: list[str] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)

    def add(self, name: str, measured: Slice) -> None:
        self.names.append(name)
        self.slices.append(measured)

    def pairs(self, name: str) -> Iterator[tuple[Slice, list[Slice]]]:
        """Yield a variant's slices, each with the slices of plain Celery before and after it."""
        for index, (owner, measured) in enumerate(zip(self.names, self.slices, strict=True)):
            if owner != name:
                continue
            before = self._plain(range(index - 1, -1, -1))
            after = self._plain(range(index + 1, len(self.names)))
            if before and after:
                yield measured, [before, after]

    def _plain(self, where: range) -> Slice | None:
        return next((self.slices[i] for i in where if self.names[i] == PLAIN), None)


def race(
    variants: Sequence[Variant],
    pool: str,
    body_ms: int,
    plan: Plan,
    ground: Ground,
    tell: Callable[[str], None],
) -> list[Standing]:
    """Measure variants, the first of which is plain Celery, in one pool with one body."""
    with _started(variants, pool, body_ms, plan, ground, tell) as contestants:
        lane = _run(contestants, plan, tell)
    return [_standing(variant, pool, body_ms, lane) for variant in variants]


@contextmanager
def _started(
    variants: Sequence[Variant],
    pool: str,
    body_ms: int,
    plan: Plan,
    ground: Ground,
    tell: Callable[[str], None],
) -> Iterator[list[Contestant]]:
    with ExitStack() as stack:
        contestants = []
        for variant in variants:
            tell(f"{pool}, body {body_ms} ms: starting {variant.name}")
            contestant = Contestant(variant, pool, body_ms, ground)
            stack.callback(contestant.end)
            contestant.start(plan.warm_up_s)
            contestants.append(contestant)
        yield contestants


def _run(contestants: list[Contestant], plan: Plan, tell: Callable[[str], None]) -> _Lane:
    lane = _Lane()
    plain, others = contestants[0], contestants[1:]
    chance = random.Random()
    begun = time.monotonic()
    lane.add(PLAIN, plain.run(plan.slice_s))
    for number in range(plan.pairs):
        chance.shuffle(others)
        for start in range(0, max(1, len(others)), plan.between):
            for contestant in others[start : start + plan.between]:
                lane.add(contestant.variant.name, contestant.run(plan.slice_s))
            lane.add(PLAIN, plain.run(plan.slice_s))
        left = (time.monotonic() - begun) / (number + 1) * (plan.pairs - number - 1)
        tell(f"{plain.pool}: round {number + 1} of {plan.pairs}, {left:.0f} s left")
    return lane


def _standing(variant: Variant, pool: str, body_ms: int, lane: _Lane) -> Standing:
    shares, cpu_shares, added, own = [], [], [], []
    for measured, beside in lane.pairs(variant.name):
        plain_time = sum(1 / s.rate for s in beside) / len(beside)
        plain_cpu = sum(s.cpu_per_task for s in beside) / len(beside)
        shares.append(measured.rate * plain_time)
        cpu_shares.append(plain_cpu / measured.cpu_per_task)
        added.append((1 / measured.rate - plain_time) * 1e6)
        own.append(measured)
    middle = sorted(own, key=lambda s: s.rate)[len(own) // 2]
    return Standing(
        variant=variant,
        pool=pool,
        body_ms=body_ms,
        rate=middle.rate,
        share=figure(shares),
        cpu_share=figure(cpu_shares),
        added_us=figure(added),
        reads=sum(s.reads for s in own) / sum(s.tasks for s in own),
        slices=len(own),
    )
