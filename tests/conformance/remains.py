"""All that a store keeps, as text: for looking whether somebody's data is still in it."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from celery_replay.stores.base import Store
from celery_replay.stores.memory import MemoryStore

_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")


def tables_with(store: Store, words: str) -> set[str]:
    """Name the tables in which these words are found, also where they are packed or encoded."""
    return {table for table, text in _texts(store) if words in text}


def _texts(store: Store) -> Iterator[tuple[str, str]]:
    rows = _in_memory(store) if isinstance(store, MemoryStore) else _in_database(store)
    for table, value in rows:
        for text in _readings(value):
            yield table, text


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
