"""What is kept goes with its retention: by Redis itself, or when it is pruned; nothing lives for ever by mistake."""

from __future__ import annotations

import pytest
import redis

from celery_replay.clock import SECOND, new_id
from celery_replay.dead_letters import Decision
from celery_replay.records import Failure
from celery_replay.states import AckMode, Outcome, StepState, Verb, Verdict
from celery_replay.stores.redis import RedisStore
from tests.django_store.builders import ask, chunk, ending, step

FAILURE = Failure(type="ValueError", message="no")
OF_THE_STORE = {"schema", "run", "runs", "changes"}
BOUNDED = OF_THE_STORE | {"jobs", "reap", "lead", "history", "groups", "waiting", "letters", "pruned"}
"""Keys that the store has one of; indexes among them are trimmed by pruning."""


@pytest.fixture
def client(clean_redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(clean_redis_url, decode_responses=True)


def kinds(client: redis.Redis, store: RedisStore, *, lasting: bool) -> set[str]:
    """Return the kinds of keys that last, or those that expire."""
    keys = [key for key in client.scan_iter(f"{store._prefix}*") if (client.ttl(key) < 0) is lasting]
    return {key.removeprefix(store._prefix).partition(":")[0] for key in keys}


def finishes(store: RedisStore, name: str, outcome: Outcome = Outcome.SUCCEEDED, **given: object) -> None:
    """Run a job that leaves everything that a job can."""
    of = ask(name, f"key {name}", **given)
    job = store.open(of).facts.job
    assert job is not None
    store.claim_step(job, step(of), of.delivery)
    store.flush(chunks=[chunk(of, 1, blobs=(("early", b"large"),))])
    settled = (step(of, state=StepState.SETTLED),)
    last = [chunk(of, 3, blobs=(("late", b"large"),))]
    store.close(job, ending(of, outcome, steps=settled, failure=FAILURE if outcome.failing else None), last)


def test_all_that_a_finished_job_leaves_expires(store: RedisStore, client: redis.Redis) -> None:
    finishes(store, "s")
    assert kinds(client, store, lasting=False) == {"j", "c", "s", "t", "x"}
    assert kinds(client, store, lasting=True) <= BOUNDED


def test_a_job_expires_with_its_own_retention(store: RedisStore, client: redis.Redis) -> None:
    of = ask("s", "key")
    store.close(store.open(of).facts.job, ending(of, keep_us=100 * SECOND))
    assert 90 < client.ttl(f"{store._prefix}j:s") <= 100
    assert client.ttl(f"{store._prefix}c:claim-key") == client.ttl(f"{store._prefix}j:s")


def test_what_has_not_ended_and_what_waits_for_a_person_never_expires(store: RedisStore, client: redis.Redis) -> None:
    store.open(ask("runs", "key"))
    finishes(store, "failed", Outcome.FAILED)
    of_the_failed = ("j:failed", "c:claim-key failed", "s:claim-key failed", "l:failed", "t:trace-failed", "x:early")
    for key in ("j:runs", "c:claim-key", "x:late", *of_the_failed):
        assert client.ttl(f"{store._prefix}{key}") == -1


def test_a_job_whose_letter_is_decided_expires_and_one_that_is_opened_again_does_not(
    store: RedisStore, client: redis.Redis
) -> None:
    finishes(store, "failed", Outcome.FAILED)
    store.decide("failed", Decision(verb=Verb.DISCARDED, actor="ann"))
    assert {client.ttl(f"{store._prefix}{key}") > 0 for key in ("j:failed", "t:trace-failed", "x:early")} == {True}
    store.decide("failed", Decision(verb=Verb.REOPENED, actor="ann"))
    assert {client.ttl(f"{store._prefix}{key}") for key in ("j:failed", "t:trace-failed", "x:early")} == {-1}


def test_a_key_that_is_used_again_keeps_its_steps(store: RedisStore, client: redis.Redis) -> None:
    of = ask("first", "key", ack=AckMode.EARLY)
    job = store.open(of).facts.job
    store.claim_step(job, step(of), of.delivery)
    store.close(job, ending(of, Outcome.IGNORED))
    assert client.ttl(f"{store._prefix}s:claim-key") > 0
    again = ask("second", "key")
    assert store.open(again).verdict is Verdict.RUN
    assert client.ttl(f"{store._prefix}s:claim-key") == -1


def test_pruning_trims_what_redis_has_forgotten_by_itself(store: RedisStore, client: redis.Redis) -> None:
    for name in "ab":
        finishes(store, name)
    finishes(store, "failed", Outcome.FAILED)
    store.decide("failed", Decision(verb=Verb.DISCARDED, actor="ann"))
    store.open(ask("runs"))
    for key in client.scan_iter(f"{store._prefix}*"):
        if client.ttl(key) > 0:
            client.delete(key)
    assert store.prune() == 0
    assert [job.submission for job in store.find_jobs()] == ["runs"]
    assert client.xlen(f"{store._prefix}jobs") == 1
    assert list(store.letters()) == list(store.groups(unresolved=False)) == list(store.history()) == []
    assert kinds(client, store, lasting=True) <= {"schema", "run", "runs", "changes", "jobs", "reap", "j"}


def test_pruning_comes_by_every_job_however_many_stay(store: RedisStore, client: redis.Redis) -> None:
    """Those that wait for a person are the oldest: they don't keep it from those behind them."""
    pipe = client.pipeline()
    for _ in range(25_000):
        pipe.xadd(f"{store._prefix}jobs", {"s": "runs"})
    store.open(ask("runs"))
    for _ in range(100):
        pipe.xadd(f"{store._prefix}jobs", {"s": new_id()})
    pipe.execute()
    for _ in range(4):
        store.prune()
    assert client.xlen(f"{store._prefix}jobs") == 25_001


def test_an_erased_job_still_expires(store: RedisStore, client: redis.Redis) -> None:
    finishes(store, "s")
    store.flush(advanced=["s"])
    store.erase("s", Decision(verb=Verb.ERASED, actor="ann"), lambda chunk, job: (chunk, ()))
    assert client.ttl(f"{store._prefix}j:s") > 0


def test_a_finished_job_is_small(store: RedisStore, client: redis.Redis) -> None:
    """Ten events of the usual size, a result, and its place in the index of jobs."""
    event = b'[%d,"step_%d_checked",%d,1,"success",{"status":"paid","amount":%d}]'
    body = b'j{"events":[' + b",".join(event % (n, n, n * 7, n * 17) for n in range(10)) + b"]}"
    for _ in range(200):
        name = new_id()
        of = ask(name, trace_id=name, correlation_id=name, nonce=new_id(), fingerprint=f"b1:{new_id()}")
        events = [chunk(of, 1)]
        object.__setattr__(events[0], "body", body)
        store.close(store.open(of).facts.job, ending(of, result='{"label": "L-1"}', canvas=False), events)
    index = client.memory_usage(f"{store._prefix}jobs") / 200
    used = client.memory_usage(f"{store._prefix}j:{name}") + index
    assert used <= 700
    assert client.dbsize() == 200 + len({"jobs", "schema", "run", "runs"})


def test_what_is_kept_has_no_end_until_it_is_let_go(store: RedisStore, client: redis.Redis) -> None:
    finishes(store, "s")
    own = ("j:s", "c:claim-key s", "s:claim-key s", "t:trace-s", "x:early", "x:late")
    store.keep("s", Decision(verb=Verb.KEPT, actor="bob", text="evidence"))
    assert {client.ttl(store._prefix + key) for key in own} == {-1}
    store.keep("s", Decision(verb=Verb.UNKEPT, actor="bob", text="closed"), store.now() + 86_400 * SECOND)
    assert all(client.ttl(store._prefix + key) > 0 for key in own)


def test_an_object_elsewhere_outlives_a_value_that_redis_has_forgotten(store: RedisStore, client: redis.Redis) -> None:
    kept: dict[str, bytes] = {}

    class Shelf:
        place = "a shelf"
        put = kept.update

        def get(self, names: object) -> dict[str, bytes]:
            return kept

        def delete(self, names: list[str]) -> None:
            for name in names:
                kept.pop(name)

    store.elsewhere = Shelf()
    of = ask("s")
    job = store.open(of).facts.job
    assert job is not None
    store.flush(chunks=[chunk(of, 1, blobs=(("ref", b"j" * 1_000),))])
    while store.place_blobs():
        pass
    assert len(kept) == 1
    client.delete(f"{store._prefix}x:ref")
    store.sweep_blobs(at=store.now() + 2 * 86_400 * SECOND)
    assert kept == {}
