"""A beating by chance: whatever happens to workers, broker and store, what the guards promise is true afterwards.

What is judged are rows in the business database. `make chaos` runs many rounds; a failing seed can be run again.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import redis

from celery_replay.records import Letter
from celery_replay.replay.message import read
from tests.end_to_end.apps.project import EFFECTS_TABLE, LEASE_TTL_S, VISIBILITY_TIMEOUT_S
from tests.end_to_end.chaos import Chaos
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage, references, wait_for
from tests.support.redis_server import RedisServer, faketime_library
from tests.support.versions import quick_redelivery
from tests.support.watched_redis import SERVICE, WatchedRedis

GROUNDS = ("postgresql", "redis", "sentinel") if "REPLAY_CHAOS_ROUNDS" in os.environ else ("postgresql", "redis")
"""The longest is left to those who ask for chaos: failovers have tests of their own, too."""
ROUNDS = int(os.environ.get("REPLAY_CHAOS_ROUNDS", "1"))
FAULTS = int(os.environ.get("REPLAY_CHAOS_FAULTS", "9"))
FIRST_SEED = int(os.environ.get("REPLAY_CHAOS_SEED", "1"))
EACH = 12
KINDS = ("plain", "resumed", "atomic", "fenced", "leased")
ATOMIC = ("atomic", "after")
"""Kinds of effects that the target itself knows to be done."""
ONCE = (*ATOMIC, "fenced", "starved")
"""Kinds of effects that happen once where the store keeps what it is told."""
PATIENCE_S = 120
SKEW_S = -20.0
"""How far the clock of the second server is from that of the first."""
_CUT = re.compile("connection", re.IGNORECASE)
DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")

pytestmark = [pytest.mark.timeout(400), quick_redelivery]


@dataclass
class Ground:
    """Workers that can be beaten, with a broker of their own."""

    stage: Stage
    broker: RedisServer
    store: WatchedRedis | None = None
    """Where the store is, if that is a Redis of its own, which sentinels watch."""


@pytest.fixture(scope="module", params=GROUNDS)
def ground(
    request: pytest.FixtureRequest, make_stage: StageMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    with ExitStack() as stack:
        broker = RedisServer(tmp_path_factory.mktemp("broker"), *DURABLE)
        stack.callback(broker.kill)
        broker.start()
        settings = {
            "replay_lease_ttl": LEASE_TTL_S,
            # So long nobody gets a resource after a restart of the store.
            "replay_lease_ttl_max": 2 * LEASE_TTL_S,
            # Deaths are nobody's fault here.
            "replay_poison_cap": 1000,
            "worker_prefetch_multiplier": 2,
        }
        if request.param == "redis":
            settings["replay_store"] = broker.url.replace("/0", "/1")
        store = None
        if request.param == "sentinel":
            # Where a clock can be made to be behind, that of every other master is.
            skew_s = SKEW_S if faketime_library() else 0.0
            store = WatchedRedis(tmp_path_factory.mktemp("store"), stack, "--save", "3600 1000000", skew_s=skew_s)
            settings |= {
                "replay_store": store.url,
                "replay_options": {"master_name": SERVICE, "socket_timeout": 0.5},
            }
        stage = stack.enter_context(make_stage("chaos_app", broker=broker.url, backend=broker.url, settings=settings))
        _sql(stage, f"CREATE TABLE {EFFECTS_TABLE} (number serial, kind text, reference text, fence bigint)")
        for _ in range(2):
            stage.start(concurrency=2, ready_timeout_s=60)
        yield Ground(stage, broker, store)


SEEDS = pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))


@SEEDS
def test_what_the_guards_promise_is_true_after_a_beating(ground: Ground, seed: int) -> None:
    if ground.store is not None:
        pytest.skip("its servers lose what they knew")
    outcome = _beat(ground, seed)
    letters = ground.stage.all_letters()
    # A connection that is cut while a transaction begins or ends is no error of the body, so that is not retried.
    strange = [letter for letter in letters if letter.operation not in ATOMIC or not _CUT.search(letter.error_message)]
    told = {_reference(letter) for letter in letters}
    untold = [effect for effect in outcome.lost if effect[1] not in told]
    lost = [effect for effect in untold if not _dropped_by_transport(ground.broker, *effect)]
    assert (lost, outcome.twice, outcome.steps_back, strange) == ([], {}, [], [])


def _dropped_by_transport(broker: RedisServer, task: str, reference: str) -> bool:
    """Has the broker handed a message out which nobody has put aside?

    kombu takes a message off its queue and notes it as unacknowledged in two requests; cut off in between, it is gone.
    """
    about = [
        words for words in broker.written() if reference.encode() in words[-1] and f'"{task}"'.encode() in words[-1]
    ]
    sent = sum(words[0].upper() in (b"LPUSH", b"RPUSH") for words in about)
    put_aside = sum(words[0].upper() == b"HSET" for words in about)
    return sent > put_aside


@SEEDS
def test_a_store_that_loses_what_it_knows_loses_jobs_but_no_guard_at_the_target(ground: Ground, seed: int) -> None:
    if "replay_store" not in ground.stage.settings:
        pytest.skip("a database that loses what it has committed takes the guards with it")
    losses = [*Chaos.LOSSES, *Chaos.LOSSES]
    if ground.store is not None:
        losses = [*Chaos.LOSSES, *Chaos.TROUBLES, *Chaos.CHANGES]
    outcome = _beat(ground, seed, [*Chaos.KINDS, *losses])
    twice = {effect: count for effect, count in outcome.twice.items() if effect[0] in ATOMIC}
    figures = f"of {outcome.wanted} effects {len(outcome.lost)} are lost, {len(outcome.twice)} happened twice"
    print(figures)  # noqa: T201 - to be reported
    assert (twice, outcome.steps_back) == ({}, []), figures


@dataclass(frozen=True)
class Rest:
    """What is left of a round."""

    wanted: int
    lost: list[tuple[str, str]]
    twice: dict[tuple[str, str], int]
    steps_back: list[tuple[str, str]]


def _beat(ground: Ground, seed: int, names: Sequence[str] = ()) -> Rest:
    """Let jobs of all kinds run under a beating, and count their effects when nothing more happens."""
    stage, chance = ground.stage, random.Random(seed)
    chaos = Chaos(stage, ground.broker, seed, LEASE_TTL_S, ground.store)
    intents = {kind: references(EACH) for kind in KINDS} | {"starved": references(1)}
    jobs = [(kind, reference, _seconds(kind, chance)) for kind, those in intents.items() for reference in those]
    chance.shuffle(jobs)
    copied, once = jobs[: EACH // 2], jobs[EACH // 2 :]
    wanted = {(kind, reference) for kind, those in intents.items() for reference in those}
    wanted |= {("after", reference) for _, reference in wanted}

    def seen() -> Counter[tuple[str, str]]:
        return Counter((kind, reference) for kind, reference, _ in _effects(stage) if (kind, reference) in wanted)

    try:
        stage.web(_publish, once)
        chaos.copies(lambda queue: stage.web(_publish, copied, queue), len(copied))
        chaos.beat(FAULTS, names=names)
        # What a dead worker had taken, and nobody has begun, is seen nowhere until the broker brings it again.
        with suppress(TimeoutError):
            wait_for(lambda: wanted <= seen().keys(), "all effects", 4 * VISIBILITY_TIMEOUT_S)
        stage.settle(PATIENCE_S)
        wait_for(lambda: not _unacknowledged(ground.broker), "all messages acknowledged", PATIENCE_S)
        stage.settle(PATIENCE_S)
    finally:
        print(f"seed {seed}: " + "; ".join(chaos.done))  # noqa: T201 - shown with a failure
    effects = seen()
    for kind, reference in wanted - effects.keys():
        of_it = [job for job in stage.jobs() if reference in (job.key, (job.result or "").strip('"'))]
        print(f"{kind} {reference} is lost:", stage.story(*of_it))  # noqa: T201 - shown with a failure
    return Rest(
        wanted=len(wanted),
        lost=sorted(wanted - effects.keys()),
        twice={effect: count for effect, count in effects.items() if count > 1 and effect[0] in ONCE},
        steps_back=_steps_back(stage),
    )


def _unacknowledged(broker: RedisServer) -> int:
    """Count what workers have taken; of a dead one it is seen nowhere else until the broker brings it again."""
    with redis.Redis.from_url(broker.url) as client:
        return int(client.hlen("unacked"))


def _reference(letter: Letter) -> str:
    return str(read(letter.message).args[0])


def _seconds(kind: str, chance: random.Random) -> float:
    return 2 * LEASE_TTL_S if kind == "starved" else chance.uniform(0, LEASE_TTL_S)


def _publish(app: Any, jobs: list[tuple[str, str, float]], queue: str | None = None) -> None:
    for kind, reference, seconds in jobs:
        link = app.tasks["after"].si(reference)
        app.tasks[kind].apply_async((reference, seconds), link=link, queue=queue)


def _effects(stage: Stage) -> list[tuple[str, str, int]]:
    return _sql(stage, f"SELECT kind, reference, fence FROM {EFFECTS_TABLE} ORDER BY number")


def _steps_back(stage: Stage) -> list[tuple[str, str]]:
    newest: Counter[tuple[str, str]] = Counter()
    back = []
    for kind, reference, fence in _effects(stage):
        # An order is the business of many jobs, and of many rounds.
        if fence < newest[kind, reference]:
            back.append((kind, reference))
        newest[kind, reference] = max(fence, newest[kind, reference])
    return back


def _sql(stage: Stage, statement: str) -> list[Any]:
    with psycopg.connect(stage.database, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []
