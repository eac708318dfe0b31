"""Dry runs by a worker of each pool: in a process of its own, and nothing real is changed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from celery_replay.clock import new_id
from celery_replay.dry_run import errand
from celery_replay.dry_run.orders import Changes, Order, give
from celery_replay.records import HistoryEntry, Letter
from celery_replay.runtime import runtime_of
from celery_replay.states import Verb
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage, fresh, wait_for
from tests.support.remote import Remote
from tests.support.workers import ROOT, WorkerProcess

POOLS = ("prefork", "threads", "solo")


@dataclass
class Place:
    """A worker that does dry runs, and one who asks it for them."""

    stage: Stage
    worker: WorkerProcess
    web: Remote
    queue: str

    def fails(self, reference: str, **how: Any) -> Letter:
        """Let a job fail; return its letter."""
        task_id = self.web(_send, "order", (reference,), how, self.queue)
        (letter,) = wait_for(lambda: self.stage.letters(task_id), "letter filed")
        return letter

    def asks(self, *letters: Letter, **changes: Any) -> str:
        """Ask for a trial of letters; return the command's id."""
        order = Order(
            operation_id=new_id(),
            actor="ann",
            letters={letter.submission: letter.revision for letter in letters},
            changes=Changes(**changes),
        )
        self.web(_give, order)
        return order.operation_id

    def told(self, operation_id: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many are told, and return what."""

        def tried() -> list[HistoryEntry]:
            found = [entry for entry in self.history(operation_id) if entry.verb is Verb.TRIED]
            return found if len(found) >= count else []

        return [json.loads(entry.details) for entry in wait_for(tried, "trial told")]

    def history(self, operation_id: str) -> list[HistoryEntry]:
        return list(self.web(_history, operation_id))


def _send(app: Any, task: str, args: tuple[Any, ...], kwargs: dict[str, Any], queue: str) -> str:
    return str(app.signature(task, args, kwargs).apply_async(queue=queue).id)


def _give(app: Any, order: Order) -> None:
    give(runtime_of(app), order)


def _history(app: Any, operation_id: str) -> Any:
    return runtime_of(app).store.history(operation_id=operation_id)


@pytest.fixture(scope="module")
def places(make_stage: StageMaker) -> Iterator[dict[str, Place]]:
    with make_stage("trial_app") as stage, ThreadPoolExecutor() as starter:

        def start(pool: str) -> Place:
            queue = f"{stage.queue}-{pool}"
            settings = {"replay_trial_queue": f"trials-{queue}"}
            worker = stage.start(queue, f"trials-{queue}", pool=pool, concurrency=1, settings=settings)
            return Place(stage, worker, stage.producer(**settings), queue)

        yield dict(zip(POOLS, starter.map(start, POOLS), strict=True))


@pytest.fixture
def stage(places: dict[str, Place]) -> Stage:
    """Lend the stage, whose logs are shown below a failure."""
    return places["solo"].stage


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_tells_how_a_job_would_end_and_does_nothing_real(
    places: dict[str, Place], stage: Stage, pool: str
) -> None:
    place, reference = places[pool], fresh()
    letter = place.fails(reference)
    operation = place.asks(letter)
    (told,) = place.told(operation)
    assert (told["mode"], told["ends"]) == ("dry-run", "fails_the_same_way"), json.dumps(told, indent=1)
    assert told["sandbox"].startswith("kernel: seccomp, landlock")
    assert [each["same"] for each in told["steps"]] == [True]
    assert [(e.verb, e.actor) for e in place.history(operation)] == [
        (Verb.TRIAL_WANTED, "ann"),
        (Verb.TRIAL_BEGUN, ""),
        (Verb.TRIED, ""),
    ]
    (told,) = place.told(place.asks(letter, args=json.dumps([reference]), kwargs='{"fails": false}'))
    assert (told["mode"], told["ends"], told["now"]["result"]) == ("fork", "succeeds", f"L-{reference}")
    assert stage.effects(reference) == 1
    assert {job.operation for job in stage.jobs()} <= {"order", "keep"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_interrupts_many_leaves_nothing_behind(
    places: dict[str, Place], stage: Stage, number: signal.Signals
) -> None:
    place = places["prefork"]
    letters = [place.fails(fresh()) for _ in range(2)]
    command = [sys.executable, "-m", "celery", "-A", stage.app, "replay", "dlq", "dry-run", "--jobs", "2"]
    env = {**stage.process_environment(), "TRIAL_SECONDS": "60"}
    with subprocess.Popen([*command, *(letter.submission for letter in letters)], env=env, cwd=ROOT) as typed:
        process = psutil.Process(typed.pid)
        wait_for(lambda: len(process.children()) == 2, "both begun")
        children = process.children()
        typed.send_signal(number)
        assert typed.wait(20) != 0
    assert not any(child.is_running() and _lives(child) for child in children)
    assert not [*Path("/dev/shm").glob(f"celery-replay-dry-run-{typed.pid}-*")]


@pytest.mark.parametrize("pool", POOLS)
def test_a_lock_that_a_thread_of_the_worker_keeps_holds_up_no_dry_run(
    places: dict[str, Place], stage: Stage, pool: str
) -> None:
    place = places[pool]
    letters = [place.fails(fresh()) for _ in range(2)]
    stage.result(place.web(_send, "keep", (), {}, place.queue))
    told = place.told(place.asks(*letters), count=2)
    assert {each["ends"] for each in told} == {"fails_the_same_way"}


def test_what_came_out_of_many_is_noted_with_their_group(places: dict[str, Place], stage: Stage) -> None:
    place = places["solo"]
    letters = [place.web(_letter, letter.submission) for letter in stage.all_letters()]
    place.told(place.asks(*letters), count=len(letters))
    sentence = f"dry run: {len(letters)} would fail in the same way"
    wait_for(lambda: sentence in place.web(_notes, letters[0].group_id), "noted")


def _letter(app: Any, submission: str) -> Any:
    return runtime_of(app).store.letter(submission)


def _notes(app: Any, group_id: str) -> list[str]:
    return [entry.text for entry in runtime_of(app).store.notes(group_id)]


def test_a_worker_that_is_killed_takes_its_dry_runs_with_it(make_stage: StageMaker) -> None:
    with make_stage("trial_app") as stage:
        queue = f"{stage.queue}-killed"
        settings = {"replay_trial_queue": f"trials-{queue}"}
        worker = stage.start(queue, f"trials-{queue}", pool="prefork", settings=settings)
        place = Place(stage, worker, stage.producer(**settings), queue)
        letter = place.fails(fresh())
        place.asks(letter, args=json.dumps([fresh()]), kwargs='{"seconds": 50}', variation={"stubs": {"buy": "L"}})
        found = wait_for(lambda: [p for p in worker.descendants() if _is_errand(p)], "errand begun")
        wait_for(lambda: [child for process in found for child in process.children()], "dry run begun")
        everybody = [*found, *(child for process in found for child in process.children(recursive=True))]
        folders = [Path("/dev/shm").glob(f"celery-replay-dry-run-{process.pid}-*") for process in found]
        worker.kill()
        wait_for(lambda: not any(process.is_running() and _lives(process) for process in everybody), "all ended")
        wait_for(lambda: not [folder for some in folders for folder in some], "cleaned up")


def _is_errand(process: psutil.Process) -> bool:
    try:
        return errand.COMMAND in process.cmdline()
    except psutil.Error:
        return False


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
