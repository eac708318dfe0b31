"""The table of `docs/explanation/outcomes.md`, lived through: every outcome in every pool, on Redis, some on RabbitMQ."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.outcome_plays import RAW, VIOLENT, Seen, Sent, Theatre, raw_wire, seen, unpacked
from tests.end_to_end.outcomes import Cell, cells
from tests.end_to_end.stage import Stage, fresh
from tests.support.net import wait_until

CONCURRENCY = {"prefork": 4, "threads": 12, "gevent": 20, "solo": 1}
SETTINGS = {
    "replay_lease_ttl": 5,
    "replay_poison_cap": 3,
    "replay_requeue_delay": 0.2,
    "replay_requeue_cap": 3,
    "worker_deduplicate_successful_tasks": True,
    "broker_transport_options": {"visibility_timeout": 60, "unacked_restore_interval": 1},
}
PATIENCE_S = int(__import__("os").environ.get("PATIENCE", 90))
SETTLE_S = 3
"""Watched after everything has come as expected: a second letter or error callback would come within that time."""
CELLS = list(cells())
ON_RABBITMQ = [
    cell for cell in CELLS if cell.pool == "prefork" and cell.outcome != "copy of a success, skipped by Celery"
]
pytestmark = pytest.mark.timeout(400)

Play = Mapping[Cell, tuple[Sent, Seen]]


def _play(stage: Stage, played: Sequence[Cell]) -> Play:
    """Bring all cells about at once, and look at them when nothing more happens."""
    with ThreadPoolExecutor() as threads:
        parts = threads.map(lambda group: _perform(stage, group), _groups(played))
        sent = {cell: one for part in parts for cell, one in part.items()}

    def look() -> dict[Cell, Seen]:
        found: dict[Cell, Seen] = stage.web(seen, sent, stage.target.all_effects())
        return found

    # What has not come by then fails its own test, with what came instead.
    with suppress(TimeoutError):
        wait_until(lambda: all(one.said == cell.expected for cell, one in look().items()), PATIENCE_S, "all ends", 1)
    time.sleep(SETTLE_S)
    return {cell: (sent[cell], one) for cell, one in look().items()}


def _groups(played: Sequence[Cell]) -> list[list[Cell]]:
    """Put together what one worker plays: a pool whose children are killed all the time forgets to limit others."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in played:
        manner = "cold" if cell.outcome == "cold shutdown" else "violent" if cell.outcome in VIOLENT else ""
        groups.setdefault((cell.pool, manner), []).append(cell)
    return list(groups.values())


def _perform(stage: Stage, group: Sequence[Cell]) -> Mapping[Cell, Sent]:
    pool, queue = group[0].pool, f"{stage.queue}-{fresh()}"
    worker = stage.start(queue, pool=pool, concurrency=CONCURRENCY[pool], ready_timeout_s=60)
    return Theatre(stage, queue, worker, stage.producer()).play(group)


@pytest.fixture(scope="module")
def on_redis(make_stage: StageMaker) -> Iterator[Stage]:
    """Lend a stage on Redis."""
    with make_stage("outcome_app", settings=SETTINGS) as lent:
        yield lent


@pytest.fixture(scope="module")
def play(on_redis: Stage) -> Play:
    """Play the whole table."""
    return _play(on_redis, CELLS)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_job_ends_as_the_table_says(cell: Cell, play: Play) -> None:
    assert play[cell][1].said == cell.expected


LETTERS = [cell for cell in CELLS if cell.letter]


@pytest.mark.parametrize("cell", LETTERS, ids=str)
def test_its_letter_keeps_the_original_message(cell: Cell, play: Play) -> None:
    sent, ended = play[cell]
    assert ended.letter is not None
    if cell.outcome in RAW:
        _, wire = raw_wire(cell.outcome, sent.reference)
        assert unpacked(ended.letter) == wire.body
    else:
        assert sent.reference.encode() in unpacked(ended.letter)
