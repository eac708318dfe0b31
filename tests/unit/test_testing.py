from __future__ import annotations

from celery import Celery

from celery_replay.runtime import runtime_of
from celery_replay.stores.memory import MemoryStore
from celery_replay.testing import memory_store


def app(**settings: object) -> Celery:
    return Celery("shop", broker="memory://", set_as_current=False, changes={"replay_store": "memory://", **settings})


def test_each_block_begins_with_no_records_and_gives_the_store_back() -> None:
    shop = app()
    own = runtime_of(shop).store

    with memory_store(shop) as first, memory_store(shop) as second:
        assert runtime_of(shop).store is second
        assert len({id(own), id(first), id(second)}) == 3

    assert runtime_of(shop).store is own


def test_a_store_that_was_never_opened_is_not_opened_by_that() -> None:
    shop = app(replay_store="nowhere.module:Store")
    with memory_store(shop) as store:
        assert isinstance(store, MemoryStore)
    assert runtime_of(shop)._store is None
