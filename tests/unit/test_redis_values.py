"""Values in Redis with a fencing token, on a real server."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import redis.asyncio

from celery_replay import ConfigurationError, FenceRefused
from celery_replay.contrib.redis_values import FENCE_TTL_S, fence_key, fenced_delete, fenced_set

LARGE = 1 << 62


@pytest.fixture(params=[False, True], ids=["bytes", "text"])
def client(request, clean_redis_url):
    with redis.Redis.from_url(clean_redis_url, decode_responses=request.param) as client:
        yield client


def value(client, key="stock"):
    found = client.get(key)
    return found.encode() if isinstance(found, str) else found


def test_a_newer_token_refuses_older_ones(client):
    fenced_set(client, "stock", "five", 5)
    fenced_set(client, "stock", "five again", 5)

    with pytest.raises(FenceRefused, match=r"'stock' in Redis has seen a newer owner than token 4 \[fence-refused\]"):
        fenced_set(client, "stock", "four", 4)

    assert value(client) == b"five again"
    fenced_set(client, "stock", b"\x00\xff" if not client.get_encoder().decode_responses else "six", 6)
    fenced_set(client, "other", 1, 1)
    assert value(client, "other") == b"1"


@pytest.mark.parametrize(("newer", "older"), [(10, 9), (LARGE + 1, LARGE), (1 << 53, (1 << 53) - 1)])
def test_tokens_are_compared_as_numbers_and_exactly(client, newer, older):
    fenced_set(client, "stock", "new", newer)

    with pytest.raises(FenceRefused):
        fenced_set(client, "stock", "old", older)


def test_an_older_owner_cannot_bring_back_what_a_newer_one_deleted(client):
    fenced_set(client, "stock", "one", 1)

    assert fenced_delete(client, "stock", 2) is True
    with pytest.raises(FenceRefused):
        fenced_set(client, "stock", "zombie", 1)
    with pytest.raises(FenceRefused):
        fenced_delete(client, "stock", 1)
    assert fenced_delete(client, "stock", 2) is False
    assert value(client) is None


def test_the_token_outlives_the_value(client):
    fenced_set(client, "stock", "one", 1, ttl_s=30)
    fenced_set(client, "forever", "one", 1, fence_ttl_s=None)

    assert 29_000 < client.pttl("stock") <= 30_000
    assert client.ttl(fence_key("stock")) > FENCE_TTL_S - 5
    assert client.ttl(fence_key("forever")) == client.ttl("forever") == -1
    fenced_set(client, "stock", "two", 2)
    assert client.ttl("stock") == -1


@pytest.mark.parametrize("key", ["stock", "{shop}:stock", "a{b", "shop:{stock}:{x}"])
def test_the_token_is_in_the_same_slot_of_a_cluster(key):
    from redis.crc import key_slot

    assert key_slot(fence_key(key).encode()) == key_slot(key.encode())
    assert fence_key(key) != key


def test_of_many_at_once_the_newest_stays(client):
    start = threading.Barrier(8)

    def write(token):
        start.wait(5)
        try:
            fenced_set(client, "stock", str(token), token)
        except FenceRefused:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(write, range(1, 9))) >= 1

    assert value(client) == value(client, fence_key("stock")) == b"8"


def test_a_script_that_the_server_forgot_is_sent_again(private_redis):
    with redis.Redis.from_url(private_redis.url) as client:
        fenced_set(client, "stock", "one", 1)
        client.script_flush()
        fenced_set(client, "stock", "two", 2)
        assert client.get("stock") == b"two"


def test_clients_that_would_not_answer_are_refused(client, clean_redis_url):
    with client.pipeline() as pipeline, pytest.raises(ConfigurationError, match="no pipeline"):
        fenced_set(pipeline, "stock", "one", 1)

    async def asynchronous():
        async with redis.asyncio.Redis.from_url(clean_redis_url) as waiting:
            with pytest.raises(ConfigurationError, match="asynchronous"):
                fenced_set(waiting, "stock", "one", 1)

    asyncio.run(asynchronous())
    assert client.dbsize() == 0


@pytest.mark.parametrize("token", [None, -1, True, "5", 1.5], ids=repr)
def test_what_is_no_token_is_refused(client, token):
    with pytest.raises(ConfigurationError, match="must be a fencing token"):
        fenced_set(client, "stock", "one", token)
