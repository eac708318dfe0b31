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

from celery_replay.records import Letter
from celery_replay.replay.message import read
from tests.end_to_end.apps.project import EFFECTS_TABLE, LEASE_TTL_S, VISIBILITY_TIMEOUT_S
from tests.end_to_end.chaos import Chaos
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage, references, wait_for
from tests.support.redis_server import RedisServer
from tests.support.versions import quick_redelivery

ROUNDS = int(os.environ.get("REPLAY_CHAOS_ROUNDS", "1"))
FAULTS = int(os.environ.get("REPLAY_CHAOS_FAULTS", "9"))
FIRST_SEED = int(os.environ.get("REPLAY_CHAOS_SEED", "1"))
EACH = 12
KINDS = ("plain", "resumed", "atomic", "fenced")
ATOMIC = ("atomic", "after")
"""Kinds of effects that the target itself knows to be done."""
ONCE = (*ATOMIC, "fenced", "starved")
"""Kinds of effects that happen once where the store keeps what it is told."""
PATIENCE_S = 120
_CUT = re.compile("connection", re.IGNORECASE)
DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")

pytestmark = [pytest.mark.timeout(400), quick_redelivery]


@dataclass
class Ground:
    """Workers that can be beaten, with a broker of their own."""

    stage: Stage
    broker: RedisServer


@pytest.fixture(scope="module", params=["postgresql", "redis"])
def ground(
    request: pytest.FixtureRequest, make_stage: StageMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
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
        if request.param == "redis":
            settings["replay_store"] = broker.url.replace("/0", "/1")
        stage = stack.enter_context(make_stage("chaos_app", broker=broker.url, backend=broker.url, settings=settings))
        _sql(stage, f"CREATE TABLE {EFFECTS_TABLE} (number serial, kind text, reference text, fence bigint)")
        for _ in range(2):
            stage.start(concurrency=2, ready_timeout_s=60)
        yield Ground(stage, broker)


SEEDS = pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))


@SEEDS
def test_what_the_guards_promise_is_true_after_a_beating(ground: Ground, seed: int) -> None:
    outcome = _beat(ground, seed)
    letters = ground.stage.all_letters()
    # A connection that is cut while a transaction begins or ends is no error of the body, so that is not retried.
    strange = [letter for letter in letters if letter.operation not in ATOMIC or not _CUT.search(letter.error_message)]
    told = {_reference(letter) for letter in letters}
    lost = [effect for effect in outcome.lost if effect[1] not in told]
    assert (lost, outcome.twice, outcome.steps_back, strange) == ([], {}, [], [])


@SEEDS
def test_a_store_that_loses_what_it_knows_loses_jobs_but_no_guard_at_the_target(ground: Ground, seed: int) -> None:
    if "replay_store" not in ground.stage.settings:
        pytest.skip("a database that loses what it has committed takes the guards with it")
    outcome = _beat(ground, seed, [*Chaos.KINDS, *Chaos.LOSSES, *Chaos.LOSSES])
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
    chaos = Chaos(stage, ground.broker, seed, LEASE_TTL_S)
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
    finally:
        print(f"seed {seed}: " + "; ".join(chaos.done))  # noqa: T201 - shown with a failure
    effects = seen()
    return Rest(
        wanted=len(wanted),
        lost=sorted(wanted - effects.keys()),
        twice={effect: count for effect, count in effects.items() if count > 1 and effect[0] in ONCE},
        steps_back=_steps_back(stage),
    )


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
        if fence < newest[kind, reference]:
            back.append((kind, reference))
        newest[kind, reference] = max(fence, newest[kind, reference])
    return back


def _sql(stage: Stage, statement: str) -> list[Any]:
    with psycopg.connect(stage.database, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []
