"""Messages of others: without our header, with a newer one, moved about by other integrations, by other languages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery, chain
from pytest_celery import CeleryTestSetup, CeleryWorkerCluster

from celery_replay.states import Outcome
from tests.end_to_end import wire
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage, fresh, references, wait_for
from tests.end_to_end.wire import Wire
from tests.support.local_nodes import LocalCeleryWorker, LocalWorker
from tests.support.remote import Remote
from tests.support.versions import needs
from tests.support.workers import Workers


@pytest.fixture(scope="module")
def stage(make_stage: StageMaker) -> Iterator[Stage]:
    with make_stage("interop_app") as lent:
        lent.start(concurrency=3)
        yield lent


@pytest.fixture(scope="module")
def legacy(stage: Stage) -> Remote:
    """A process with plain Celery: no task, no signal handler, nothing of ours."""
    return stage.producer("interop_plain")


def _send(app: Any, task: str, *args: Any, **options: Any) -> str:
    return str(app.send_task(task, args, **options).id)


def _call(app: Any, task: str, *args: Any, **options: Any) -> str:
    return str(app.tasks[task].apply_async(args, **options).id)


def _chain(app: Any, *steps: tuple[Any, ...]) -> str:
    return str(chain(app.signature(step[0], step[1:]) for step in steps).apply_async().id)


def test_a_message_without_our_header_runs_retries_and_is_traced(stage: Stage, legacy: Remote) -> None:
    name, link = references(2)
    task_id = legacy(_send_linked, "ours", [name, 2], link)
    value = stage.result(task_id)
    wait_for(lambda: stage.effects(link), "link called")
    stage.settle()
    job = stage.job(task_id=task_id)
    assert (job.generation, job.attempts, job.status) == (2, 3, Outcome.SUCCEEDED)
    assert (stage.effects(name, "tries"), stage.effects(name), stage.effects(link)) == (3, 1, 1)
    assert value["header"]["s"] == job.submission
    assert "started" in stage.event_names(job)


def _send_linked(app: Any, task: str, args: list[Any], link: str) -> str:
    return str(app.send_task(task, args, link=app.signature("after", (link,))).id)


def test_keys_of_messages_without_our_header_are_computed_by_the_worker(stage: Stage, legacy: Remote) -> None:
    key = fresh()
    ids = [legacy(_send, "order", key) for _ in range(3)] + [stage.web(_send, "order", key)]
    for task_id in ids:
        stage.result(task_id)
    stage.settle()
    assert stage.effects(key) == 1
    assert sorted(str(stage.job(task_id=task_id).status) for task_id in ids) == ["deduplicated"] * 3 + ["succeeded"]


def test_copies_of_a_message_without_our_header_run_once(stage: Stage, legacy: Remote) -> None:
    name, link = references(2)
    side = f"side-{name}"
    task_id = legacy(_send_linked_to, side, name, link)
    (message,) = stage.web(wire.take, side, 1)
    assert "celery_replay" not in message.headers
    stage.web(wire.put, stage.queue, *[message] * 5)
    stage.result(task_id)
    stage.web(wire.put, stage.queue, *[message] * 5)
    wait_for(lambda: stage.effects(link), "link called")
    stage.settle()
    assert (stage.effects(name, "tries"), stage.effects(link)) == (1, 1)


def _send_linked_to(app: Any, queue: str, name: str, link: str) -> str:
    return str(app.send_task("ours", (name,), queue=queue, link=app.signature("after", (link,))).id)


def test_a_chain_begun_by_a_producer_of_plain_celery_is_one_correlation_from_then_on(
    stage: Stage, legacy: Remote
) -> None:
    one, two, three = references(3)
    last = legacy(_chain, ("ours", one, 1), ("after", two), ("after", three))
    stage.result(last)
    stage.settle()
    assert [stage.effects(name) for name in (one, two, three)] == [1, 1, 1]
    third = stage.job(task_id=last)
    assert len([job for job in stage.jobs() if job.correlation_id == third.correlation_id]) == 3


def _newer(stage: Stage, task: str, *args: Any) -> tuple[str, Wire]:
    side = f"side-{fresh()}"
    task_id = stage.web(_send, task, *args, queue=side)
    (message,) = stage.web(wire.take, side, 1)
    table = {**message.headers["celery_replay"], "v": 9, "zz": {"later": [1, None, "x"]}}
    return task_id, Wire(message.body, {**message.headers, "celery_replay": table}, properties=message.properties)


def test_fields_of_a_newer_version_are_kept_over_retries(stage: Stage) -> None:
    name = fresh()
    task_id, message = _newer(stage, "ours", name, 2)
    stage.web(wire.put, stage.queue, message)
    value = stage.result(task_id)
    stage.settle()
    assert value["retries"] == 2
    assert value["header"]["zz"] == {"later": [1, None, "x"]}
    assert value["header"]["s"] == message.headers["celery_replay"]["s"]


def test_fields_of_a_newer_version_are_kept_while_a_job_is_parked(stage: Stage) -> None:
    key = fresh()
    stage.web(_send, "order", key, headers={"hold": True})
    wait_for(lambda: stage.effects(key, "held"), "the key is held")
    task_id, message = _newer(stage, "order", key)
    stage.web(wire.put, stage.queue, message)
    wait_for(stage.rows, "parked")
    stage.sign(key)
    assert stage.result(task_id)["header"]["zz"] == {"later": [1, None, "x"]}
    stage.settle()
    assert stage.effects(key) == 1


def test_headers_that_another_integration_moved_survive_retries_on_either_level(stage: Stage) -> None:
    name = fresh()
    # As error trackers leave it: a nested table beside the custom headers.
    custom = {"tenant": "north", "sentry-trace": "t-1", "baggage": "b=1"}
    task_id = stage.web(_send, "ours", name, 3, headers={**custom, "headers": dict(custom)})
    value = stage.result(task_id)
    stage.settle()
    job = stage.job(task_id=task_id)
    assert (value["retries"], value["custom"]) == (3, custom)
    assert value["header"]["s"] == job.submission
    assert (job.generation, job.attempts) == (3, 4)
    assert stage.effects(name) == 1


def test_our_header_is_found_where_only_the_nested_table_has_it(stage: Stage) -> None:
    side, name = references(2)
    task_id = stage.web(_send, "ours", name, 1, queue=side)
    (message,) = stage.web(wire.take, side, 1)
    stamp = message.headers.pop("celery_replay")
    stage.web(wire.put, stage.queue, Wire(message.body, {**message.headers, "headers": {"celery_replay": stamp}}))
    assert stage.result(task_id)["header"]["s"] == stamp["s"]
    stage.settle()
    assert stage.job(task_id=task_id).submission == stamp["s"]
    assert stage.effects(name) == 1


def test_a_header_table_grows_by_nothing_over_many_retries(stage: Stage) -> None:
    side, name = references(2)
    task_id = stage.web(_send, "ours", name, 8, queue=side, headers={"headers": {"tenant": "north"}})
    (message,) = stage.web(wire.take, side, 1)
    stage.web(wire.put, stage.queue, message)
    value = stage.result(task_id)
    before = message.headers["celery_replay"]
    assert value["header"].keys() == before.keys()
    assert len(json.dumps(value["header"])) == len(json.dumps(before))
    stage.settle()


def _bare(task: str, *args: Any, **fields: Any) -> tuple[str, Wire]:
    task_id = str(uuid4())
    body = {"id": task_id, "task": task, "args": list(args), "kwargs": {}, **fields}
    return task_id, Wire(json.dumps(body), {})


def test_a_message_of_protocol_1_as_other_languages_send_it_runs_retries_and_is_traced(stage: Stage) -> None:
    name = fresh()
    task_id, message = _bare("ours", name, 2)
    stage.web(wire.put, stage.queue, message)
    value = stage.result(task_id)
    stage.settle()
    job = stage.job(task_id=task_id)
    assert (value["retries"], job.generation, job.status) == (2, 2, Outcome.SUCCEEDED)
    assert stage.effects(name) == 1


def test_messages_of_protocol_1_have_keys_and_are_parked_and_come_back(stage: Stage) -> None:
    key = fresh()
    stage.web(_send, "order", key, headers={"hold": True})
    wait_for(lambda: stage.effects(key, "held"), "the key is held")
    task_id, message = _bare("order", key, utc=True, retries=0, expires=None)
    again, second = _bare("order", key)
    stage.web(wire.put, stage.queue, message, message, second)
    wait_for(lambda: len(stage.rows()) == 2, "parked")
    stage.sign(key)
    stage.result(task_id)
    stage.result(again)
    stage.settle()
    assert stage.effects(key) == 1
    outcomes = sorted(str(stage.job(task_id=one).status) for one in (task_id, again))
    assert outcomes == ["deduplicated", "succeeded"]


def test_a_header_that_is_no_header_of_ours_does_no_harm(stage: Stage) -> None:
    for rubbish in ("text", 7, [], {"s": 5}, {"s": "", "t": None}, {"v": 1}):
        name = fresh()
        side = f"side-{name}"
        task_id = stage.web(_send, "ours", name, 1, queue=side)
        (message,) = stage.web(wire.take, side, 1)
        stage.web(wire.put, stage.queue, Wire(message.body, {**message.headers, "celery_replay": rubbish}))
        assert stage.result(task_id)["retries"] == 1
        assert stage.effects(name) == 1
    stage.settle()


def test_a_retry_by_hand_inside_an_automatic_one_does_not_multiply(stage: Stage) -> None:
    name = fresh()
    task_id = stage.web(_call, "twice", name)
    assert "ValueError" in stage.result(task_id)
    stage.settle()
    assert stage.effects(name, "tries") == 4
    (letter,) = stage.letters(task_id)
    assert letter.attempts == 4


def test_a_retry_may_give_other_arguments(stage: Stage) -> None:
    name = fresh()
    task_id = stage.web(_call, "counting", name, 0)
    assert stage.result(task_id) == 3
    stage.settle()
    assert [stage.effects(f"{name}-{number}") for number in range(4)] == [1, 1, 1, 1]


def test_an_error_that_can_not_be_unpickled_harms_neither_worker_nor_letter(stage: Stage) -> None:
    one, two = references(2)
    failed = stage.web(_call, "awkward", one, False)
    retried = stage.web(_call, "awkward", two, True)
    wait_for(lambda: stage.letters(failed) and stage.letters(retried), "letters")
    stage.settle()
    (letter,) = stage.letters(failed)
    assert letter.error_type == "tests.end_to_end.apps.interop_app.Awkward"
    assert (letter.error_message, stage.effects(two, "tries")) == (f"one {one}", 2)


def test_two_tasks_that_share_one_id_are_two_jobs(stage: Stage, legacy: Remote) -> None:
    one, two, task_id = references(3)
    legacy(_send, "ours", one, task_id=task_id)
    legacy(_send, "after", None, two, task_id=task_id)
    wait_for(lambda: stage.effects(one) and stage.effects(two), "both run")
    stage.settle()
    assert (stage.effects(one), stage.effects(two)) == (1, 1)
    assert sorted(job.operation for job in stage.jobs(task_id=task_id)) == ["after", "ours"]


def test_plain_tasks_of_the_app_run_as_always_and_leave_no_record(stage: Stage) -> None:
    one, two, three = references(3)
    last = stage.web(_chain, ("ours", one), ("plain_after", two), ("after", three))
    stage.result(last)
    stage.settle()
    assert [stage.effects(name) for name in (one, two, three)] == [1, 1, 1]
    assert {job.operation for job in stage.jobs()} & {"plain", "plain_after"} == set()
    retried = stage.web(_send, "plain", one, 2)
    value = stage.result(retried)
    assert (stage.effects(one, "done"), value["attempt"]) == (2, False)
    assert stage.jobs(task_id=retried) == []


def test_a_task_that_replaces_itself_by_a_plain_one_is_over_and_nobody_waits_for_it(stage: Stage) -> None:
    name = fresh()
    task_id = stage.web(_send, "mixed", name)
    stage.result(task_id)
    stage.settle()
    assert (stage.effects(name, "tries"), stage.effects(name)) == (2, 1)
    job = stage.job(task_id=task_id)
    assert (job.status, job.reserved_until, job.canvas_advanced) == (Outcome.IGNORED, None, True)
    assert stage.letters(task_id) == []


def test_a_job_whose_result_is_ignored_is_done_all_the_same(stage: Stage) -> None:
    key = fresh()
    ids = [stage.web(_send, "order", key, ignore_result=True) for _ in range(3)]
    wait_for(lambda: stage.effects(key), "done")
    stage.settle()
    assert stage.effects(key) == 1
    assert [stage.state(one) for one in ids] == ["PENDING"] * 3
    # The store has the result: whoever asks for it later gets it.
    late = stage.web(_send, "order", key)
    assert stage.result(late)["header"]


@needs("celery", "5.7", "a retry forgets that its result was not wanted")
def test_a_retried_job_whose_result_is_ignored_is_done_all_the_same(stage: Stage) -> None:
    name = fresh()
    retried = stage.web(_send, "ours", name, 2, ignore_result=True)
    wait_for(lambda: stage.effects(name), "retried")
    stage.settle()
    assert (stage.effects(name), stage.state(retried)) == (1, "PENDING")
    assert stage.job(task_id=retried).generation == 2


def test_after_uninstalling_stamped_messages_run_as_plain_celery(stage: Stage) -> None:
    key, name, parked = references(3)
    before = len(stage.jobs())
    queue = f"{stage.queue}-uninstalled"
    stage.start(queue, env={"REPLAY_TEST_UNINSTALLED": "1"})
    order = stage.web(_call, "order", key, queue=queue)
    retried = stage.web(_call, "ours", name, 2, queue=queue)
    # Stamped when they were published, and still when they were retried.
    assert stage.result(order)["header"]["k"] == f"order:{key}"
    assert stage.result(retried)["retries"] == 2
    assert stage.effects(name, "tries") == 3
    assert len(stage.jobs()) == before
    # The same messages on a worker that has it: nothing is left behind that disturbs.
    assert stage.result(stage.web(_send, "order", parked))
    stage.settle()


@pytest.fixture
def celery_worker_cluster(
    workers: Workers, celery_worker_cluster_config: dict[str, dict[str, list[str]]]
) -> CeleryWorkerCluster:
    """Give pytest-celery a worker with tasks of ours; their store in memory can't be shared by processes."""
    config = celery_worker_cluster_config
    process = workers.start(
        "tests.end_to_end.apps.memory_app",
        pool="threads",
        concurrency=4,
        broker_url=config["celery_broker_cluster_config"]["urls"][0],
        result_backend=config["celery_backend_cluster_config"]["urls"][0],
    )
    return CeleryWorkerCluster(LocalCeleryWorker(LocalWorker(process), None))


def test_a_suite_that_uses_pytest_celery_runs_tasks_of_ours(celery_setup: CeleryTestSetup) -> None:
    app: Celery = celery_setup.app
    key = fresh()
    results = [app.send_task("order", (key,)) for _ in range(4)]
    assert len({result.get(timeout=30) for result in results}) == 1
    assert app.send_task("flaky", (key, 2)).get(timeout=30) == 2
    celery_setup.worker.assert_log_exists("succeeded")
