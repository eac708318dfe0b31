"""Chords whose members are parked, repeated, retried, replaced, killed and failed: the body runs exactly once."""

from __future__ import annotations

from typing import Any

import pytest
from celery import chord, group
from celery_replay.states import Outcome

from tests.end_to_end.stage import Stage, fresh, references, wait_for

Members = list[tuple[Any, ...]]


def _sig(app: Any, task: str, *args: Any) -> Any:
    return app.signature(task, args)


def _chord(app: Any, members: Members, body: str, error: str = "", queue: str | None = None) -> str:
    after = _sig(app, "gather", body)
    if error:
        after.link_error(app.signature("failed", kwargs={"reference": error}))
    header = [_sig(app, *member) for member in members]
    for member in header if queue else ():
        member.set(queue=queue)
    return str(chord(header, after).apply_async().id)


def _send(app: Any, task: str, *args: Any, **options: Any) -> str:
    return str(_sig(app, task, *args).apply_async(**options).id)


def _running(canvas: Stage, key: str, what: str = "order") -> None:
    wait_for(lambda: canvas.effects(key, what), f"{what} {key} begun")


def _parked(canvas: Stage, count: int) -> None:
    wait_for(lambda: len(canvas.rows()) == count, f"{count} deliveries parked")


@pytest.mark.parametrize("n", range(6))
def test_a_member_whose_process_dies_is_brought_back_and_counts_once(n, canvas) -> None:
    body, dying, other = references(3)
    task_id = canvas.web(_chord, [("mortal", dying), ("done", other, other)], body)
    assert sorted(canvas.result(task_id)) == sorted([dying, other])
    canvas.settle()
    assert (canvas.effects(dying, "tries"), canvas.effects(dying), canvas.effects(body)) == (2, 1, 1)
    assert canvas.effects(other) == 1


def _dying_member(app: Any, dying: str, other: str, body: str, error: str) -> str:
    after = _sig(app, "gather", body)
    after.link_error(app.signature("failed", kwargs={"reference": error}))
    first = _sig(app, "counted", dying).set(headers={"dies": dying})
    return str(chord([first, _sig(app, "waits", other)], after).apply_async().id)


@pytest.mark.parametrize("n", range(6))
def test_a_member_that_dies_after_it_was_counted_as_the_last_counts_once(n, canvas) -> None:
    dying, other, body, error = references(4)
    canvas.sign(other)
    task_id = canvas.web(_dying_member, dying, other, body, error)
    assert sorted(canvas.result(task_id)) == sorted([dying, other])
    canvas.settle()
    assert (canvas.effects(dying), canvas.effects(dying, "died"), canvas.effects(other)) == (1, 1, 1)
    assert (canvas.effects(body), canvas.effects(error)) == (1, 0)


@pytest.mark.parametrize("n", range(6))
def test_a_member_that_dies_after_it_was_counted_while_others_run_on(n, canvas) -> None:
    dying, other, body, error = references(4)
    task_id = canvas.web(_dying_member, dying, other, body, error)
    wait_for(lambda: canvas.effects(dying, "died"), "the member died")
    try:
        wait_for(lambda: canvas.canvas_advanced(dying), "it came again", 20)
    except TimeoutError:
        print([j for j in canvas.jobs() if j.operation == "counted" and not j.canvas_advanced])
        print(canvas.rows())
        raise
    canvas.sign(other)
    wait_for(lambda: canvas.effects(other), 'x')
