"""The backend that notes reads is the project's own in all else; on a real Redis, and in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from django.core.exceptions import ImproperlyConfigured

from celery_replay import ReplayTask
from celery_replay.cache_reads import reads_in
from celery_replay.runtime import reset, use_store
from celery_replay.stores.memory import MemoryStore
from celery_replay.trace import timeline
from django_celery_replay.cache import RecordedCache

KINDS = {
    "redis": "django.core.cache.backends.redis.RedisCache",
    "memory": "django.core.cache.backends.locmem.LocMemCache",
}


@pytest.fixture(params=KINDS)
def cache(request: pytest.FixtureRequest) -> Iterator[Any]:
    location = request.getfixturevalue("clean_redis_url") if request.param == "redis" else "recorded"
    made = RecordedCache(location, {"TIMEOUT": 60, "KEY_PREFIX": "shop", "OPTIONS": {"of": KINDS[request.param]}})
    made.clear()
    yield made
    made.close()


def noted_by(body: Any) -> list[tuple[str, Any, bool, Any]]:
    """Run a body in a task, and return what its trace tells of its reads."""
    app = Celery("cached", task_cls=ReplayTask, broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(replay_store="memory://", replay_eager="record")
    store = MemoryStore()
    use_store(app, store)
    task = app.task(body, name="reads", shared=False)
    try:
        assert task.apply().successful()
        (job,) = store.find_jobs(limit=10)
        events = timeline(store, job.trace_id)
        blobs = store.blobs([event.output_ref for event in events if event.output_ref])
        return [(read.key, read.version, read.hit, read.body and read.value) for read in reads_in(events, blobs)]
    finally:
        reset(app)


def test_it_is_a_cache_of_the_project_s_own_kind_and_settings(cache: Any) -> None:
    assert isinstance(cache, (RedisCache, LocMemCache))
    assert (cache.default_timeout, cache.key_prefix) == (60, "shop")
    assert type(cache) is type(RecordedCache("x", {"OPTIONS": {"of": KINDS["memory"]}})) or isinstance(
        cache, RedisCache
    )


def test_every_way_to_read_is_noted_with_what_was_found(cache: Any) -> None:
    cache.set_many({"a": 1, "b": {"c": (1, 2)}})
    cache.set("a", 2, version=7)

    def read() -> None:
        assert (cache.get("a"), cache.get("none", "by default")) == (1, "by default")
        assert cache.get("a", version=7) == 2
        assert cache.get_many(["a", "b", "none"]) == {"a": 1, "b": {"c": (1, 2)}}
        assert "b" in cache
        assert cache.get_or_set("made", lambda: 5) == 5
        assert asyncio.run(cache.aget("made")) == 5

    assert noted_by(read)[:4] == [
        ("a", 1, True, 1), ("none", 1, False, None), ("a", 7, True, 2), ("b", 1, True, {"c": (1, 2)}),
    ]  # fmt: skip
    assert noted_by(read)[-1] == ("made", 1, True, 5)


def test_outside_of_a_task_it_is_a_cache_as_any(cache: Any) -> None:
    cache.set("a", 1)
    assert (cache.get("a"), cache.incr("a"), cache.add("a", 9), cache.delete("a"), cache.get("a")) == (
        1, 2, False, True, None,
    )  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"of": 5}, {"of": "no.such.Cache"}])
def test_a_backend_that_is_none_is_an_error_that_says_what_is_missing(options: dict[str, Any]) -> None:
    with pytest.raises(ImproperlyConfigured, match="of"):
        RecordedCache("x", {"OPTIONS": options})
