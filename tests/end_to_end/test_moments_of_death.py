"""The table of `docs/explanation/guarantees.md`, lived through: real processes are killed at every moment of a job.

What is counted is counted outside: effects and callbacks at an HTTP server, and rows in a business table.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from celery import chord

from celery_replay.runtime import runtime_of
from celery_replay.states import LetterState
from tests.end_to_end.apps.killpoints import CHILD, GROUP, arm, arrived, is_armed
from tests.end_to_end.apps.project import EFFECTS_TABLE, LEASE_TTL_S, QUICK_REDIS
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage
from tests.support.net import wait_until
from tests.support.versions import needs, quick_redelivery
from tests.support.workers import WorkerProcess

# Job, link or chord body counted, and how it ends: "lost" is FAILURE where the worker's parent lives, else PENDING for
# ever. "letter": an open dead letter; "told": the same, where the parent lives to tell of it. "unknown": the job is
# marked as one whose canvas may not have been sent on.
# The last column is of a lost pool child: where the whole worker dies, both kinds of late acknowledgement are the same.
TABLE = """
when it is killed             | declared    | early               | late               | late, loss acknowledged
before OPEN                   | nothing     | 0 0 lost told       | 1 1 SUCCESS        | 0 0 lost told
before OPEN                   | verify      | 0 0 lost told       | 1 1 SUCCESS        | 0 0 lost told
in the body                   | nothing     | 0 0 lost letter     | 1 1 SUCCESS        | 0 0 lost letter
in the body                   | verify      | 0 0 lost letter     | 1 1 SUCCESS        | 0 0 lost letter
in the body                   | resume      | 0 0 lost letter     | 1 1 SUCCESS        | 0 0 lost letter
in the body                   | dead_letter | 0 0 lost letter     | 0 0 FAILURE letter | 0 0 lost letter
in the body                   | atomic      | 0 0 lost letter     | 1 1 SUCCESS        | 0 0 lost letter
between effect and CLOSE      | nothing     | 1 0 lost letter     | 2 1 SUCCESS        | 1 0 lost letter
between effect and CLOSE      | verify      | 1 0 lost letter     | 1 1 SUCCESS        | 1 0 lost letter
between effect and CLOSE      | resume      | 1 0 lost letter     | 2 1 SUCCESS        | 1 0 lost letter
between effect and CLOSE      | dead_letter | 1 0 lost letter     | 1 0 FAILURE letter | 1 0 lost letter
between effect and CLOSE      | atomic      | 1 0 lost letter     | 1 1 SUCCESS        | 1 0 lost letter
between CLOSE and canvas      | nothing     | 1 0 lost unknown    | 1 1 SUCCESS        | 1 0 lost unknown
between CLOSE and canvas      | resume      | 1 0 lost unknown    | 1 1 SUCCESS        | 1 0 lost unknown
between CLOSE and canvas      | atomic      | 1 0 lost unknown    | 1 1 SUCCESS        | 1 0 lost unknown
between canvas and its flag   | nothing     | 1 1 SUCCESS         | 1 1 SUCCESS        | 1 1 SUCCESS
between canvas and its flag   | verify      | 1 1 SUCCESS         | 1 1 SUCCESS        | 1 1 SUCCESS
between flag and ack          | nothing     | 1 1 SUCCESS         | 1 1 SUCCESS        | 1 1 SUCCESS
between flag and ack          | resume      | 1 1 SUCCESS         | 1 1 SUCCESS        | 1 1 SUCCESS
between retry and its CLOSE   | nothing     | 1 1 SUCCESS         | 1 1 SUCCESS        | 1 1 SUCCESS
between retry and its CLOSE   | resume      | 1 1 SUCCESS         | 1 1 SUCCESS        | 1 1 SUCCESS
between retry's CLOSE and ack | nothing     | 1 1 SUCCESS         | 1 1 SUCCESS        | 1 1 SUCCESS
between retry's CLOSE and ack | resume      | 1 1 SUCCESS         | 1 1 SUCCESS        | 1 1 SUCCESS
chord: CLOSE and part         | nothing     | 1 0 lost unknown    | 1 1 SUCCESS        | 1 0 lost unknown
chord: result and part        | nothing     | 1 0 SUCCESS unknown | 1 1 SUCCESS        | 1 0 SUCCESS unknown
chord: part and its flag      | nothing     | 1 1 SUCCESS         | 1 1 SUCCESS        | 1 1 SUCCESS
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
WAVE = 12
"""Jobs that die together with one worker: each has two connections, and a server has a hundred for all."""
PATIENCE_S = 150
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
            told, state = ("letter", "FAILURE") if dies == CHILD else ("", "PENDING")
            yield Cell(moment, declared, acknowledged, dies, ends.replace("told", told).replace("lost", state).strip())


