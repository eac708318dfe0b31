"""The table of `docs/explanation/guarantees.md`, lived through: real processes are killed at every moment of a job.

What is counted is counted outside: effects and callbacks at an HTTP server, and rows in a business table.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from pytest_django import DjangoDbBlocker
from celery import chord, signature
from celery.result import AsyncResult
from celery_replay.states import LetterState

from tests.end_to_end.apps.killpoints import CHILD, GROUP, arm, arrived
from tests.end_to_end.apps.mortal import EFFECTS_TABLE, WITNESS_QUEUE, job_name
from tests.end_to_end.world import World, world
from tests.support.counting_server import CountingServer
from tests.support.net import wait_until
from tests.support.redis_server import flush
from tests.support.workers import Workers

# Job, link or chord body counted, and how it ends: "lost" is FAILURE where the worker's parent lives, else PENDING for
# ever. "letter": an open dead letter. "unknown": the job is marked as one whose canvas may not have been sent on.
# The last column is of a lost pool child: where the whole worker dies, both kinds of late acknowledgement are the same.
TABLE = """
when it is killed            | declared    | early            | late             | late, loss acknowledged
before OPEN                  | nothing     | 0 0 lost         | 1 1 SUCCESS      | 0 0 lost
before OPEN                  | verify      | 0 0 lost         | 1 1 SUCCESS      | 0 0 lost
in the body                  | nothing     | 0 0 lost letter  | 1 1 SUCCESS      | 0 0 lost letter
in the body                  | verify      | 0 0 lost letter  | 1 1 SUCCESS      | 0 0 lost letter
in the body                  | resume      | 0 0 lost letter  | 1 1 SUCCESS      | 0 0 lost letter
in the body                  | dead_letter | 0 0 lost letter  | 0 0 FAILURE letter | 0 0 lost letter
in the body                  | atomic      | 0 0 lost letter  | 1 1 SUCCESS      | 0 0 lost letter
between effect and CLOSE     | nothing     | 1 0 lost letter  | 2 1 SUCCESS      | 1 0 lost letter
between effect and CLOSE     | verify      | 1 0 lost letter  | 1 1 SUCCESS      | 1 0 lost letter
between effect and CLOSE     | resume      | 1 0 lost letter  | 2 1 SUCCESS      | 1 0 lost letter
between effect and CLOSE     | dead_letter | 1 0 lost letter  | 1 0 FAILURE letter | 1 0 lost letter
between effect and CLOSE     | atomic      | 1 0 lost letter  | 1 1 SUCCESS      | 1 0 lost letter
between CLOSE and canvas     | nothing     | 1 0 lost unknown | 1 1 SUCCESS      | 1 0 lost unknown
between CLOSE and canvas     | resume      | 1 0 lost unknown | 1 1 SUCCESS      | 1 0 lost unknown
between CLOSE and canvas     | atomic      | 1 0 lost unknown | 1 1 SUCCESS      | 1 0 lost unknown
between canvas and its flag  | nothing     | 1 1 SUCCESS      | 1 1 SUCCESS      | 1 1 SUCCESS
between canvas and its flag  | verify      | 1 1 SUCCESS      | 1 1 SUCCESS      | 1 1 SUCCESS
between flag and ack         | nothing     | 1 1 SUCCESS      | 1 1 SUCCESS      | 1 1 SUCCESS
between flag and ack         | resume      | 1 1 SUCCESS      | 1 1 SUCCESS      | 1 1 SUCCESS
between retry and its CLOSE  | nothing     | 1 1 SUCCESS      | 1 1 SUCCESS      | 1 1 SUCCESS
between retry and its CLOSE  | resume      | 1 1 SUCCESS      | 1 1 SUCCESS      | 1 1 SUCCESS
between retry's CLOSE and ack| nothing     | 1 1 SUCCESS      | 1 1 SUCCESS      | 1 1 SUCCESS
between retry's CLOSE and ack| resume      | 1 1 SUCCESS      | 1 1 SUCCESS      | 1 1 SUCCESS
chord: CLOSE and part        | nothing     | 1 0 lost unknown | 1 1 SUCCESS      | 1 0 lost unknown
chord: result and part       | nothing     | 1 0 SUCCESS unknown | 1 1 SUCCESS   | 1 0 SUCCESS unknown
chord: part and its flag     | nothing     | 1 1 SUCCESS      | 1 1 SUCCESS      | 1 1 SUCCESS
"""

POINTS = {
    "before OPEN": "open",
    "in the body": "body",
    "between effect and CLOSE": "effect",
    "between CLOSE and canvas": "close",
    "between canvas and its flag": "canvas",
    "between flag and ack": "flag",
    "between retry and its CLOSE": "effect",
    "between retry's CLOSE and ack": "close",
    "chord: CLOSE and part": "close",
    "chord: result and part": "result",
    "chord: part and its flag": "canvas",
}
WAVE = 20
"""Jobs that die together with one worker."""
SETTLE_S = 4
"""Watched after everything has come as expected: longer than the visibility timeout and every lease."""


@dataclass(frozen=True)
class Cell:
    """One death, and what shall become of the job."""

    moment: str
    declared: str
    acknowledged: str
    dies: str
    ends: str

    @property
    def reference(self) -> str:
        """Name the cell's job, its effects and its callbacks."""
        words = (self.moment, self.declared, self.acknowledged, self.dies)
        return re.sub(r"[^a-z_]+", "-", " ".join(words).lower())


