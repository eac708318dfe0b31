"""Redis stores: each with keys of its own in a database that the tests may empty."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import count
from typing import Any

from celery_replay.clock import Micros
from celery_replay.stores.redis import RedisStore
from tests.support import redis_server

_numbers = count()
_stores: list[RedisStore] = []


def make_redis_store(url: str, now: Callable[[], Micros] | None = None, **options: Any) -> RedisStore:
    """Return an empty store.

    Args:
        url: the server and database.
        now: replaces the server's clock.
        options: those of the store.
    """
    store = RedisStore(url, now=now, **{"prefix": f"replay-{next(_numbers)}", **options})
    _stores.append(store)
    return store


def close_stores(url: str) -> None:
    """Close the connections of all stores that were made here, and delete what they have."""
    while _stores:
        _stores.pop().close_connections()
    redis_server.flush(url)


def copied(store: RedisStore, now: Callable[[], Micros]) -> RedisStore:
    """Return a store with the same records, over the same connections."""
    twin = copy(store)
    twin._now = now
    twin._prefix = f"{{replay-{next(_numbers)}}}:"
    twin._pool = _Relabelled(store._pool, twin._prefix)  # type: ignore[assignment]
    store._pool = _Relabelled(store._pool, store._prefix)  # type: ignore[assignment]
    store._run(lambda link: link.ask("EVAL", _COPY, 0, store._prefix, twin._prefix))
    return twin


def forget(store: RedisStore) -> None:
    """Delete a store's records."""
    store._run(lambda link: link.ask("EVAL", _FORGET, 0, store._prefix))


_COPY = """
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  redis.call('COPY', key, ARGV[2] .. string.sub(key, #ARGV[1] + 1))
end
"""
_FORGET = """
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  -- Else it would be a store that has lost what it knew.
  if key ~= ARGV[1] .. 'run' and key ~= ARGV[1] .. 'runs' then redis.call('DEL', key) end
end
"""


class _Relabelled:
    """Lends another store's connections, for keys of one's own."""

    def __init__(self, pool: Any, prefix: str) -> None:
        self._pool = getattr(pool, "_pool", pool)
        self._prefix = prefix.encode()

    def take(self, fresh: bool = False) -> Any:
        link = self._pool.take(fresh)
        link.prefix = self._prefix
        return link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)
