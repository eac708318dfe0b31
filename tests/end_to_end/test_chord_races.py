"""Many ends of a chord at the same moment, with results in Django's database; and many deaths."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import chord

from tests.end_to_end.apps.killpoints import CHILD, GROUP, PAUSE, arm, arrived, is_armed, let_go
from tests.end_to_end.conftest import RESULTS, StageMaker
from tests.end_to_end.stage import Stage, fresh, wait_for
from tests.end_to_end.test_chord_ends import BODIES, body_of, rows_left

PARTS = 20
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def crowd(database: dict[str, str], make_stage: StageMaker) -> Iterator[Stage]:
    """Lend a worker with a process for each part."""
    settings = {"broker_transport_options": {"visibility_timeout": 60}, "replay_lease_ttl": 10}
    with make_stage("chord_ends", backend=RESULTS, settings=settings, **database) as lent:
        lent.start(concurrency=PARTS, ready_timeout_s=90)
        yield lent


def _all_at(app: Any, names: list[str], body: str, moment: float) -> str:
    header = [app.signature("at", (name, moment)) for name in names]
    return str(chord(header, app.signature("gather", (names, body)), app=app).apply_async().id)


@pytest.mark.parametrize("round_", range(4))
def test_of_twenty_parts_that_end_at_once_one_sends_the_body(crowd: Stage, round_: int) -> None:
    body = fresh()
    names = [f"{body}-{number}" for number in range(PARTS)]
    task_id = crowd.web(_all_at, names, body, time.time() + 2.5)
    assert crowd.result(task_id) == body
    crowd.settle()
    assert (crowd.effects(body), crowd.web(rows_left)) == (1, 0)
    assert len(crowd.jobs(task_id=task_id)) == 1


@pytest.fixture
def mortals(make_stage: StageMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Path]]:
    """Lend a stage whose workers can be killed, and the folder that tells where."""
    with make_stage("chord_ends", backend=RESULTS) as lent:
        yield lent, tmp_path_factory.mktemp("deaths")


def test_a_chord_that_is_the_body_ends_though_nobody_saw_its_parts_end(mortals: tuple[Stage, Path]) -> None:
    """They end before its row is committed, and who committed it dies before it has looked for them."""
    stage, folder = mortals
    stage.web(_two_last, "chord", "inner")
    arm(folder, "delete", "inner-last", PAUSE)
    arm(folder, "look", "inner-last", CHILD)
    stage.start(concurrency=4, env={"REPLAY_TEST_KILLS": str(folder)}, ready_timeout_s=60)
    parts = ["inner-body0", "inner-body1"]
    wait_for(lambda: all(stage.canvas_advanced(part) for part in parts), "the inner chord's parts have ended")
    let_go(folder, "inner-last")
    wait_for(lambda: not is_armed(folder, "look", "inner-last"), "the death")
    assert stage.effects("inner-body2") == 0
    wait_for(lambda: stage.effects("inner-body2"), "the inner chord's body")
    stage.settle()
    assert [stage.effects(f"inner-body{number}") for number in range(3)] == [1, 1, 1]
    assert stage.web(rows_left) == 0


def _two_last(app: Any, kind: str, reference: str) -> None:
    first, last = f"{reference}-first", f"{reference}-last"
    header = [app.signature("member", (first, [])), app.signature("member", (last, [first], False, "stored"))]
    chord(header, body_of(app, kind, reference, [first, last]), app=app).apply_async()


@pytest.mark.parametrize("at", ["publish", "delete"])
def test_two_members_die_together_one_of_them_as_it_sends_the_body(mortals: tuple[Stage, Path], at: str) -> None:
    """Each of them may be the one that sends it again."""
    stage, folder = mortals
    for kind in BODIES:
        arm(folder, "count", f"{kind}-first", GROUP)
        arm(folder, at, f"{kind}-last", GROUP)
        stage.web(_two_last, kind, kind)
    doomed = stage.start(concurrency=2 * len(BODIES), env={"REPLAY_TEST_KILLS": str(folder)}, ready_timeout_s=60)
    names = [f"{kind}-{which}" for kind in BODIES for which in ("first", "last")]
    wait_for(lambda: all(arrived(folder, name) for name in names), "all at their places")
    doomed.kill()
    stage.start(concurrency=4, env={"REPLAY_TEST_KILLS": str(folder)}, ready_timeout_s=60)
    expected = {f"{kind}-body{number}": 1 for kind, count in BODIES.items() for number in range(count)}
    wait_for(lambda: {name: stage.effects(name) for name in expected} == expected, "all bodies", 90)
    stage.settle()
    assert {name: stage.effects(name) for name in expected} == expected
    assert [stage.effects(name, "ran") for name in names] == [1] * len(names)
    assert stage.web(rows_left) == 0
