"""Stores in the session's Redis database, and what the server says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import redis

from celery_replay.stores.redis import RedisStore
from tests.support import redis_stores
from tests.support.redis_server import RedisServer

Watch = Callable[[RedisServer], AbstractContextManager[list[str]]]


@pytest.fixture
def store(clean_redis_url: str) -> Iterator[RedisStore]:
    """Lend an empty store."""
    yield redis_stores.make_redis_store(clean_redis_url)
    redis_stores.close_stores(clean_redis_url)


@pytest.fixture
def private_store(private_redis: RedisServer) -> Iterator[RedisStore]:
    """Lend an empty store on a server of its own."""
    made = redis_stores.make_redis_store(private_redis.url)
    yield made
    made.close_connections()


@pytest.fixture
def server(private_redis: RedisServer) -> Iterator[redis.Redis]:
    """Lend a client of the test's own server."""
    with redis.Redis.from_url(private_redis.url) as client:
        yield client


@contextmanager
def round_trips(client: redis.Redis) -> Iterator[Callable[[], int]]:
    """Count what the server reads from its other clients: each read is a round trip."""

    def reads() -> int:
        found: Any = client.info("stats")
        return int(found["total_reads_processed"])

    before = reads()
    # Each look at the counter is a round trip, too.
    yield lambda: reads() - before - 1
