"""The table of `docs/explanation/outcomes.md`, lived through: each in each pool, on Redis, a few on RabbitMQ."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from celery_replay.states import AckMode, Category, Reason
from tests.conftest import DEEP, is_deep
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.outcome_plays import LIMIT_S, RAW, VIOLENT, Seen, Sent, Theatre, raw_wire, seen, unpacked
from tests.end_to_end.outcomes import Cell, cells, markdown
from tests.end_to_end.stage import Stage, fresh
from tests.support.net import wait_until
from tests.support.workers import ROOT

CONCURRENCY = {"prefork": 4, "threads": 12, "gevent": 20, "solo": 1}
SETTINGS = {
    "replay_lease_ttl": 5,
    "replay_poison_cap": 3,
    "replay_requeue_delay": 0.2,
    "replay_requeue_cap": 3,
    "worker_deduplicate_successful_tasks": True,
    "broker_transport_options": {"visibility_timeout": 60, "unacked_restore_interval": 1},
}
PATIENCE_S = 90
SETTLE_S = 3
"""Watched after everything has come as expected: a second letter or error callback would come within that time."""
CELLS = list(cells())
THROUGH_RABBITMQ = {
    ("hard time limit", "late"), ("hard time limit", "kept on timeout"), ("child killed", "brought back"),
    ("Reject with requeue, always", "late"), ("unknown task", "early"), ("broken JSON", "early"),
    ("content type that is not accepted", "early"), ("bytes that are no text", "early"), ("no headers", "early"),
    ("unknown compression", "early"), ("body that is a number", "early"),
}  # fmt: skip
ON_RABBITMQ = [c for c in CELLS if c.pool == "prefork" and (c.outcome, c.acknowledged) in THROUGH_RABBITMQ]
pytestmark = pytest.mark.timeout(400)


@dataclass(frozen=True)
class Play:
    """What was played, by whom, and what became of it."""

    stage: Stage
    theatres: Sequence[Theatre]
    sent: Mapping[Cell, Sent]
    seen: Mapping[Cell, Seen]

    def one(self, outcome: str, acknowledged: str, pool: str) -> Seen:
        """Return one cell's end."""
        (found,) = (
            cell for cell in CELLS if (cell.outcome, cell.acknowledged, cell.pool) == (outcome, acknowledged, pool)
        )
        return self.seen[found]


def _play(stage: Stage, played: Sequence[Cell]) -> Play:
    """Bring all cells about at once, and look at them when nothing more happens."""
    groups = _groups(played)
    with ThreadPoolExecutor() as threads:
        theatres = list(threads.map(lambda group: _open(stage, group[0].pool), groups))
        parts = threads.map(Theatre.play, theatres, groups)
        sent = {cell: one for part in parts for cell, one in part.items()}

    def look(at: Mapping[Cell, Sent]) -> dict[Cell, Seen]:
        found: dict[Cell, Seen] = stage.web(seen, at, stage.target.all_effects())
        return found

    awaited = dict(sent)

    def all_ended() -> bool:
        for cell, one in look(awaited).items():
            if one.said == cell.expected:
                del awaited[cell]
        return not awaited

    # What has not come by then fails its own test, with what came instead.
    with suppress(TimeoutError):
        wait_until(all_ended, PATIENCE_S, "all ends", 1)
    time.sleep(SETTLE_S)
    return Play(stage, theatres, sent, look(sent))


