"""The steps of one attempt, as its own process knows them: what the store has not heard of yet, and who is at it."""

from __future__ import annotations

import threading
from typing import Any

from .records import StepRecord


class StepLog:
    """Remembers ends of steps; a body may call them from several threads."""

    __slots__ = ("_doing", "_known", "_lock", "_occurrences", "_unwritten", "doubts", "outputs")

    def __init__(self) -> None:
        self.doubts: set[str] = set()
        """Keys of side effects of which this attempt does not know whether they happened."""
        self.outputs: dict[str, Any] = {}
        """What steps gave, by their keys, where it could not be written down."""
        self._lock = threading.Lock()
        self._unwritten: list[StepRecord] = []
        self._known: dict[str, StepRecord] = {}
        self._occurrences: dict[str, int] = {}
        self._doing: dict[str, threading.RLock] = {}

    @property
    def unwritten(self) -> tuple[StepRecord, ...]:
        """Ends of steps that the store has not heard of."""
        return tuple(self._unwritten)

    def settled(self, step: StepRecord) -> None:
        """Buffer a step's end; it is written with CLOSE or the next flush."""
        self.doubts.discard(step.key)
        with self._lock:
            self._unwritten.append(step)
            self._known[step.key] = step

    def take(self) -> list[StepRecord]:
        """Hand over what is to be written."""
        with self._lock:
            steps, self._unwritten = self._unwritten, []
        return steps

    def put_back(self, steps: list[StepRecord]) -> None:
        """Take back what could not be written."""
        with self._lock:
            self._unwritten[:0] = steps

    def known(self, key: str) -> StepRecord | None:
        """Return how a step ended earlier in this attempt: the store may not have heard of it yet."""
        return self._known.get(key)

    def occurrence(self, base: str) -> int:
        """Count the calls of a step with the same arguments: it tells them apart, in whatever order they come."""
        with self._lock:
            self._occurrences[base] = self._occurrences.get(base, 0) + 1
            return self._occurrences[base]

    def doing(self, key: str) -> threading.RLock:
        """Let one thread of the body do a step at a time; whoever waited finds what it gave."""
        with self._lock:
            return self._doing.setdefault(key, threading.RLock())
