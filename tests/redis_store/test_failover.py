"""A store under Sentinel whose master dies: what the next one was not told, and what is promised all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from celery_replay.admission import Ask
from celery_replay.clock import SECOND
from celery_replay.exceptions import StoreUnavailable
from celery_replay.records import Job
from celery_replay.states import Outcome, Reason, Verdict
from celery_replay.stores.redis import RedisStore
from tests.django_store.builders import ask, ending
from tests.end_to_end.stage import wait_for
from tests.support.redis_server import faketime_library
from tests.support.redis_stores import make_redis_store
from tests.support.watched_redis import SERVICE, WatchedRedis

ORDER = "order:7"
SKEW_S = -90.0
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(faketime_library() is None, reason="needs libfaketime for a clock that is behind"),
]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WatchedRedis]:
    """Lend two servers, of which the one in reserve has a clock that is behind."""
    with ExitStack() as stack:
        yield WatchedRedis(tmp_path, stack, "--save", "", skew_s=SKEW_S)


def process(watched: WatchedRedis) -> RedisStore:
    return make_redis_store(watched.url, prefix="one", master_name=SERVICE, lease_ttl_max=3)


def opened(store: RedisStore, of: Ask) -> Job:
    found = wait_for(lambda: _tried(store, of), "the next master")
    assert found.verdict is Verdict.RUN
    job = found.facts.job
    assert job is not None
    return job


def _tried(store: RedisStore, of: Ask):  # type: ignore[no-untyped-def]
    try:
        return store.open(of)
    except StoreUnavailable:
        return None


def test_a_store_is_found_again_after_a_failover_and_tokens_go_on_rising(watched: WatchedRedis) -> None:
    store, newcomer = process(watched), process(watched)
    first = ask("first", "key")
    holder = ask("holder", nonce="h", resources=(ORDER,))
    before = opened(store, first)
    token = store.open(holder).facts.places[0].lease.fence
    store.close(before, ending(first, Outcome.FAILED))
    watched.fail_over()
    # Its clock says that all this is yet to come.
    after = opened(store, ask("second", "key"))
    assert after.fence > before.fence
    assert newcomer.now() < before.fence
    # The lease was not lost, but that nobody can know.
    assert store.open(ask("next", resources=("order:8",))).reason is Reason.GRANTS_PAUSED
    lease = store.lease(ORDER)
    assert lease is not None
    assert (lease.nonce, lease.fence) == ("h", token)


def test_what_the_next_master_was_not_told_is_guarded_by_tokens_that_go_on_rising(watched: WatchedRedis) -> None:
    store = process(watched)
    store.now()
    wait_for(lambda: watched.replica and store.overview(), "the replica's keys")
    given: list[Job] = []
    holder = ask("holder", nonce="h", resources=(ORDER,))

    def meanwhile() -> None:
        given.append(opened(store, ask("lost", "key")))
        given.append(opened(store, holder))

    watched.fail_over(lag_s=0.5, meanwhile=meanwhile)
    again = opened(store, ask("again", "key"))
    assert store.job("lost") is None
    assert again.fence > given[0].fence
    other = ask("other", nonce="o", resources=(ORDER,))
    assert store.open(other).reason is Reason.GRANTS_PAUSED
    (freed,) = wait_for(store.release_due, "the end of the pause")
    assert freed.submission == "other"
    admission = store.open(other)
    assert admission.verdict is Verdict.RUN
    assert admission.facts.places[0].lease.fence > given[1].fence
    assert store.now() < given[1].fence - 60 * SECOND
