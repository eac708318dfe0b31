"""All that a store keeps, as text: for looking whether somebody's data is still in it."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any

import redis

from celery_replay.stores.base import Store
from celery_replay.stores.journaled import JournaledStore
from celery_replay.stores.memory import MemoryStore
from celery_replay.stores.redis import RedisStore
from celery_replay.stores.redis.codec import unpack
from celery_replay.stores.redis.jobs import context_of

_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")


def tables_with(store: Store, words: str) -> set[str]:
    """Name the tables in which these words are found, also where they are packed or encoded."""
    return {table for table, text in _texts(store) if words in text}


def _texts(store: Store) -> Iterator[tuple[str, str]]:
    rows = _rows(store)
    for table, value in rows:
        for text in _readings(value):
            yield table, text


def _rows(store: Store) -> Iterator[tuple[str, Any]]:
    if isinstance(store, MemoryStore):
        return _in_memory(store)
    if isinstance(store, JournaledStore):
        store.count_up()
        return chain(_rows(store.ledger), _rows(store.journal))
    return _in_redis(store) if isinstance(store, RedisStore) else _in_database(store)


def _in_memory(store: MemoryStore) -> Iterator[tuple[str, Any]]:
    for table, rows in vars(store._tables).items():
        for value in _leaves(rows):
            yield table, value


def _leaves(value: Any) -> Iterator[Any]:
    if is_dataclass(value):
        for field in fields(value):
            yield from _leaves(getattr(value, field.name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(key)
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


_KINDS = {
    "j": ("job", b"\n"), "l": ("letter", b"\n"), "h": ("history", b"\n"), "t": ("chunk", b"\n"), "s": ("step", b" "),
    "r": ("row", b""), "g": ("group", b""), "x": ("blob", b""),
}  # fmt: skip
"""Of keys: what is kept there, and what ends the part of a value that stands before what is packed."""


def _in_redis(store: RedisStore) -> Iterator[tuple[str, Any]]:
    with redis.Redis.from_url(store._url) as client:
        for key in client.scan_iter(f"{store._prefix}*"):
            kind = key.decode().removeprefix(store._prefix).partition(":")[0]
            table, head = _KINDS.get(kind, (kind, b""))
            for name, value in _dumped(client, key):
                packed = value.partition(head)[2] if head else value
                yield from ((table, text) for text in (key, name, value, packed))
                if kind in "jlhsrg" and packed[:1] in (b"j", b"d"):
                    data, parts = unpack(packed, context_of(value.partition(b"\n")[0]) if kind == "j" else b"")
                    yield from ((table, text) for text in (str(data), *parts))


def _dumped(client: redis.Redis, key: bytes) -> list[tuple[bytes, bytes]]:
    """Return a key's values, each with its name within the key."""
    match client.type(key):
        case b"string":
            return [(b"", client.get(key))]
        case b"hash":
            return list(client.hgetall(key).items())
        case b"zset":
            return [(name, b"") for name in client.zrange(key, 0, -1)]
        case b"set":
            return [(name, b"") for name in client.smembers(key)]
        case b"list":
            return [(b"", value) for value in client.lrange(key, 0, -1)]
        case _:
            return [pair for _, fields in client.xrange(key) for pair in fields.items()]


def _in_database(store: Any) -> Iterator[tuple[str, Any]]:
    from django.apps import apps

    from tests.support.django_stores import APP, direct_connection

    connection = direct_connection(store.alias)
    with connection.cursor() as cursor:
        for model in apps.get_app_config(APP).get_models():
            cursor.execute(f"SELECT * FROM {model._meta.db_table}")
            for row in cursor.fetchall():
                for value in row:
                    yield model.__name__, value
    connection.close()


def _readings(value: Any) -> Iterator[str]:
    """Yield a value as text, and what is packed into it."""
    if isinstance(value, (bytes, memoryview)):
        body = bytes(value)
        if body[:1] == b"z":
            body = zlib.decompress(body[1:])
        value = body.decode("latin-1")
    text = str(value)
    yield text
    for encoded in _BASE64.findall(text):
        try:
            yield base64.b64decode(encoded, validate=True).decode("latin-1")
        except ValueError:
            continue
