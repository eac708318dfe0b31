"""A worker as pytest-celery sees it: started, killed, restarted and read through its nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_celery import CeleryTestSetup, CeleryWorkerCluster

from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage, fresh, wait_for
from tests.support.local_nodes import LocalCeleryWorker, LocalWorker
from tests.support.versions import quick_redelivery

RESULT_TIMEOUT_S = 40


@pytest.fixture
def stage(make_stage: StageMaker, clean_redis_url: str) -> Iterator[Stage]:
    """Lend a database and an effect counter for pytest-celery's worker."""
    settings = {"task_default_queue": "celery", "replay_lease_ttl": 2}
    with make_stage("jobs", broker=clean_redis_url, backend=clean_redis_url, settings=settings) as lent:
        yield lent


@pytest.fixture
def celery_worker_cluster(stage: Stage) -> CeleryWorkerCluster:
    """Give pytest-celery one worker with celery-replay in it."""
    process = stage.start("celery", concurrency=1, ready_timeout_s=60)
    return CeleryWorkerCluster(LocalCeleryWorker(LocalWorker(process), None))


def test_a_job_runs_and_its_duplicate_has_the_first_result(celery_setup: CeleryTestSetup, stage: Stage) -> None:
    reference = fresh()
    first = celery_setup.app.send_task("keyed", (reference,)).get(timeout=RESULT_TIMEOUT_S)
    assert celery_setup.app.send_task("keyed", (reference,)).get(timeout=RESULT_TIMEOUT_S) == first
    assert stage.effects(reference) == 1


@quick_redelivery
def test_a_job_whose_worker_node_is_killed_runs_once_the_node_is_back(
    celery_setup: CeleryTestSetup, stage: Stage
) -> None:
    reference, worker = fresh(), celery_setup.worker
    result = celery_setup.app.send_task("keyed_held", (reference,))
    wait_for(lambda: stage.effects(reference, "begun") == 1, "the body begins")
    worker.kill()
    assert not worker.ready()
    worker.restart()
    stage.sign(reference)
    assert result.get(timeout=RESULT_TIMEOUT_S) == reference
    assert stage.effects(reference) == 1


def test_a_job_whose_pool_process_is_killed_runs_in_the_next_one(celery_setup: CeleryTestSetup, stage: Stage) -> None:
    reference = fresh()
    result = celery_setup.app.send_task("keyed_held", (reference,))
    wait_for(lambda: stage.effects(reference, "begun") == 1, "the body begins")
    assert celery_setup.worker.container.process.kill_pool()
    wait_for(lambda: stage.effects(reference, "begun") == 2, "it begins again")
    stage.sign(reference)
    assert result.get(timeout=RESULT_TIMEOUT_S) == reference
    assert stage.effects(reference) == 1


def test_a_worker_node_restarts_with_its_steward(celery_setup: CeleryTestSetup, stage: Stage) -> None:
    worker, reference = celery_setup.worker, fresh()
    worker.restart()
    processes = [" ".join(info["cmdline"]) for info in worker.get_running_processes_info(["cmdline"])]
    assert sum("celery_replay.steward" in command for command in processes) == 1
    assert celery_setup.app.send_task("plain", (reference,)).get(timeout=RESULT_TIMEOUT_S)
    worker.assert_log_exists("succeeded")


def test_messages_of_a_producer_without_celery_replay_run_all_the_same(
    celery_setup: CeleryTestSetup, stage: Stage
) -> None:
    reference = fresh()
    result = celery_setup.app.send_task("late", (reference,))
    assert result.get(timeout=RESULT_TIMEOUT_S) == reference
    stage.settle()
    assert stage.job(task_id=result.id).canvas_advanced
    assert stage.effects(reference) == 1
