"""States that are stored late: an older attempt's RETRY does not undo how the job ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.apps.killpoints import PAUSE, arm, arrived, let_go
from tests.end_to_end.conftest import RESULTS, StageMaker
from tests.end_to_end.sending import send
from tests.end_to_end.stage import Stage, fresh, references, wait_for
from tests.end_to_end.test_canvas_chords import _chord


@pytest.fixture(scope="module")
def late(
    database: dict[str, str], make_stage: StageMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Stage, Path]]:
    """Lend a worker whose jobs can be stopped, and the folder that tells where."""
    folder = tmp_path_factory.mktemp("late")
    with make_stage("results_app", backend=RESULTS, **database) as lent:
        lent.start(concurrency=3, env={"REPLAY_TEST_KILLS": str(folder)})
        yield lent, folder


def test_a_retry_that_is_noted_late_leaves_the_success_as_it_is(late: tuple[Stage, Path]) -> None:
    stage, folder = late
    name = fresh()
    arm(folder, "retry", name, PAUSE)
    task_id = send(stage, "flaky", name, 1, "kept")
    wait_for(lambda: arrived(folder, name), "the first attempt about to note its retry")
    assert stage.result(task_id) == "kept"
    let_go(folder, name)
    wait_for(lambda: stage.effects(name, "noted"), "the retry noted")
    stage.settle()
    assert (stage.state(task_id), stage.result(task_id)) == ("SUCCESS", "kept")
    assert stage.effects(name) == 1


def test_a_chord_ends_whose_member_notes_a_retry_late(late: tuple[Stage, Path]) -> None:
    stage, folder = late
    body, name, last = references(3)
    arm(folder, "retry", name, PAUSE)
    task_id = stage.web(_chord, [("flaky", name, 1, name), ("waits", last)], body)
    wait_for(lambda: stage.canvas_advanced(name), "the second attempt is through with everything")
    let_go(folder, name)
    wait_for(lambda: stage.effects(name, "noted"), "the retry noted")
    stage.sign(last)
    assert sorted(stage.result(task_id)) == sorted([name, last])
    stage.settle()
    assert [stage.effects(reference) for reference in (name, last, body)] == [1, 1, 1]