def _cells() -> list[Cell]:
    rows = [[part.strip() for part in line.split("|")] for line in TABLE.strip().splitlines()[1:]]
    return [cell for row in rows for cell in _row(*row)]


def _row(moment: str, declared: str, early: str, late: str, loss_acknowledged: str) -> Iterator[Cell]:
    children = {"early": early, "late": late, "late_acks_loss": loss_acknowledged}
    for dies, expected in ((CHILD, children), (GROUP, {**children, "late_acks_loss": late})):
        for acknowledged, ends in expected.items():
            plain = ends.replace("lost", "FAILURE" if dies == CHILD else "PENDING")
            yield Cell(moment, declared, acknowledged, dies, plain)


CELLS = _cells()


class Play:
    """All deaths of the table, in as few workers as possible."""

    def __init__(self, stage: World, cells: list[Cell]) -> None:
        self.world = stage
        self.cells = cells
        self._results: dict[Cell, AsyncResult] = {}

    def run(self) -> dict[Cell, str]:
        """Let everybody die, wait for what comes after it, and tell how each job ended."""
        self.world.start(WITNESS_QUEUE, concurrency=2)
        alone = [cell for cell in self.cells if cell.dies == CHILD]
        together = [cell for cell in self.cells if cell.dies == GROUP]
        self._publish(alone, "alone")
        self.world.start("alone", concurrency=6)
        waves = [together[start : start + WAVE] for start in range(0, len(together), WAVE)]
        for number, wave in enumerate(waves):
            self._die_together(wave, f"wave{number}")
        self.world.start(*(f"wave{number}" for number in range(len(waves))), concurrency=4)
        # What has not come by then fails its own test, with what came instead.
        with suppress(TimeoutError):
            wait_until(lambda: all(self._seen(cell) == cell.ends for cell in self.cells), 60, "all ends", 0.5)
        time.sleep(SETTLE_S)
        return {cell: self._seen(cell) for cell in self.cells}

    def _publish(self, cells: list[Cell], queue: str) -> None:
        for cell in cells:
            arm(self.world.kills, POINTS[cell.moment], cell.reference, cell.dies)
            self._results[cell] = self._send(cell, queue)

    def _send(self, cell: Cell, queue: str) -> AsyncResult:
        app, reference = self.world.producer, cell.reference
        retry = {"retry": True} if "retry" in cell.moment else {}
        job = signature(
            job_name(cell.acknowledged, cell.declared), args=(reference,), kwargs=retry, app=app, options={"queue": queue}
        )
        if cell.moment.startswith("chord"):
            body = app.signature("witness.body", kwargs={"reference": reference}, queue=WITNESS_QUEUE)
            other = app.signature("witness.member", args=("member",), queue=WITNESS_QUEUE)
            return chord([job, other], app=app)(body).parent.results[0]
        link = app.signature("witness.callback", args=(reference,), immutable=True, queue=WITNESS_QUEUE)
        return job.apply_async(link=link)

    def _die_together(self, cells: list[Cell], queue: str) -> None:
        self._publish(cells, queue)
        worker = self.world.start(queue, concurrency=len(cells))
        there = [cell.reference for cell in cells]
        worker.wait_for(lambda: all(arrived(self.world.kills, reference) for reference in there), 60, "all at their places")
        worker.kill()

    def _seen(self, cell: Cell) -> str:
        effects = self.world.effects(cell.reference) + self._rows(cell)
        callbacks = self.world.effects(cell.reference, "callbacks")
        words = [str(effects), str(callbacks), self._results[cell].state]
        task_id = str(self._results[cell].id)
        letters = [letter for letter in self.world.store.letters(1000) if letter.task_id == task_id]
        if any(letter.state is LetterState.OPEN for letter in letters):
            words.append("letter")
        if not callbacks and any(job.canvas_unknown for job in self.world.store.find_jobs(task_id=task_id)):
            words.append("unknown")
        return " ".join(words)

    def _rows(self, cell: Cell) -> int:
        return self.world.sql(f"SELECT count(*) FROM {EFFECTS_TABLE} WHERE reference = '{cell.reference}'")[0][0]


@pytest.fixture(scope="module")
def ends(
    redis_url: str,
    postgres_dsn: str,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
    module_workers: Workers,
) -> Iterator[dict[Cell, str]]:
    """Tell how the job of each cell ended."""
    flush(redis_url)
    folder = tmp_path_factory.mktemp("deaths")
    with (
        django_db_blocker.unblock(),
        CountingServer() as target,
        world(
            "mortal", module_workers, folder, broker=redis_url, backend=redis_url, database=postgres_dsn, target=target
        ) as stage,
    ):
        stage.sql(f"CREATE TABLE IF NOT EXISTS {EFFECTS_TABLE} (reference text)")
        yield Play(stage, CELLS).run()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.reference)
def test_a_killed_job_ends_as_the_table_says(cell: Cell, ends: dict[Cell, str]) -> None:
    assert ends[cell] == cell.ends
