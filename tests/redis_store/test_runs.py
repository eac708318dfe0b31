"""A Redis that may have lost what it knew: who waits, who goes on, and which tokens are given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from celery_replay.admission import Admission, Ask
from celery_replay.clock import SECOND, Micros, wall
from celery_replay.exceptions import StoreUnavailable
from celery_replay.records import Row
from celery_replay.states import Outcome, Reason, RowStatus, Verdict
from celery_replay.stores.base import Pulse
from celery_replay.stores.memory import MemoryStore
from celery_replay.stores.redis import RedisStore
from tests.conformance.world import Clock
from tests.django_store.builders import ask, ending
from tests.end_to_end.stage import wait_for
from tests.support.redis_server import RedisServer
from tests.support.redis_stores import make_redis_store

PAUSE_S = 600
ORDER = "order:7"
HOUR: Micros = 3600 * SECOND


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[RedisServer]:
    """Lend a server that keeps all that it is told."""
    server = RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always", "--save", "")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def alone(private_redis: RedisServer) -> RedisServer:
    """Lend a server that keeps nothing over a restart."""
    return private_redis


def process(server: RedisServer, now: Clock | None = None, **options: Any) -> RedisStore:
    """Return the store as another process has it."""
    return make_redis_store(server.url, now, prefix="one", **{"lease_ttl_max": PAUSE_S, **options})


def again(server: RedisServer) -> None:
    server.kill()
    server.start()


def wants(name: str, *resources: str, **changes: Any) -> Ask:
    return ask(name, nonce=f"{name}'s", resources=resources, **changes)


def paused(admission: Admission) -> bool:
    return (admission.verdict, admission.reason) == (Verdict.PARKED, Reason.GRANTS_PAUSED)


def waits(store: RedisStore, name: str) -> Row:
    row = store.row(name)
    assert row is not None
    return row


# What is a loss


def test_an_empty_server_at_which_nobody_was_before_gives_everything_at_once(alone: RedisServer) -> None:
    store = process(alone)
    assert store.open(wants("s", ORDER)).verdict is Verdict.RUN
    assert store.overview().paused is None
    assert process(alone).open(wants("other", "order:8")).verdict is Verdict.RUN


@pytest.mark.parametrize("emptied", ["flushall", "flushdb"])
def test_an_emptied_server_gives_no_resource_to_others_for_a_while(
    alone: RedisServer, server: redis.Redis, emptied: str
) -> None:
    store = process(alone)
    assert store.open(wants("holder", ORDER)).verdict is Verdict.RUN
    getattr(server, emptied)()
    assert paused(store.open(wants("next", ORDER)))
    assert paused(store.open(wants("another", "order:8")))
    row, now = waits(store, "next"), store.now()
    assert (row.status, row.contended_since) == (RowStatus.PARKED, row.parked_at)
    assert (PAUSE_S - 10) * SECOND < row.wake_at - now <= PAUSE_S * SECOND
    pause = store.overview().paused
    assert pause is not None
    assert (pause.until, pause.until - pause.since) == (row.wake_at, PAUSE_S * SECOND)


def test_a_restarted_server_does_so_too_though_it_may_have_kept_everything(durable: RedisServer) -> None:
    store = process(durable)
    store.open(wants("holder", ORDER))
    again(durable)
    assert paused(store.open(wants("next", "order:8")))


def test_a_process_that_knew_nothing_notices_a_restart_by_what_was_kept(durable: RedisServer) -> None:
    process(durable).open(wants("holder", ORDER))
    again(durable)
    assert paused(process(durable).open(wants("next", "order:8")))


def test_a_server_that_was_emptied_and_then_met_by_a_newcomer_is_noticed_by_whoever_knew_it(
    alone: RedisServer, server: redis.Redis
) -> None:
    old = process(alone)
    old.open(wants("holder", ORDER))
    server.flushall()
    new = process(alone)
    # Nobody can tell it: it takes the server for a new one.
    assert new.open(wants("first", "order:8")).verdict is Verdict.RUN
    assert paused(old.open(wants("second", "order:9")))
    assert paused(new.open(wants("third", "order:9")))


def test_one_loss_is_one_pause_however_many_notice_it(durable: RedisServer) -> None:
    stores = [process(durable) for _ in range(3)]
    for store in stores:
        store.now()
    again(durable)
    ends = set()
    for store in stores:
        assert paused(store.open(wants(f"of {id(store)}", ORDER)))
        pause = store.overview().paused
        assert pause is not None
        ends.add(pause.until)
    assert len(ends) == 1


def test_a_connection_that_was_cut_is_no_loss(alone: RedisServer, server: redis.Redis) -> None:
    store = process(alone)
    store.now()
    server.client_kill_filter(_type="normal", skipme=True)
    assert store.open(wants("s", ORDER)).verdict is Verdict.RUN


def test_a_restart_is_not_seen_where_nobody_may_look_but_an_emptied_server_is(
    durable: RedisServer,
) -> None:
    with redis.Redis.from_url(durable.url) as client:
        client.acl_setuser("plain", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", "-info"])
        store = process(durable, username="plain", password="pw")
        assert store.open(wants("a", ORDER)).verdict is Verdict.RUN
        client.flushall()
        assert paused(store.open(wants("b", "order:8")))


# Who waits, and who goes on


def test_jobs_without_resources_run_on(alone: RedisServer, server: redis.Redis) -> None:
    store = process(alone)
    store.now()
    server.flushall()
    assert store.open(wants("plain")).verdict is Verdict.RUN
    assert store.open(wants("keyed", claim="key")).verdict is Verdict.RUN
    assert store.open(wants("guarding", guards=True)).verdict is Verdict.RUN


def test_who_has_a_resource_that_was_not_lost_keeps_it_and_gives_it_back(durable: RedisServer) -> None:
    store, of = process(durable), wants("holder", ORDER)
    job = store.open(of).facts.job
    again(durable)
    pulse = Pulse(submission="holder", nonce=of.nonce, claim=of.claim, lease_us=of.lease_us, resources=of.resources)
    assert store.renew([pulse]) == set()
    # The same question again, since its answer was lost.
    assert store.open(of).verdict is Verdict.RUN
    assert store.close(job, ending(of, resources=of.resources)) == (True, ())


def test_who_had_a_resource_that_was_lost_is_told_at_his_next_renewal(alone: RedisServer, server: redis.Redis) -> None:
    store, of = process(alone), wants("holder", ORDER)
    job = store.open(of).facts.job
    server.flushall()
    pulse = Pulse(submission="holder", nonce=of.nonce, claim=of.claim, lease_us=of.lease_us, resources=of.resources)
    assert store.renew([pulse]) == {of.nonce}
    accepted, _ = store.close(job, ending(of, resources=of.resources))
    assert not accepted
    # He comes again, in his turn.
    assert waits(store, "holder").reason is Reason.OWNERSHIP_LOST


def test_when_the_pause_is_over_those_who_waited_are_let_go_on_in_their_order(durable: RedisServer) -> None:
    store = process(durable, lease_ttl_max=2)
    store.now()
    again(durable)
    for name in ("first", "second"):
        assert paused(store.open(wants(name, ORDER)))
    assert store.release_due() == []
    freed = wait_for(store.release_due, "the end of the pause", 10)
    assert [row.submission for row in freed] == ["first", "second"]
    assert store.open(wants("first", ORDER)).verdict is Verdict.RUN
    assert store.open(wants("second", ORDER)).reason is Reason.LEASE_HELD
    assert store.overview().paused is None


# Tokens


def fences(store: RedisStore, *names: str) -> list[int]:
    """Let jobs of one key fail one after the other, and return their tokens."""
    found = []
    for name in names:
        of = wants(name, claim="key")
        job = store.open(of).facts.job
        assert job is not None
        store.close(job, ending(of, Outcome.FAILED))
        found.append(job.fence)
    return found


@pytest.mark.parametrize("knows", ["the process", "somebody else"])
def test_tokens_go_on_rising_at_a_server_whose_clock_is_an_hour_behind(alone: RedisServer, knows: str) -> None:
    clock, marks = Clock(), MemoryStore()
    clock.now = wall()
    store = process(alone, clock, marks=marks)
    before = fences(store, "a", "b")
    store.keep_mark()
    again(alone)
    clock.now -= HOUR
    store = store if knows == "the process" else process(alone, clock, marks=marks)
    after = fences(store, "c", "d")
    assert before + after == sorted({*before, *after})
    assert paused(store.open(wants("s", ORDER)))
    clock.now += (PAUSE_S + 1) * SECOND
    admission = store.open(wants("t", ORDER))
    assert admission.verdict is Verdict.RUN
    assert admission.facts.places[0].lease.fence > before[-1]


def test_where_nobody_knows_the_tokens_those_wait_whose_token_guards_a_target(durable: RedisServer) -> None:
    process(durable).now()
    again(durable)
    new = process(durable)
    assert paused(new.open(wants("guarding", claim="key", guards=True)))
    assert new.open(wants("keyed", claim="another key")).verdict is Verdict.RUN


def test_they_wait_no_longer_when_somebody_comes_who_knows_them(durable: RedisServer) -> None:
    clock = Clock()
    clock.now = wall()
    old = process(durable, clock)
    (before,) = fences(old, "a")
    again(durable)
    clock.now -= HOUR
    new = process(durable, clock)
    assert paused(new.open(wants("b", claim="key", guards=True)))
    assert old.row("b") is not None
    admission = new.open(wants("c", claim="key", guards=True))
    assert admission.verdict is Verdict.RUN
    assert admission.facts.job is not None
    assert admission.facts.job.fence > before
    assert paused(new.open(wants("d", ORDER)))


def test_a_process_that_comes_late_changes_nothing_any_more(durable: RedisServer) -> None:
    late, old = process(durable), process(durable)
    late.now()
    old.now()
    again(durable)
    old.now()
    run = old._memory.name
    late.now()
    assert (late._memory.name, old._memory.name) == (run, run)


def test_a_mark_outside_tells_an_emptied_server_from_a_new_one(alone: RedisServer) -> None:
    marks = MemoryStore()
    first = process(alone, marks=marks)
    assert first.open(wants("s", ORDER)).verdict is Verdict.RUN
    first.keep_mark()
    again(alone)
    assert paused(process(alone, marks=marks).open(wants("t", ORDER)))


class Away(MemoryStore):
    def _unit(self) -> Any:
        raise StoreUnavailable("the other store can't be reached")


def told(raised: list[Micros], marks: MemoryStore) -> MemoryStore:
    """Write down to what a mark is to be raised."""
    mark = marks.mark

    def telling(name: str, at_least: Micros = 0) -> Micros:
        raised.extend([at_least] if at_least else [])
        return mark(name, at_least)

    marks.mark = telling  # type: ignore[method-assign]
    return marks


def test_a_mark_that_can_not_be_read_stops_nobody(durable: RedisServer) -> None:
    store = process(durable, marks=Away())
    assert store.open(wants("s")).verdict is Verdict.RUN
    again(durable)
    assert process(durable, marks=Away()).open(wants("t")).verdict is Verdict.RUN


def test_who_keeps_the_mark_is_left_alone_for_a_while_where_he_can_not_be_reached(alone: RedisServer) -> None:
    asked: list[Micros] = []
    store = process(alone, marks=told(asked, Away()))
    with pytest.raises(StoreUnavailable):
        store.keep_mark()
    store.keep_mark()
    assert len(asked) == 1


def test_a_mark_is_raised_in_blocks_and_never_lowered(alone: RedisServer) -> None:
    written: list[Micros] = []
    clock = Clock()
    clock.now = wall()
    store = process(alone, clock, marks=told(written, MemoryStore()))
    for _ in range(10):
        store.keep_mark()
    assert len(written) == 1
    clock.now += 120 * SECOND
    store.now()
    store.keep_mark()
    assert written == sorted(written)
    assert len(written) == 2
