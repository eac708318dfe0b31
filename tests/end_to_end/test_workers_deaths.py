"""Workers that die again and again, or are paused for longer than a lease."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_replay.records import Letter
from celery_replay.states import Category, Outcome, Reason
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.sending import send
from tests.end_to_end.stage import Stage, fresh, references, wait_for
from tests.support.versions import quick_redelivery

READY_S = 60
CAP = 3
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def stage(make_stage: StageMaker) -> Iterator[Stage]:
    """Lend a stage without workers."""
    with make_stage("jobs", settings={"replay_poison_cap": CAP, "replay_lease_ttl": 2}) as lent:
        yield lent


@pytest.fixture(scope="module")
def poisoned(stage: Stage) -> str:
    """Start a worker for jobs that kill their children; return its queue."""
    queue = f"{stage.queue}-poison"
    # With the other workers' short visibility timeout: they give back what this one does not keep young.
    stage.start(queue, settings={"worker_prefetch_multiplier": 10}, concurrency=1, ready_timeout_s=READY_S)
    return queue


def _only_letter(stage: Stage, task_id: str) -> Letter:
    (letter,) = wait_for(lambda: stage.letters(task_id), "letter")
    return letter


@pytest.mark.parametrize("task", ["deadly", "leaving"])
def test_a_message_that_ends_its_worker_each_time_is_given_up_after_the_cap(
    stage: Stage, poisoned: str, task: str
) -> None:
    key = fresh()
    task_id = send(stage, task, key, queue=poisoned)
    assert "PoisonJob" in stage.result(task_id)
    assert stage.effects(key, "begun") == CAP
    letter = _only_letter(stage, task_id)
    assert (letter.reason, letter.category) == (Reason.POISON, Category.POISON)


def test_the_cap_follows_the_key_where_every_death_has_another_task_id(stage: Stage, poisoned: str) -> None:
    key = fresh()
    for _ in range(CAP):
        assert "WorkerLostError" in stage.result(send(stage, "deadly_once", key, queue=poisoned))
    last = send(stage, "deadly_once", key, queue=poisoned)
    assert "PoisonJob" in stage.result(last)
    assert stage.effects(key, "begun") == CAP
    assert _only_letter(stage, last).reason is Reason.POISON


def test_innocents_that_were_prefetched_beside_a_poison_job_stay_out_of_the_letters(
    stage: Stage, poisoned: str
) -> None:
    key, innocents = fresh(), references(9)
    task_ids = [send(stage, "late", reference, queue=poisoned) for reference in innocents[:4]]
    poison = send(stage, "deadly", key, queue=poisoned)
    task_ids += [send(stage, "late", reference, queue=poisoned) for reference in innocents[4:]]
    assert "PoisonJob" in stage.result(poison)
    assert [stage.result(task_id) for task_id in task_ids] == innocents
    assert [stage.effects(reference) for reference in innocents] == [1] * len(innocents)
    assert [letter for letter in stage.all_letters() if letter.task_id in task_ids] == []


@pytest.fixture
def empty_stage(make_stage: StageMaker) -> Iterator[Stage]:
    """Lend a stage of the test's own."""
    with make_stage("jobs", settings={"replay_lease_ttl": 2}) as lent:
        yield lent


@quick_redelivery
@pytest.mark.parametrize("woken", ["while the other one works", "after the other one has ended"])
def test_a_worker_that_was_paused_past_its_lease_writes_nothing(empty_stage: Stage, woken: str) -> None:
    stage, reference = empty_stage, fresh()
    paused = stage.start(concurrency=1, ready_timeout_s=READY_S)
    task_id = send(stage, "keyed_held", reference, callback=reference)
    wait_for(lambda: stage.effects(reference, "begun") == 1, "the first owner begins")
    paused.pause()
    other = stage.start(concurrency=1, ready_timeout_s=READY_S)
    wait_for(lambda: stage.effects(reference, "begun") == 2, "the next owner begins")
    if woken.startswith("while"):
        other.pause()
        paused.resume()
        stage.sign(reference)
        wait_for(lambda: "ignored" in paused.log(), "the first owner is refused")
        assert stage.rows(), "its message is acknowledged, so its delivery is parked"
        other.resume()
    else:
        stage.sign(reference)
        stage.result(task_id)
        paused.resume()
    assert stage.result(task_id) == reference
    wait_for(lambda: "stale_write_rejected" in stage.event_names(stage.job(task_id=task_id)), "the refusal is told")
    stage.settle()
    assert stage.effects(reference) == 2, "resume is at least once, by choice"
    assert stage.state(task_id) == "SUCCESS"
    assert stage.effects(reference, "after") == 1
    assert stage.job(task_id=task_id).status is Outcome.SUCCEEDED
    assert not stage.letters(task_id)
