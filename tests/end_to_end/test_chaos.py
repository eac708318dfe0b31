"""A beating by chance: whatever happens to workers, broker and store, what the guards promise is true afterwards.

What is judged are rows in the business database. `make chaos` runs many rounds; a failing seed can be run again.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.end_to_end.apps.project import EFFECTS_TABLE, LEASE_TTL_S
from tests.end_to_end.chaos import Chaos
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage, references
from tests.support.redis_server import RedisServer
from tests.support.versions import quick_redelivery

ROUNDS = int(os.environ.get("REPLAY_CHAOS_ROUNDS", "1"))
FAULTS = int(os.environ.get("REPLAY_CHAOS_FAULTS", "9"))
FIRST_SEED = int(os.environ.get("REPLAY_CHAOS_SEED", "1"))
EACH = 12
KINDS = ("plain", "resumed", "atomic", "fenced")
ONCE = ("atomic", "fenced", "starved", "after")
"""Kinds of effects that are guarded where they happen."""
PATIENCE_S = 120
DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")

pytestmark = [pytest.mark.timeout(400), quick_redelivery]


@dataclass
class Ground:
    """Workers that can be beaten, with a broker of their own."""

    stage: Stage
    broker: RedisServer


@pytest.fixture(scope="module")
def ground(make_stage: StageMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ExitStack() as stack:
        broker = RedisServer(tmp_path_factory.mktemp("broker"), *DURABLE)
        stack.callback(broker.kill)
        broker.start()
        settings = {
            "replay_lease_ttl": LEASE_TTL_S,
            # Deaths are nobody's fault here.
            "replay_poison_cap": 1000,
            "worker_prefetch_multiplier": 2,
        }
        stage = stack.enter_context(make_stage("chaos_app", broker=broker.url, backend=broker.url, settings=settings))
        _sql(stage, f"CREATE TABLE {EFFECTS_TABLE} (number serial, kind text, reference text, fence bigint)")
        for _ in range(2):
            stage.start(concurrency=2, ready_timeout_s=60)
        yield Ground(stage, broker)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))
def test_what_the_guards_promise_is_true_after_a_beating(ground: Ground, seed: int) -> None:
    stage, chance = ground.stage, random.Random(seed)
    chaos = Chaos(stage, ground.broker, seed, LEASE_TTL_S)
    intents = {kind: references(EACH) for kind in KINDS} | {"starved": references(1)}
    jobs = [(kind, reference, _seconds(kind, chance)) for kind, those in intents.items() for reference in those]
    chance.shuffle(jobs)
    copied, once = jobs[: EACH // 2], jobs[EACH // 2 :]
    try:
        stage.web(_publish, once)
        chaos.copies(lambda queue: stage.web(_publish, copied, queue), len(copied))
        chaos.beat(FAULTS)
        stage.settle(PATIENCE_S)
    finally:
        print(f"seed {seed}: " + "; ".join(chaos.done))  # noqa: T201 - shown with a failure
    wanted = {(kind, reference) for kind, those in intents.items() for reference in those}
    wanted |= {("after", reference) for _, reference in wanted}
    seen = Counter((kind, reference) for kind, reference, _ in _effects(stage) if (kind, reference) in wanted)
    lost = sorted(wanted - seen.keys())
    twice = {effect: count for effect, count in seen.items() if count > 1 and effect[0] in ONCE}
    letters = [
        (letter.operation, letter.reason, letter.error_type, letter.error_message) for letter in stage.all_letters()
    ]
    assert (lost, twice, _steps_back(stage), letters) == ([], {}, [], [])


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
        if fence < newest[kind, reference]:
            back.append((kind, reference))
        newest[kind, reference] = max(fence, newest[kind, reference])
    return back


def _sql(stage: Stage, statement: str) -> list[Any]:
    with psycopg.connect(stage.database, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []
