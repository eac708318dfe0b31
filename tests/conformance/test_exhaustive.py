"""Every interleaving of small worlds: not by chance, but each."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import settings

from celery_replay.states import AckMode, OnIncomplete
from tests.conformance.exhaustive import Budget, explore
from tests.conformance.outside import Guard
from tests.conformance.setup import Setup
from tests.support import redis_stores

SMALL = {
    "redeliveries beside the owner": (Setup(counts_by_id=False), Budget(crashes=0, lapses=0, again=2)),
    "a crash": (Setup(whole=True), Budget(lapses=0)),
    "a crash after an early acknowledgement": (Setup(ack=AckMode.EARLY, whole=True), Budget(lapses=0)),
    "a failure and its replay": (
        Setup(whole=True, canvas=False, replays=1),
        Budget(crashes=0, lapses=0, replays=1, endings=("fail", "ok")),
    ),
    "two jobs of one resource": (
        Setup(submissions=2, keyed=False, canvas=False, whole=True, resources=(("r",),)),
        Budget(crashes=0, lapses=0),
    ),
    "two jobs of one key": (Setup(submissions=2, canvas=False), Budget(crashes=0, lapses=0)),
}
LARGE = {
    "a lapse and a redelivery": (Setup(), Budget(crashes=0, again=1)),
    "a crash and a redelivery": (Setup(guard=Guard.ATOMIC), Budget(lapses=0, again=1)),
    "a crash and a lapse": (Setup(), Budget()),
    "a crash, a lapse and a redelivery": (Setup(whole=True, canvas=False), Budget(again=1)),
    "a retry and a lapse": (Setup(), Budget(crashes=0, endings=("ok", "retry"))),
    "a retry and a crash": (Setup(), Budget(lapses=0, endings=("ok", "retry"))),
    "a failure and a crash": (Setup(), Budget(lapses=0, endings=("ok", "fail"))),
    "a shutdown": (Setup(), Budget(lapses=0, endings=("ok", "interrupt", "requeue"))),
    "two jobs and a lapse": (Setup(submissions=2, canvas=False), Budget(crashes=0)),
    "two jobs and a crash": (Setup(submissions=2, canvas=False), Budget(lapses=0)),
    "two jobs, one fails": (Setup(submissions=2), Budget(crashes=0, lapses=0, endings=("ok", "fail"))),
    "two jobs, one retries": (Setup(submissions=2, canvas=False), Budget(crashes=0, lapses=0, endings=("ok", "retry"))),
    "an unsettled effect is a dead letter": (Setup(incomplete=OnIncomplete.DEAD_LETTER), Budget(lapses=0)),
    "an acknowledged loss": (Setup(ack=AckMode.LATE_ACKS_LOSS), Budget(lapses=0, again=1, endings=("ok", "fail"))),
    "early acknowledgement and a retry": (Setup(ack=AckMode.EARLY), Budget(endings=("ok", "retry"))),
    "a loss and its replay beside the owner": (
        Setup(ack=AckMode.EARLY, whole=True, keyed=False, replays=1, canvas=False),
        Budget(crashes=0, replays=1),
    ),
    "a failure, its replay and a crash": (
        Setup(replays=2, canvas=False),
        Budget(lapses=0, replays=2, endings=("fail", "ok")),
    ),
    "two jobs of one resource that lapses": (
        Setup(submissions=2, keyed=False, canvas=False, whole=True, resources=(("r",),), ack=AckMode.EARLY),
        Budget(crashes=0, lapses=1),
    ),
    "two jobs of one resource, a crash and a lapse": (
        Setup(submissions=2, keyed=False, canvas=False, whole=True, resources=(("r",),)),
        Budget(),
    ),
    "two jobs of two resources, one crashes": (
        Setup(submissions=2, keyed=False, canvas=False, whole=True, resources=(("r", "s"), ("s",))),
        Budget(lapses=0),
    ),
    "three jobs of two resources": (
        Setup(submissions=3, keyed=False, canvas=False, whole=True, resources=(("r", "s"), ("r",), ("s",))),
        Budget(crashes=0, lapses=0),
    ),
    "two jobs of one resource, one retries": (
        Setup(submissions=2, keyed=False, canvas=False, whole=True, resources=(("r",),)),
        Budget(crashes=0, lapses=0, endings=("ok", "retry")),
    ),
    "two jobs of one key and one resource, a lapse": (
        Setup(submissions=2, canvas=False, whole=True, resources=(("r",),)),
        Budget(crashes=0),
    ),
    "early acknowledgement of two jobs": (Setup(ack=AckMode.EARLY, submissions=2, canvas=False), Budget(lapses=0)),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_order_of_events_in_a_small_world(name: str) -> None:
    findings = explore(*SMALL[name])
    assert (findings.broken, findings.complete) == ({}, True)


@pytest.mark.parametrize("name", [name for name in SMALL if name != "a crash"])
def test_a_small_world_in_redis_has_as_many_states_and_none_is_broken(name: str, clean_redis_url: str) -> None:
    make_store = partial(redis_stores.make_redis_store, clean_redis_url)
    findings, in_memory = explore(*SMALL[name], make_store=make_store), explore(*SMALL[name])
    redis_stores.close_stores(clean_redis_url)
    assert (findings.broken, findings.complete) == ({}, True)
    assert (findings.states, findings.moves) == (in_memory.states, in_memory.moves)


def test_a_replay_without_a_key_has_to_claim_what_it_replays() -> None:
    """Else the owner that was given up as lost comes back beside it."""
    setup, budget = LARGE["a loss and its replay beside the owner"]
    assert explore(setup, budget).broken == {}
    careless = explore(replace(setup, bad_habits=frozenset({"replay_claims"})), budget)
    assert {"P1", "P4"} <= careless.broken.keys()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.skipif(settings.get_current_profile_name() != "deep", reason="takes minutes: --hypothesis-profile=deep")
@pytest.mark.parametrize("name", LARGE)
def test_every_order_of_events_in_a_larger_world(name: str) -> None:
    findings = explore(*LARGE[name], limit=1_000_000)
    assert findings.broken == {}