CELLS = _cells()
ON_RABBITMQ = [cell for cell in CELLS if cell.dies == GROUP and cell.acknowledged == "late"]
"""Where the broker makes a difference."""
QUICK = {"replay_lease_ttl": LEASE_TTL_S}


class Play:
    """Deaths in as few workers as possible."""

    def __init__(self, lent: Stage, folder: Path) -> None:
        self.stage = lent
        self.folder = folder
        self.task_ids: dict[Cell, str] = {}
        self._sql(f"CREATE TABLE {EFFECTS_TABLE} (reference text)")

    def kill_children(self, cells: Sequence[Cell]) -> dict[Cell, str]:
        """Let each job kill the pool child that has it, all in one worker that lives on."""
        self._publish(cells, self.stage.queue)
        self._start(self.stage.queue, concurrency=6)
        return self._ends(cells)

    def kill_workers(self, cells: Sequence[Cell]) -> dict[Cell, str]:
        """Kill workers, each with many jobs in it; another one goes on with what they leave."""
        waves = [cells[start : start + WAVE] for start in range(0, len(cells), WAVE)]
        queues = [f"{self.stage.queue}-{number}" for number in range(len(waves))]
        for wave, queue in zip(waves, queues, strict=True):
            self._publish(wave, queue)
            worker = self._start(queue, concurrency=len(wave))
            worker.wait_for(lambda wave=wave: self._all_there(wave), PATIENCE_S, "all at their places")
            worker.kill()
        self._start(*queues, self.stage.queue, concurrency=6)
        return self._ends(cells)

    def _start(self, *queues: str, concurrency: int) -> WorkerProcess:
        env = {"REPLAY_TEST_KILLS": str(self.folder)}
        return self.stage.start(*queues, concurrency=concurrency, env=env, ready_timeout_s=PATIENCE_S)

    def _all_there(self, cells: Sequence[Cell]) -> bool:
        return all(arrived(self.folder, cell.reference) for cell in cells)

    def _publish(self, cells: Sequence[Cell], queue: str) -> None:
        for cell in cells:
            arm(self.folder, POINTS[cell.moment], cell.reference, cell.dies)
        self.task_ids |= dict(zip(cells, self.stage.web(publish, cells, queue, self.stage.queue), strict=True))

    def _ends(self, cells: Sequence[Cell]) -> dict[Cell, str]:
        """Wait for what comes after the deaths, and tell how each job ended."""
        awaited = list(cells)

        def all_ended() -> bool:
            while awaited and self._seen(awaited[-1]) == awaited[-1].ends:
                awaited.pop()
            return not awaited

        # What has not come by then fails its own test, with what came instead.
        with suppress(TimeoutError):
            wait_until(all_ended, PATIENCE_S, "all ends", 0.5)
        time.sleep(SETTLE_S)
        return {cell: self._seen(cell) for cell in cells}

    def _seen(self, cell: Cell) -> str:
        state, marks = self.stage.web(state_of, self.task_ids[cell])
        effects = self.stage.effects(cell.reference, "effects")
        if cell.declared == "atomic":
            effects = int(self._sql(f"SELECT count(*) FROM {EFFECTS_TABLE} WHERE reference = '{cell.reference}'"))
        callbacks = self.stage.effects(cell.reference, "callbacks")
        if callbacks:
            # Sent on after all, but nobody could know.
            marks.discard("unknown")
        if is_armed(self.folder, POINTS[cell.moment], cell.reference):
            marks.add("never killed")
        return " ".join([str(effects), str(callbacks), state, *sorted(marks)])

    def _sql(self, statement: str) -> Any:
        with psycopg.connect(self.stage.database, autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchone()[0] if cursor.description else None


# What runs in the producer


def publish(app: Any, cells: Sequence[Cell], queue: str, callbacks: str) -> list[str]:
    """Publish the jobs of cells; return their task ids."""
    return [_publish(app, cell, queue, callbacks) for cell in cells]


def _publish(app: Any, cell: Cell, queue: str, callbacks: str) -> str:
    retry = "retry" in cell.moment
    task = app.tasks[f"job.{cell.acknowledged}.{cell.declared}"]
    job = task.s(cell.reference, retry=retry).set(queue=queue)
    if not cell.moment.startswith("chord"):
        link = app.tasks["witness.callback"].si(cell.reference).set(queue=callbacks)
        return str(job.apply_async(link=link).id)
    body = app.tasks["witness.body"].s(cell.reference).set(queue=callbacks)
    member = app.tasks["witness.member"].s("member").set(queue=callbacks)
    return str(chord([job, member], app=app)(body).parent.results[0].id)


def state_of(app: Any, task_id: str) -> tuple[str, set[str]]:
    """Return Celery's state of a task, and how the job is marked in the store."""
    store = runtime_of(app).store
    marks = set()
    for job in store.find_jobs(task_id=task_id):
        letter = store.letter(job.submission)
        if letter and letter.state is LetterState.OPEN:
            marks |= {"letter"} if letter.message else {"letter", "payload lost"}
        marks |= {"unknown"} if job.canvas_unknown else set()
    return str(app.AsyncResult(task_id).state), marks


@pytest.fixture(scope="module")
def lost_children(make_stage: StageMaker, tmp_path_factory: pytest.TempPathFactory) -> dict[Cell, str]:
    """Kill pool children. A visibility timeout plays no part, so it is long enough for a busy machine."""
    settings = {"broker_transport_options": {**QUICK_REDIS, "visibility_timeout": 30}}
    with make_stage("mortal", settings={**QUICK, **settings}) as lent:
        return Play(lent, tmp_path_factory.mktemp("children")).kill_children([c for c in CELLS if c.dies == CHILD])


@pytest.fixture(scope="module")
def lost_workers(make_stage: StageMaker, tmp_path_factory: pytest.TempPathFactory) -> dict[Cell, str]:
    """Kill workers on Redis, which brings their messages after the visibility timeout."""
    with make_stage("mortal", settings=QUICK) as lent:
        return Play(lent, tmp_path_factory.mktemp("workers")).kill_workers([c for c in CELLS if c.dies == GROUP])


@pytest.fixture(scope="module")
def lost_workers_on_rabbitmq(
    make_stage: StageMaker, rabbitmq_url: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[Cell, str]:
    """Kill a worker on RabbitMQ, which brings its messages at once."""
    with make_stage("mortal", broker=rabbitmq_url, settings=QUICK) as lent:
        return Play(lent, tmp_path_factory.mktemp("rabbitmq")).kill_workers(ON_RABBITMQ)


SUCCESS_KEPT = needs("celery", "5.7", "a process that dies after its success was stored is taken for a failed part")


def _child(cell: Cell) -> Any:
    announced = cell.moment == "chord: part and its flag" and cell.acknowledged != "late"
    return pytest.param(cell, marks=SUCCESS_KEPT if announced else ())


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "cell", [_child(cell) for cell in CELLS if cell.dies == CHILD], ids=lambda cell: cell.reference
)
def test_a_job_whose_child_is_killed_ends_as_the_table_says(cell: Cell, lost_children: dict[Cell, str]) -> None:
    assert lost_children[cell] == cell.ends


@quick_redelivery
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.dies == GROUP], ids=lambda cell: cell.reference)
def test_a_job_whose_worker_is_killed_ends_as_the_table_says(cell: Cell, lost_workers: dict[Cell, str]) -> None:
    assert lost_workers[cell] == cell.ends


@pytest.mark.timeout(600)
@pytest.mark.parametrize("cell", ON_RABBITMQ, ids=lambda cell: cell.reference)
def test_a_job_ends_the_same_on_rabbitmq(cell: Cell, lost_workers_on_rabbitmq: dict[Cell, str]) -> None:
    assert lost_workers_on_rabbitmq[cell] == cell.ends
