"""What a dry run finds in the task's caches, and what it looked for in vain."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any

from ..cache_reads import CacheRead, call_of, shown_key
from ..exceptions import SnapshotUnreadable
from .variation import Cache

NOTHING = object()
_MOST = 1_000
"""Places that are told."""


class CacheRecord:
    """The recorded reads of one job, place by place; the last one of a place stays."""

    def __init__(self, mode: Cache) -> None:
        self.mode = mode
        self._unknown: dict[str, None] = {}
        self._reads: dict[str, deque[CacheRead]] = defaultdict(deque)
        self._lock = threading.Lock()

    @property
    def unknown(self) -> list[str]:
        """Say where nothing is recorded, and where what was found then is not kept."""
        return [*self._unknown]

    def take(self, reads: Iterable[CacheRead]) -> None:
        """Go over to the reads of another job."""
        with self._lock:
            self._reads.clear()
            for read in reads:
                self._reads[read.call].append(read)

    def find(self, cache: str, key: str, version: Any) -> Any:
        """Return what was found in a place then, read by read; NOTHING where nothing was, or is known.

        Raises no error for what is damaged: that is not known.
        """
        read = self._next(cache, key, version)
        if read is None or not read.hit:
            return NOTHING
        try:
            return read.value if read.body is not None else self._vain(key, cache, " (found, but not kept)")
        except SnapshotUnreadable:
            return self._vain(key, cache, " (damaged)")

    def has(self, cache: str, key: str, version: Any) -> bool:
        """Say whether something was found in a place then, whatever it was."""
        read = self._next(cache, key, version)
        return read is not None and read.hit

    def _next(self, cache: str, key: str, version: Any) -> CacheRead | None:
        with self._lock:
            recorded = self._reads.get(call_of(cache, key, version))
            if not recorded:
                self._vain(key, cache)
                return None
            return recorded.popleft() if len(recorded) > 1 else recorded[0]

    def _vain(self, key: str, cache: str, why: str = "") -> Any:
        if len(self._unknown) < _MOST:
            self._unknown[f"{shown_key(key)} of {cache}{why}"] = None
        return NOTHING
