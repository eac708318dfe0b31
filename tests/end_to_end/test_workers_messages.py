"""Messages that their broker gives away although their holder lives, and copies that come all at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.end_to_end.apps.project import VISIBILITY_TIMEOUT_S
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.sending import send
from tests.end_to_end.stage import Stage, fresh, references, wait_for
from tests.end_to_end.wire import put, take
from tests.support.versions import quick_redelivery

READY_S = 60
LONG_S = 3 * VISIBILITY_TIMEOUT_S + 1
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def stage(make_stage: StageMaker) -> Iterator[Stage]:
    """Lend two workers that each take what the other one seems to have lost."""
    with make_stage("jobs") as lent:
        for _ in range(2):
            lent.start(concurrency=4, ready_timeout_s=READY_S)
        yield lent


@dataclass(frozen=True)
class Long:
    """A job that outlives its message's visibility timeout: in its body, or while it waits for its time."""

    task: str
    seconds: float = 0
    countdown: float = 0


LONG_JOBS = {
    "late, in its body": Long("late", LONG_S),
    "late, before its time": Long("late", 0, LONG_S),
    "early, before its time": Long("plain", 0, LONG_S),
    "keyed, in its body": Long("keyed", LONG_S),
    "keyed, both": Long("keyed", VISIBILITY_TIMEOUT_S + 1, LONG_S),
}


@dataclass(frozen=True)
class Sent:
    """A job that was published."""

    task_id: str
    reference: str


@pytest.fixture(scope="module")
def long_jobs(stage: Stage) -> dict[str, Sent]:
    """Run all long jobs side by side."""
    sent = {name: _send(stage, job) for name, job in LONG_JOBS.items()}
    for job in sent.values():
        stage.result(job.task_id)
    # A second holder would have begun within this time.
    time.sleep(VISIBILITY_TIMEOUT_S + 1)
    stage.settle()
    return sent


def _send(stage: Stage, job: Long) -> Sent:
    reference = fresh()
    args = (reference, job.seconds) if job.seconds else (reference,)
    return Sent(send(stage, job.task, *args, callback=reference, countdown=job.countdown or None), reference)


@pytest.mark.parametrize("name", LONG_JOBS)
def test_a_job_longer_than_the_visibility_timeout_runs_once(
    name: str, long_jobs: dict[str, Sent], stage: Stage
) -> None:
    reference = long_jobs[name].reference
    assert stage.effects(reference) == 1
    assert stage.effects(reference, "begun") == (0 if LONG_JOBS[name].task == "plain" else 1)
    assert stage.effects(reference, "after") == 1


@pytest.mark.parametrize("name", LONG_JOBS)
def test_the_message_of_a_long_job_is_never_given_to_another_worker(
    name: str, long_jobs: dict[str, Sent], stage: Stage
) -> None:
    names = stage.event_names(stage.job(task_id=long_jobs[name].task_id))
    assert names.count("received") == 1


@quick_redelivery
def test_without_message_lease_the_copy_is_parked_and_absorbed(make_stage: StageMaker) -> None:
    settings = {"replay_message_lease": False}
    with make_stage("jobs", settings=settings) as stage:
        for _ in range(2):
            stage.start(concurrency=2, ready_timeout_s=READY_S)
        sent = [_send(stage, Long(task, LONG_S)) for task in ("keyed", "late")]
        for job in sent:
            stage.result(job.task_id)
        stage.settle()
        for job in sent:
            counts = [stage.effects(job.reference, what) for what in ("begun", "done", "after")]
            assert counts == [1, 1, 1]
            names = stage.event_names(stage.job(task_id=job.task_id))
            assert names.count("received") > 1, "the message was given to somebody else"
            assert "parked" in names


def test_fifty_copies_on_a_barrier_over_several_workers_run_once(stage: Stage) -> None:
    reference, source = fresh(), f"{stage.queue}-source"
    task_id = send(stage, "barrier", reference, callback=reference, queue=source)
    (message,) = stage.web(take, source, 1)
    stage.web(put, stage.queue, *[message] * 50)
    wait_for(lambda: stage.effects(reference, "waiting") == 8, "every child stands at the barrier")
    stage.sign(reference)
    stage.result(task_id)
    wait_for(lambda: stage.effects(reference, "waiting") >= 50, "all copies came")
    stage.settle()
    assert stage.effects(reference) == 1
    assert stage.effects(reference, "after") == 1


def test_fifty_publishes_of_one_intent_on_a_barrier_over_several_workers_run_once(stage: Stage) -> None:
    reference = fresh()
    task_ids = [send(stage, "barrier", reference, callback=reference) for _ in range(50)]
    wait_for(lambda: stage.effects(reference, "waiting") == 8, "every child stands at the barrier")
    stage.sign(reference)
    assert {stage.result(task_id) for task_id in task_ids} == {reference}
    stage.settle()
    assert stage.effects(reference) == 1
    assert stage.effects(reference, "after") == 50, "each publish has its own callback"


def test_a_worker_that_is_asked_to_stop_amid_many_tiny_jobs_leaves_exact_effects(make_stage: StageMaker) -> None:
    with make_stage("jobs", settings={"worker_prefetch_multiplier": 4}) as stage:
        first = stage.start(concurrency=2, ready_timeout_s=READY_S)
        stage.start(concurrency=2, ready_timeout_s=READY_S)
        done = references(600)
        for number, reference in enumerate(done):
            send(stage, ("plain", "late", "keyed")[number % 3], reference)
        wait_for(lambda: sum(stage.effects(reference) for reference in done) > 100, "midway")
        assert first.stop(60) == 0
        first.start()
        wait_for(lambda: all(stage.effects(reference) for reference in done), "all effects", 90)
        stage.settle()
        assert {stage.effects(reference) for reference in done} == {1}
        assert not stage.all_letters()
