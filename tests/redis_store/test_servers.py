"""Servers that were restarted, are full, forget, or belong to somebody else; and processes that fork."""

from __future__ import annotations

import os

import pytest
import redis

from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.exceptions import (
    ConfigurationError,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    TriageRefused,
)
from celery_replay.states import Outcome, Verb, Verdict
from celery_replay.stores.redis import RedisStore
from tests.conformance.world import Clock
from tests.django_store.builders import ask, ending
from tests.support.net import LOCALHOST
from tests.support.redis_server import RedisServer
from tests.support.redis_stores import make_redis_store
from tests.support.tcp_proxy import TcpProxy


def runs(store: RedisStore) -> None:
    of = ask()
    job = store.open(of).facts.job
    assert job is not None
    assert store.close(job, ending(of)) == (True, ())


def test_a_server_that_forgot_its_scripts_is_told_them_again(private_store: RedisStore, server: redis.Redis) -> None:
    runs(private_store)
    server.script_flush()
    runs(private_store)


def test_a_server_that_was_restarted_is_found_again(private_store: RedisStore, private_redis: RedisServer) -> None:
    runs(private_store)
    private_redis.kill()
    private_redis.start()
    runs(private_store)
    private_redis.kill()
    private_redis.start()
    assert private_store.flush(["nobody"]) is None
    private_redis.kill()
    private_redis.start()
    assert private_store.job("nobody") is None


@pytest.mark.parametrize("call", ["open", "flush", "job", "now"])
def test_a_server_that_is_down_is_said_to_be_unavailable(
    private_store: RedisStore, private_redis: RedisServer, call: str
) -> None:
    runs(private_store)
    private_redis.kill()
    argument = {"open": ask(), "flush": ["s"], "job": "s"}.get(call)
    with pytest.raises(StoreUnavailable, match="can't be reached"):
        getattr(private_store, call)(*([argument] if argument is not None else []))


def test_what_was_never_sent_is_known_not_to_be_done(private_redis: RedisServer) -> None:
    store = make_redis_store(private_redis.url)
    private_redis.kill()
    with pytest.raises(StoreUnavailable) as raised:
        store.open(ask())
    assert not raised.value.sent


def test_what_was_sent_and_not_answered_may_be_done(private_store: RedisStore, private_redis: RedisServer) -> None:
    runs(private_store)
    private_redis.kill()
    with pytest.raises(StoreUnavailable) as raised:
        private_store.open(ask())
    assert raised.value.sent


def test_a_full_server_refuses_new_jobs_and_says_so(private_store: RedisStore, server: redis.Redis) -> None:
    of = ask()
    job = private_store.open(of).facts.job
    server.config_set("maxmemory-policy", "noeviction")
    server.config_set("maxmemory", 1)
    with pytest.raises(StoreUnavailable, match="full"):
        private_store.open(ask("refused"))
    server.config_set("maxmemory", 0)
    assert private_store.job("refused") is None
    assert private_store.open(ask("refused")).verdict is Verdict.RUN
    assert private_store.close(job, ending(of)) == (True, ())


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
def test_a_server_that_drops_records_is_refused(private_redis: RedisServer, server: redis.Redis, policy: str) -> None:
    server.config_set("maxmemory-policy", policy)
    assert make_redis_store(private_redis.url).now()
    server.config_set("maxmemory", "100mb")
    with pytest.raises(ConfigurationError, match=f"maxmemory-policy {policy}.*noeviction"):
        make_redis_store(private_redis.url).now()
    assert make_redis_store(private_redis.url, evicting=True).now()
    server.config_set("maxmemory-policy", "noeviction")
    assert make_redis_store(private_redis.url).now()


def test_a_server_where_nobody_may_look_is_used_all_the_same(private_redis: RedisServer, server: redis.Redis) -> None:
    server.acl_setuser("plain", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", "-info", "-config"])
    store = make_redis_store(private_redis.url, username="plain", password="pw")
    runs(store)
    store.close_connections()


def test_a_wrong_password_is_a_refusal_that_names_the_place_without_it(private_redis: RedisServer) -> None:
    url = private_redis.url.replace("redis://", "redis://user:s3cret@")
    with pytest.raises((StoreError, ConfigurationError)) as raised:
        make_redis_store(url).now()
    assert "s3cret" not in str(raised.value)
    assert str(private_redis.port) in str(raised.value)


def test_records_of_a_newer_version_are_refused(store: RedisStore, clean_redis_url: str) -> None:
    assert store.now()
    with redis.Redis.from_url(clean_redis_url) as client:
        client.set(f"{store._prefix}schema", 2)
    other = RedisStore(clean_redis_url, prefix=store._prefix)
    with pytest.raises(SchemaMismatch, match="upgrade celery-replay"):
        other.open(ask())


def test_projects_with_prefixes_of_their_own_do_not_meet(clean_redis_url: str) -> None:
    one, two = (make_redis_store(clean_redis_url, prefix=name) for name in ("one", "two"))
    assert one.open(ask("s")).verdict is Verdict.RUN
    assert two.open(ask("s")).verdict is Verdict.RUN
    assert one.place.endswith("keys {one}:*")


def test_a_forked_child_has_a_connection_of_its_own(store: RedisStore) -> None:
    runs(store)
    of = ask("of the child")
    child = os.fork()
    if child == 0:
        admission = store.open(of)
        os._exit(0 if admission.verdict is Verdict.RUN else 1)
    runs(store)
    _, status = os.waitpid(child, 0)
    assert status == 0
    runs(store)
    assert store.job("of the child") is not None


def test_an_answer_that_was_lost_is_the_same_when_it_is_asked_for_again(store: RedisStore) -> None:
    of = ask("s", "key")
    first = store.open(of)
    assert store.open(of).verdict is first.verdict is Verdict.RUN
    assert store.close(first.facts.job, ending(of, result="1")) == (True, ())
    assert store.close(first.facts.job, ending(of, result="1")) == (True, ())
    assert [attempt.outcome for attempt in store.attempts("s")] == [Outcome.SUCCEEDED]


def test_a_server_that_does_not_answer_is_given_up_soon(private_redis: RedisServer) -> None:
    with TcpProxy(LOCALHOST, private_redis.port) as proxy:
        store = make_redis_store(proxy.through(private_redis.url), socket_timeout=0.2)
        runs(store)
        proxy.swallow()
        with pytest.raises(StoreUnavailable) as raised:
            store.open(ask())
        assert raised.value.sent
        store.close_connections()


def test_a_clock_that_goes_back_loses_no_job_and_gives_no_fence_twice(clean_redis_url: str) -> None:
    clock = Clock()
    store = make_redis_store(clean_redis_url, clock)
    fences = []
    for name, ahead in (("first", 0), ("second", -3600), ("third", -1800), ("fourth", 60)):
        clock.now += ahead * SECOND
        of = ask(name, "key")
        job = store.open(of).facts.job
        assert job is not None
        store.close(job, ending(of, Outcome.FAILED))
        fences.append(job.fence)
    assert fences == sorted(set(fences))
    assert {job.submission for job in store.find_jobs()} == {"first", "second", "third", "fourth"}
    store.close_connections()


def test_a_refused_decision_costs_no_connection(private_store: RedisStore, server: redis.Redis) -> None:
    runs(private_store)
    before = server.info("stats")["total_connections_received"]
    for _ in range(3):
        with pytest.raises(TriageRefused):
            private_store.decide("nobody", Decision(verb=Verb.NOTED, actor="ann"))
    assert server.info("stats")["total_connections_received"] == before
