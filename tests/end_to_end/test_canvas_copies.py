"""The same message again: what brokers do. It runs nothing, calls nothing and counts nothing a second time."""

from __future__ import annotations

import time
from typing import Any

import pytest
from celery import chain, chord

from celery_replay.states import Outcome
from tests.end_to_end import wire
from tests.end_to_end.stage import Stage, references, wait_for
from tests.end_to_end.wire import Wire

FLAG_S = 1.0
"""After this long the store knows that a canvas was sent on."""


def _sig(app: Any, task: str, *args: Any) -> Any:
    return app.signature(task, args)


def _publish(app: Any, queue: str, task: str, args: list[Any], link: str, error: str) -> str:
    signature = _sig(app, task, *args)
    signature.link(_sig(app, "after", link))
    signature.link_error(app.signature("failed", kwargs={"reference": error}))
    return str(signature.apply_async(queue=queue).id)


def _captured(canvas: Stage, *args: Any) -> tuple[str, Wire]:
    side = f"side-{args[-1]}"
    task_id = canvas.web(_publish, side, *args)
    (message,) = canvas.web(wire.take, side, 1)
    return task_id, message


def _copies(canvas: Stage, message: Wire, count: int) -> None:
    again = Wire(message.body, {**message.headers, "redelivered": True}, properties=message.properties)
    canvas.web(wire.put, canvas.queue, *[again] * count)


@pytest.mark.parametrize("pause_s", [0, FLAG_S], ids=["at once", "later"])
def test_copies_after_success_run_nothing_and_call_nothing(canvas: Stage, pause_s: float) -> None:
    name, link, error = references(3)
    task_id, message = _captured(canvas, "done", [name, 3], link, error)
    canvas.web(wire.put, canvas.queue, message)
    assert canvas.result(task_id) == 3
    time.sleep(pause_s)
    _copies(canvas, message, 5)
    wait_for(lambda: canvas.effects(link), "link called")
    canvas.settle()
    assert (canvas.effects(name), canvas.effects(link), canvas.effects(error)) == (1, 1, 0)
    assert canvas.state(task_id) == "SUCCESS"


def test_fifty_copies_at_once_run_once(canvas: Stage) -> None:
    name, link, error = references(3)
    task_id, message = _captured(canvas, "done", [name, 3], link, error)
    _copies(canvas, message, 50)
    assert canvas.result(task_id) == 3
    wait_for(lambda: canvas.effects(link), "link called")
    canvas.settle()
    assert (canvas.effects(name), canvas.effects(link), canvas.effects(error)) == (1, 1, 0)
    job = canvas.job(task_id=task_id)
    assert (job.status, job.attempts) == (Outcome.SUCCEEDED, 1)


def test_copies_while_the_first_runs_change_nothing(canvas: Stage) -> None:
    key, link, error = references(3)
    task_id, message = _captured(canvas, "order", [key, 1.5], link, error)
    canvas.web(wire.put, canvas.queue, message)
    wait_for(lambda: canvas.effects(key, "order"), "body begun")
    _copies(canvas, message, 3)
    time.sleep(0.5)
    assert canvas.state(task_id) == "PENDING"
    assert canvas.result(task_id) == key
    wait_for(lambda: canvas.effects(link), "link called")
    canvas.settle()
    assert (canvas.effects(key, "order"), canvas.effects(link), canvas.effects(error)) == (1, 1, 0)
    assert canvas.letters(task_id) == []


def test_copies_of_a_failed_job_neither_run_nor_call_its_error_callback(canvas: Stage) -> None:
    name, link, error = references(3)
    side = f"side-{name}"
    task_id = canvas.web(_publish_broken, side, name, error)
    (message,) = canvas.web(wire.take, side, 1)
    _copies(canvas, message, 3)
    wait_for(lambda: canvas.effects(error), "error callback")
    canvas.settle()
    _copies(canvas, message, 3)
    canvas.settle()
    assert (canvas.effects(name), canvas.effects(link), canvas.effects(error)) == (1, 0, 1)
    (letter,) = canvas.letters(task_id)
    assert letter.attempts == 1


def _publish_broken(app: Any, queue: str, name: str, error: str) -> str:
    signature = app.signature("broken", (name,), immutable=True)
    signature.link_error(app.signature("failed", kwargs={"reference": error}))
    return str(signature.apply_async(queue=queue).id)


