"""Redis stores: each with keys of its own in a database that the tests may empty."""

from __future__ import annotations

from collections.abc import Callable
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
