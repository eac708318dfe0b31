"""A dry run's caches: what was read then is there, whatever the project's own backend is. Its process ends with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.dummy import DummyCache
from django.core.cache.backends.locmem import LocMemCache

from celery_replay.dry_run.cache_record import NOTHING as NOTHING_RECORDED
from celery_replay.dry_run.cache_record import CacheRecord
from celery_replay.dry_run.variation import Cache

from .cache import NOTHING, Noting

_record = CacheRecord(Cache.SANDBOX)
_own: dict[str, set[str]] = defaultdict(set)
"""By aliases, keys that the run itself has written or deleted. Connections are per thread, this is not."""
_cleared: set[str] = set()


def use(record: CacheRecord) -> str:
    """Take this record from now on; return the name of the backend that goes by it."""
    global _record
    _record = record
    kind = BypassedCache if record.mode is Cache.BYPASS else SandboxCache
    return f"{__name__}.{kind.__name__}"


class SandboxCache(LocMemCache, Noting):
    """Has what was found then until the run writes something else."""

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        super().__init__(name, params)
        self.replay_alias = name

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """Read."""
        self._as_then(key, version)
        found = super().get(key, NOTHING, version)
        self.note(key, version, found)
        return default if found is NOTHING else found

    def has_key(self, key: Any, version: int | None = None) -> bool:
        """Look whether there is something."""
        if self._is_as_then(key, version):
            found = _record.has(self.replay_alias, str(key), self.version if version is None else version)
        else:
            found = super().has_key(key, version)
        self.note(key, version, found or NOTHING, known=False)
        return found

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """Write."""
        self._becomes_own(key, version)
        super().set(key, value, timeout, version)

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Write where there is nothing."""
        self._becomes_own(key, version, seen=True)
        return super().add(key, value, timeout, version)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Prolong."""
        self._becomes_own(key, version, seen=True)
        return super().touch(key, timeout, version)

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        """Count."""
        self._becomes_own(key, version, seen=True)
        return super().incr(key, delta, version)

    def delete(self, key: Any, version: int | None = None) -> bool:
        """Delete."""
        self._becomes_own(key, version)
        return super().delete(key, version)

    def clear(self) -> None:
        """Delete everything."""
        _cleared.add(self.replay_alias)
        super().clear()

    def _as_then(self, key: Any, version: int | None) -> None:
        """Put what was found then where it would be looked for."""
        if not self._is_as_then(key, version):
            return
        found = _record.find(self.replay_alias, str(key), self.version if version is None else version)
        if found is NOTHING_RECORDED:
            super().delete(key, version)
        else:
            super().set(key, found, None, version)

    def _is_as_then(self, key: Any, version: int | None) -> bool:
        if _record.mode is not Cache.RECORDED or self.replay_alias in _cleared:
            return False
        return self.make_key(key, version) not in _own[self.replay_alias]

    def _becomes_own(self, key: Any, version: int | None, *, seen: bool = False) -> None:
        if seen:
            self._as_then(key, version)
        _own[self.replay_alias].add(self.make_key(key, version))


class BypassedCache(DummyCache, Noting):
    """Nothing is ever found, and nothing kept."""

    def __init__(self, name: str, params: Mapping[str, Any]) -> None:
        super().__init__(name, dict(params))
        self.replay_alias = name

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """Find nothing."""
        self.note(key, version, NOTHING)
        return default

    def has_key(self, key: Any, version: int | None = None) -> bool:
        """Find nothing."""
        self.note(key, version, NOTHING, known=False)
        return False
