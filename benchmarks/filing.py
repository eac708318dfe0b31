"""Many letters of one cause at once: what do the jobs of other tasks notice?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median

from tests.support.workers import ROOT, SOURCES

from .figures import Figure, figure
from .ground import Ground
from .variants import Variant

FILERS = 3
A_MINUTE = 10_000
"""Letters of one cause, by which nobody else is to be held up."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What goes on beside the jobs that are measured."""

    name: str
    kind: str
    per_minute: int = 0
    """Of all filers together; 0 is as fast as they can."""


# Those that are no letters of one cause say what of it is the machine's being busy.
LOADS = (
    Load(name=f"{A_MINUTE:,} letters of one cause a minute", kind="one cause", per_minute=A_MINUTE),
    Load(name=f"{A_MINUTE:,} jobs that succeed a minute", kind="other", per_minute=A_MINUTE),
    Load(name="letters of one cause, as fast as they come", kind="one cause"),
    Load(name="letters of 1,000 causes, as fast as they come", kind="many causes"),
)


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What other tasks' jobs noticed of a load."""

    load: Load
    done_per_minute: float
    """Letters or jobs of the load, the median over the slices."""
    job_ms: float
    """OPEN and CLOSE of another task's job, the median."""
    share: Figure
    """Of the rate that these jobs have alone."""
    late: Figure
    """Their 95th percentile over that of those that run alone."""


@dataclass(kw_only=True)
class _Slices:
    alone: list[dict[str, float]] = field(default_factory=list)
    loaded: list[dict[str, float]] = field(default_factory=list)
    done: list[float] = field(default_factory=list)


class _Hand:
    """A process that does jobs."""

    def __init__(self, env: dict[str, str], stack: ExitStack) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.filing_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            cwd=ROOT,
            text=True,
        )
        stack.callback(self._process.wait)
        stack.callback(self._process.kill)

    def begin(self, kind: str, seconds: float, rate: float = 0) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps((kind, seconds, rate)) + "\n")
        self._process.stdin.flush()

    def end(self) -> dict[str, float]:
        assert self._process.stdout is not None
        answer: dict[str, float] = json.loads(self._process.stdout.readline())
        return answer


def beside(database: str, ground: Ground, slices: int, slice_s: float, tell: Callable[[str], None]) -> list[Beside]:
    """Measure other tasks' jobs alone and beside each load in turn, in the same run."""
    with _hands(database, ground) as hands:
        for hand in hands:
            hand.begin("one cause", 1)
        for hand in hands:
            hand.end()
        found = {load.name: _Slices() for load in LOADS}
        for number in range(slices):
            for load in LOADS:
                tell(f"{database}: slice {number + 1} of {slices}, {load.name}")
                _slice(hands, load, slice_s, found[load.name])
    return [_result(load, found[load.name]) for load in LOADS]


def _slice(hands: Sequence[_Hand], load: Load, seconds: float, into: _Slices) -> None:
    own, steward, *filers = hands
    own.begin("other", seconds)
    into.alone.append(own.end())
    steward.begin("steward", seconds, 1)
    for filer in filers:
        # Before and after the jobs that are measured, so that all of them have company.
        filer.begin(load.kind, seconds + 0.2, load.per_minute / 60 / len(filers))
    time.sleep(0.1)
    own.begin("other", seconds)
    into.loaded.append(own.end())
    steward.end()
    into.done.append(sum(answer["count"] / answer["seconds"] for answer in [filer.end() for filer in filers]) * 60)


def _result(load: Load, slices: _Slices) -> Beside:
    pairs = list(zip(slices.alone, slices.loaded, strict=True))
    return Beside(
        load=load,
        done_per_minute=median(slices.done),
        job_ms=median(each["median_ms"] for each in slices.loaded),
        share=figure([b["count"] / b["seconds"] / (a["count"] / a["seconds"]) for a, b in pairs]),
        late=figure([b["late_ms"] / a["late_ms"] for a, b in pairs]),
    )


@contextmanager
def _hands(database: str, ground: Ground) -> Iterator[list[_Hand]]:
    url = ground.database_url(Variant(name="filing", about="", app="", database=database))
    env = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "benchmarks.django_settings",
        "BENCH_DATABASE_URL": url,
        "PYTHONPATH": os.pathsep.join(SOURCES),
    }
    with ExitStack() as stack:
        yield [_Hand(env, stack) for _ in range(FILERS + 2)]
