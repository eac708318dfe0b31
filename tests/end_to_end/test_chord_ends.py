"""The end of a chord with results in Django's database: real processes are killed at every moment of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from celery import chain, chord, group

from tests.end_to_end.apps.killpoints import CHILD, arm, is_armed
from tests.end_to_end.conftest import RESULTS, StageMaker
from tests.end_to_end.stage import Stage, wait_for

POINTS = {
    "before its result is stored": "store",
    "after its result is stored, before it is counted": "count",
    "after it is counted, before the body is published": "publish",
    "after the body is published, before the chord's row is deleted": "delete",
    "after the row is deleted, before the flag": "flag",
    "after the flag, before the acknowledgement": "ack",
}
FAILING = {
    "before its failure is stored": "store",
    "after its failure is stored, before it is counted": "count",
    "before the chord is told": "fail",
    # Its error callback, which Celery calls on the spot, is called again: nobody knows that it was.
    "while the chord is told": "failed",
    "after the chord is told, before the outer chord is": "tell",
    "after the outer chord is told": "told",
    "before the flag": "flag",
    "before the acknowledgement": "ack",
}
BODIES = {"task": 1, "chain": 2, "group": 2, "chord": 3}
"""How many effects each kind of body has."""
PATIENCE_S = 120
SETTLE_S = 5
"""Watched after everything has come as expected: longer than the visibility timeout and every lease."""


@dataclass(frozen=True)
class Cell:
    """One death of a chord's last member."""

    moment: str
    body: str = "task"
    fails: bool = False

    @property
    def point(self) -> str:
        """Where the member dies."""
        return (FAILING if self.fails else POINTS)[self.moment]

    @property
    def reference(self) -> str:
        """Name the chord and its effects."""
        return f"{'failing' if self.fails else self.body}-{self.point}"

    @property
    def victim(self) -> str:
        """Name the member that dies."""
        return f"{self.reference}-0"

    @property
    def others(self) -> list[str]:
        """Name the other members."""
        return [f"{self.reference}-{number}" for number in (1, 2)]

    @property
    def ends(self) -> dict[str, int]:
        """What shall be counted in the end."""
        ran = dict.fromkeys([f"ran {name}" for name in (self.victim, *self.others)], 1)
        if self.fails:
            told = 2 if self.point == "failed" else 1
            return {**ran, "failed inner": told, "failed outer": 1, "done body0": 0, "done outer": 0}
        return {**ran, **{f"done body{number}": 1 for number in range(BODIES[self.body])}}


SUCCEEDING = [Cell(moment, body) for moment in POINTS for body in BODIES]
CELLS = [*SUCCEEDING, *(Cell(moment, fails=True) for moment in FAILING)]


# What runs in the producer


def publish(app: Any, cells: Sequence[Cell]) -> None:
    """Publish each cell's chord; the victim last, as it waits for the others."""
    for cell in cells:
        _chord_of(app, cell).apply_async()


def _chord_of(app: Any, cell: Cell) -> Any:
    names = [*cell.others, cell.victim]
    header = [app.signature("member", (name, [])) for name in cell.others]
    header.append(app.signature("member", (cell.victim, cell.others, cell.fails)))
    body = body_of(app, cell.body, cell.reference, names)
    if not cell.fails:
        return chord(header, body, app=app)
    body.link_error(_errback(app, f"{cell.reference}-inner"))
    outer = app.signature("gather", ([], f"{cell.reference}-outer"))
    outer.link_error(_errback(app, f"{cell.reference}-outer"))
    beside = app.signature("after", ("", f"{cell.reference}-beside"), immutable=True)
    return chord([beside, chord(header, body, app=app)], outer, app=app)


def body_of(app: Any, kind: str, reference: str, names: list[str]) -> Any:
    """Make a body of this kind, whose effects are `reference-body0` and so on, for members of these names."""
    first, second, third = (f"{reference}-body{number}" for number in range(3))
    gather = app.signature("gather", (names, first))
    if kind == "chain":
        return chain(gather, app.signature("after", (second,)))
    if kind == "group":
        return group(gather, app.signature("gather", (names, second)))
    if kind == "chord":
        return chord([gather, app.signature("gather", (names, second))], app.signature("after", (third,)), app=app)
    return gather


def _errback(app: Any, reference: str) -> Any:
    return app.signature("failed", kwargs={"reference": reference})


def rows_left(app: Any) -> int:
    """Count chords that are not over."""
    from django_celery_results.models import ChordCounter

    return int(ChordCounter.objects.count())


# What is seen from outside


def _seen(stage: Stage, cell: Cell) -> dict[str, int]:
    found = {}
    for wanted in cell.ends:
        what, _, of = wanted.partition(" ")
        found[wanted] = stage.effects(of if what == "ran" else f"{cell.reference}-{of}", what)
    return found


def _play(stage: Stage, folder: Path, cells: Sequence[Cell]) -> dict[Cell, dict[str, int]]:
    """Let each chord's last member kill the pool child that has it, all in one worker that lives on."""
    for cell in cells:
        arm(folder, cell.point, cell.victim, CHILD)
    stage.web(publish, cells)
    stage.start(concurrency=6, env={"REPLAY_TEST_KILLS": str(folder)}, ready_timeout_s=60)
    return _ends(stage, cells)


def _ends(stage: Stage, cells: Sequence[Cell]) -> dict[Cell, dict[str, int]]:
    # What has not come by then fails its own test, with what came instead.
    with suppress(TimeoutError):
        wait_for(lambda: all(_seen(stage, cell) == cell.ends for cell in cells), "all ends", PATIENCE_S)
    time.sleep(SETTLE_S)
    return {cell: _seen(stage, cell) for cell in cells}


@pytest.fixture(scope="module")
def deaths(
    database: dict[str, str], make_stage: StageMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[Cell, dict[str, int]], Path, int]]:
    """Let all chords' last members die, on one kind of database."""
    folder = tmp_path_factory.mktemp("deaths")
    # No message is lost with its child, so a visibility timeout plays no part.
    settings = {"broker_transport_options": {"visibility_timeout": 60}, "replay_lease_ttl": 2}
    with make_stage("chord_ends", backend=RESULTS, settings=settings, **database) as lent:
        seen = _play(lent, folder, CELLS)
        yield seen, folder, lent.web(rows_left)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.reference)
def test_a_chord_ends_once_whenever_its_last_member_dies(cell: Cell, deaths: Any) -> None:
    seen, folder, _ = deaths
    assert not is_armed(folder, cell.point, cell.victim), "nobody came there"
    assert seen[cell] == cell.ends


@pytest.mark.timeout(600)
def test_no_chord_is_left_waiting(deaths: Any) -> None:
    assert deaths[2] == 0