def test_a_copy_of_the_first_delivery_does_not_run_beside_its_retries(canvas: Stage) -> None:
    name, link, error = references(3)
    task_id, message = _captured(canvas, "flaky", [name, 2, "kept"], link, error)
    _copies(canvas, message, 3)
    assert canvas.result(task_id) == "kept"
    _copies(canvas, message, 3)
    wait_for(lambda: canvas.effects(link), "link called")
    canvas.settle()
    assert (canvas.effects(name, "tries"), canvas.effects(name), canvas.effects(link)) == (3, 1, 1)


def test_two_publishes_of_one_intent_at_the_same_time_are_one_effect(canvas: Stage) -> None:
    key, *links = references(5)
    ids = [canvas.web(_linked_order, key, link) for link in links]
    assert [canvas.result(one) for one in ids] == [key] * 4
    wait_for(lambda: all(canvas.effects(link) for link in links), "links called")
    canvas.settle()
    assert canvas.effects(key, "order") == 1
    # Each of them was a job of its own, with a link of its own.
    assert [canvas.effects(link) for link in links] == [1] * 4
    assert sorted(str(canvas.job(task_id=one).status) for one in ids) == ["deduplicated"] * 3 + ["succeeded"]


def _linked_order(app: Any, key: str, link: str) -> str:
    return str(_sig(app, "order", key, 0.3).apply_async(link=_sig(app, "after", link)).id)


def test_a_copy_of_a_chains_first_task_does_not_start_the_chain_again(canvas: Stage) -> None:
    one, two, three = references(3)
    side = f"side-{one}"
    last = canvas.web(_chain_on, side, one, two, three)
    (message,) = canvas.web(wire.take, side, 1)
    _copies(canvas, message, 2)
    canvas.result(last)
    _copies(canvas, message, 2)
    canvas.settle()
    assert [canvas.effects(name) for name in (one, two, three)] == [1, 1, 1]


def _chain_on(app: Any, queue: str, one: str, two: str, three: str) -> str:
    first = _sig(app, "flaky", one, 1).set(queue=queue)
    return str(chain(first, _sig(app, "after", two), _sig(app, "after", three)).apply_async().id)


def _chord_on(app: Any, queue: str, members: list[str], body: str, error: str) -> str:
    after = _sig(app, "gather", body)
    after.link_error(app.signature("failed", kwargs={"reference": error}))
    header = [_sig(app, "done", name, name).set(queue=queue) for name in members]
    return str(chord(header, after).apply_async().id)


@pytest.mark.parametrize("pause_s", [0, FLAG_S], ids=["at once", "later"])
def test_a_header_task_that_comes_twice_counts_once(canvas: Stage, pause_s: float) -> None:
    body, error, *names = references(7)
    side = f"side-{body}"
    task_id = canvas.web(_chord_on, side, names, body, error)
    messages = canvas.web(wire.take, side, 5)
    canvas.web(wire.put, canvas.queue, messages[0])
    first = messages[0].headers["id"]
    canvas.result(first)
    time.sleep(pause_s)
    _copies(canvas, messages[0], 3)
    if pause_s:
        canvas.settle()
    assert (canvas.effects(body), canvas.state(task_id)) == (0, "PENDING")
    canvas.web(wire.put, canvas.queue, *messages[1:])
    assert sorted(canvas.result(task_id)) == sorted(names)
    canvas.settle()
    assert [canvas.effects(name) for name in names] == [1] * 5
    assert (canvas.effects(body), canvas.effects(error)) == (1, 0)


def test_all_header_tasks_twice_and_the_body_twice(canvas: Stage) -> None:
    body, error, *names = references(5)
    side = f"side-{body}"
    task_id = canvas.web(_chord_on, side, names, body, error)
    messages = canvas.web(wire.take, side, 3)
    canvas.web(wire.put, canvas.queue, *messages)
    for message in messages:
        _copies(canvas, message, 2)
    assert sorted(canvas.result(task_id)) == sorted(names)
    for message in messages:
        _copies(canvas, message, 2)
    canvas.settle()
    assert [canvas.effects(name) for name in names] == [1] * 3
    assert (canvas.effects(body), canvas.effects(error)) == (1, 0)