def _groups(played: Sequence[Cell]) -> list[list[Cell]]:
    """Put together what one worker plays: a pool whose children are killed all the time forgets to limit others."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in played:
        # One that shuts its worker down has it for itself.
        manner = "cold" if cell.outcome == "cold shutdown" else "violent" if cell.outcome in VIOLENT else ""
        groups.setdefault((cell.pool, manner), []).append(cell)
    return list(groups.values())


def _open(stage: Stage, pool: str) -> Theatre:
    queue = f"{stage.queue}-{fresh()}"
    worker = stage.start(queue, pool=pool, concurrency=CONCURRENCY[pool], ready_timeout_s=60)
    return Theatre(stage, queue, worker)


@pytest.fixture(scope="module")
def play(make_stage: StageMaker) -> Any:
    """Play the table: all of it, or what is not left to a deep run."""
    cells = [cell for cell in CELLS if is_deep() or not DEEP.search(f"test_outcomes.py::{cell.pool}")]
    with make_stage("outcome_app", settings=SETTINGS) as lent:
        yield _play(lent, cells)


@pytest.fixture(scope="module")
def play_on_rabbitmq(make_stage: StageMaker, rabbitmq_url: str) -> Any:
    """Play where RabbitMQ may make a difference."""
    with make_stage("outcome_app", broker=rabbitmq_url, settings={**SETTINGS, "broker_transport_options": {}}) as lent:
        yield _play(lent, ON_RABBITMQ)


@pytest.fixture
def stage(play: Play) -> Stage:
    """Lend the stage, whose logs are shown below a failure."""
    return play.stage


def test_the_docs_have_this_table() -> None:
    assert markdown() in (ROOT / "docs/explanation/outcomes.md").read_text()


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_job_ends_as_the_table_says(cell: Cell, play: Play, stage: Stage) -> None:
    end = play.seen[cell]
    assert end.said == cell.expected, stage.story(*filter(None, [end.job]))


@pytest.mark.parametrize("cell", ON_RABBITMQ, ids=str)
def test_a_job_ends_the_same_on_rabbitmq(cell: Cell, play_on_rabbitmq: Play) -> None:
    assert play_on_rabbitmq.seen[cell].said == cell.expected
    _keeps_its_message(cell, play_on_rabbitmq)


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.letter], ids=str)
def test_its_letter_keeps_the_original_message(cell: Cell, play: Play) -> None:
    _keeps_its_message(cell, play)


def _keeps_its_message(cell: Cell, play: Play) -> None:
    letter, reference = play.seen[cell].letter, play.sent[cell].reference
    assert letter is not None
    if cell.outcome in RAW:
        assert unpacked(letter) == raw_wire(cell.outcome, reference)[1].body
    else:
        assert reference.encode() in unpacked(letter)


NEVER_BEGUN = [cell for cell in CELLS if cell.job and not cell.attempts]


@pytest.mark.parametrize("cell", NEVER_BEGUN, ids=str)
def test_what_never_began_has_no_effect_and_tells_of_its_end(cell: Cell, play: Play) -> None:
    job = play.seen[cell].job
    assert job is not None
    assert (job.attempts, play.stage.effects(play.sent[cell].reference, "begun")) == (0, 0)
    assert [event.name for event in play.stage.events(job)] == [cell.letter or cell.job]


def test_the_workers_go_on_whatever_they_were_given(play: Play) -> None:
    for theatre in play.theatres:
        assert theatre.worker.running, theatre.worker.options.pool
        assert theatre.goes_on()


RETRY = {"cause": "builtins.KeyError", "retry": 1, "of": 2}
HARD = {
    "error": "billiard.exceptions.TimeLimitExceeded", "limit": "hard", "limit_s": LIMIT_S,
    "message": f"it ran longer than its hard time limit of {LIMIT_S} s",
}  # fmt: skip
FACTS: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("soft time limit", "early", "prefork", "failed", {"limit": "soft", "limit_s": LIMIT_S}),
    ("hard time limit", "early", "prefork", "hard_time_limit", HARD),
    ("hard time limit", "late", "gevent", "hard_time_limit", HARD),
    ("retries exhausted", "early", "threads", "retry_scheduled", RETRY),
    ("child killed", "early", "prefork", "worker_lost", {"error": "billiard.exceptions.WorkerLostError"}),
    ("child killed", "retried", "prefork", "worker_lost", {"retried_in_s": 1.0}),
    ("unknown task", "early", "solo", "unknown_task", {"error": "celery.exceptions.NotRegistered"}),
    ("broken JSON", "early", "prefork", "undecodable", {"error": "kombu.exceptions.DecodeError"}),
]


@pytest.mark.parametrize(("outcome", "acknowledged", "pool", "event", "facts"), FACTS)
def test_the_trace_says_what_led_to_it(
    outcome: str, acknowledged: str, pool: str, event: str, facts: dict[str, Any], play: Play
) -> None:
    job = play.one(outcome, acknowledged, pool).job
    assert job is not None
    told = [one.attributes for one in play.stage.events(job) if one.name == event]
    assert told
    assert facts.items() <= told[0].items()


SORTS = [
    ("unknown task", Reason.UNKNOWN_TASK, Category.PERMANENT),
    ("broken JSON", Reason.UNDECODABLE, Category.VALIDATION),
    ("content type that is not accepted", Reason.UNDECODABLE, Category.VALIDATION),
]


@pytest.mark.parametrize(("outcome", "reason", "category"), SORTS)
def test_what_no_task_can_be_made_of_is_no_case_for_a_retry(
    outcome: str, reason: Reason, category: Category, play: Play
) -> None:
    letter = play.one(outcome, "early", "prefork").letter
    assert letter is not None
    assert (letter.reason, letter.category) == (reason, category)
    assert letter.error_message


def test_a_letter_has_all_attempts_however_the_message_is_acknowledged(play: Play) -> None:
    for acknowledged, mode in (("early", AckMode.EARLY), ("late", AckMode.LATE_ACKS_LOSS)):
        end = play.one("retries exhausted", acknowledged, "prefork")
        assert end.job is not None
        assert end.letter is not None
        assert (end.job.ack, end.letter.attempts) == (mode, 3)
