"""Runs of the store: from when it was begun, or may have lost what it knew, until that happens again.

A server that is restarted, emptied or replaced by its replica does not say so. Each connection asks when it is made,
and each step that gives something away names the run that it counts on: the server refuses it in another one.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Protocol

from ...clock import SECOND, Micros
from ...exceptions import ReplayError
from ...facts import CALM, Caution
from ...logs import logger_of
from ...serialization import digest
from . import scripts
from .links import Argument, Link

logger = logger_of(__name__)

BLOCK_US: Micros = 60 * SECOND
"""How many tokens, as microseconds of the clock, are reserved at once."""
_PAUSE_S = 10.0
"""Until a mark that could not be raised is tried again."""
_MARGIN_US: Micros = 2 * SECOND
"""For an answer that was under way, and for what was given while the clock stood still."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What a connection was told."""

    name: bytes
    caution: Caution = CALM
    since: Micros = 0
    """When grants were paused last."""


class Marks(Protocol):
    """Keeps a number in a place that does not share this store's fate; any store that can do so is one."""

    def mark(self, name: str, at_least: Micros = 0) -> Micros:
        """Raise a number that never sinks, if need be, and return what it was; 0 for one that nobody raised."""


class Reserve:
    """The tokens that may be given, as told to somebody who will remember: in blocks, since that costs him a write.

    Args:
        marks: who keeps the number; None where nobody does.
        name: of the number there.
    """

    def __init__(self, marks: Marks | None, place: str) -> None:
        self._marks = marks
        self._name = f"mark:{digest(place)}"
        self._until: Micros = 0
        self._not_before: float = 0

    def __bool__(self) -> bool:
        return self._marks is not None

    def keep_above(self, highest: Micros) -> None:
        """Reserve another block where less than half of the last one is left."""
        if self._marks is None or highest + BLOCK_US // 2 <= self._until or time.monotonic() < self._not_before:
            return
        # Whoever can't be reached may take his time to say so.
        self._not_before = time.monotonic() + _PAUSE_S
        self._marks.mark(self._name, highest + BLOCK_US)
        self._until, self._not_before = highest + BLOCK_US, 0

    def found(self) -> Micros:
        """Return the highest token that may have been given; 0 where nobody knows."""
        try:
            return self._marks.mark(self._name) if self._marks is not None else 0
        except ReplayError:
            logger.warning("replay.mark_not_read", exc_info=True)
            return 0


class Memory:
    """What a process knows of the store that the store itself may forget.

    As it has heard of the server's clock, it knows what that shows by now, so no higher token can have been given.
    """

    def __init__(self) -> None:
        self._run: Run | None = None
        self._ahead: Micros = 0

    @property
    def name(self) -> bytes:
        """The run that it knows; empty where it never met the store."""
        return self._run.name if self._run is not None else b""

    @property
    def highest(self) -> Micros | None:
        """The highest token that may have been given in that run."""
        if self._run is None:
            return None
        return max(self._run.caution.floor, _steady() + self._ahead) + _MARGIN_US

    def met(self, run: Run, now: Micros) -> None:
        """Know this run from now on; the clock of another one does not matter any more."""
        if run.name != self.name:
            self._ahead = now - _steady()
        self._run = run
        self.saw(now)

    def saw(self, now: Micros) -> None:
        """Learn what the server's clock shows."""
        self._ahead = max(self._ahead, now - _steady())


def meet(link: Link, clock: Argument, memory: Memory, reserve: Reserve, pause_us: Micros) -> Run:
    """Ask which run this is, and tell what is known of the last one.

    Args:
        pause_us: how long nobody gets a resource where this is another run.
    """

    def ask(kept: Argument) -> Any:
        highest = memory.highest
        known = memory.name, "" if highest is None else highest
        return link.call(scripts.MEET, clock, *known, kept, pause_us, os.urandom(6).hex())

    found = ask("?" if reserve else "") or ask(reserve.found() or "")
    name, now, floor, since, until, unsure = found
    ends = int(until)
    caution = Caution(floor=int(floor), leases_until=ends, tokens_until=ends if unsure else 0)
    run = Run(name=name, caution=caution, since=int(since or 0))
    memory.met(run, int(now))
    return run


def _steady() -> Micros:
    """Read a clock that nobody sets, and that goes on while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)) // 1_000
