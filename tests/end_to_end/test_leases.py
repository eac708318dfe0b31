"""Jobs that name resources, on workers of which one dies with all of its children."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import pytest

from celery_replay.states import Outcome
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.sending import send
from tests.end_to_end.stage import Stage, fresh, references, wait_for
from tests.support.versions import quick_redelivery

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def stage(make_stage: StageMaker) -> Iterator[Stage]:
    """Lend a stage without workers."""
    with make_stage("jobs", settings={"replay_lease_ttl": 2}) as lent:
        yield lent


@quick_redelivery
def test_a_resource_is_one_jobs_at_a_time_and_all_are_done_though_a_whole_worker_dies(stage: Stage) -> None:
    workers = [stage.start(concurrency=2) for _ in range(2)]
    orders, held = [fresh() for _ in range(3)], fresh()
    stage.target.delay_before_s = 0.02
    tasks = [send(stage, "leased", held, orders[0], True)]
    wait_for(lambda: stage.effects(held, "begun") == 1, "a job that has a resource")
    names = references(29)
    for number, (name, order) in enumerate(zip(names, cycle(orders), strict=False)):
        both = [orders[number % 3], orders[(number + 1) % 3]]
        tasks.append(send(stage, "leased_both", name, both) if number % 5 == 0 else send(stage, "leased", name, order))
    wait_for(lambda: len(stage.rows()) > 5, "a line")
    host = stage.job(task_id=tasks[0]).worker
    (dies,) = [worker for worker in workers if worker.hostname == host]
    dies.kill()
    stage.sign(held)

    assert [stage.result(task_id, 60) for task_id in tasks] == [held, *names]
    stage.settle()
    assert [stage.target.most_at_once("/order", order) for order in orders] == [1, 1, 1]
    assert all(stage.effects(name) >= 1 for name in (held, *names))
    assert {stage.job(task_id=task_id).status for task_id in tasks} == {Outcome.SUCCEEDED}
    assert not stage.all_letters()
