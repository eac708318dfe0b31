"""Chords whose members are parked, repeated, retried, replaced, killed and failed: the body runs exactly once."""

from __future__ import annotations

from typing import Any

import pytest
from celery import chord, group

from celery_replay.states import Outcome, Reason
from tests.end_to_end.stage import Stage, fresh, references, wait_for
from tests.end_to_end.test_triage_commands import Typist
from tests.support.versions import needs

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


def test_the_body_gets_every_result_once(canvas: Stage) -> None:
    body, *members = references(9)
    task_id = canvas.web(_chord, [("done", name, name) for name in members], body)
    assert sorted(canvas.result(task_id)) == sorted(members)
    canvas.settle()
    assert [canvas.effects(name) for name in members] == [1] * 8
    assert canvas.effects(body) == 1


def test_falsy_results_are_results(canvas: Stage) -> None:
    body, one, two, three = references(4)
    task_id = canvas.web(_chord, [("done", one, None), ("done", two, 0), ("done", three, [])], body)
    values = canvas.result(task_id)
    assert sorted(values, key=repr) == [0, None, []] or sorted(map(repr, values)) == ["0", "None", "[]"]
    canvas.settle()
    assert canvas.effects(body) == 1


def test_members_that_are_retried_count_once(canvas: Stage) -> None:
    body, one, two, three = references(4)
    members: Members = [("flaky", one, 2, 1), ("auto", two, 1, 2), ("done", three, 3)]
    task_id = canvas.web(_chord, members, body)
    assert sorted(canvas.result(task_id)) == [1, 2, 3]
    canvas.settle()
    assert [canvas.effects(name) for name in (one, two, three, body)] == [1, 1, 1, 1]


NESTED = needs("celery", "5.6", "on Redis a group in a chord forgets the order of its results")


@pytest.mark.parametrize(
    "kind",
    ["task", "retrying task", "chain", pytest.param("group", marks=NESTED), pytest.param("chord", marks=NESTED)],
)
def test_a_member_that_replaces_itself_counts_once(canvas: Stage, kind: str) -> None:
    body, one, two, other = references(4)
    task_id = canvas.web(_chord, [("becomes", kind, one, two), ("done", other, other)], body)
    expected = [one, two] if kind in ("group", "chord") else one
    assert sorted(canvas.result(task_id), key=repr) == sorted([expected, other], key=repr)
    canvas.settle()
    assert [canvas.effects(name) for name in (one, other, body)] == [1, 1, 1]


def _nested(app: Any, names: list[str], inner: str, outer: str, last: str) -> str:
    first = chord([_sig(app, "done", name, name) for name in names], _sig(app, "gather", inner))
    second = chord([_sig(app, "done", name, name) for name in names], _sig(app, "gather", outer))
    members = [first, second, _sig(app, "done", last, last)]
    return str(chord(members, _sig(app, "gather", f"{last}-body")).apply_async().id)


def test_chords_within_a_chord_run_each_body_once(canvas: Stage) -> None:
    one, two, inner, outer, last = references(5)
    task_id = canvas.web(_nested, [one, two], inner, outer, last)
    assert sorted(canvas.result(task_id), key=repr) == sorted([[one, two], [one, two], last], key=repr)
    canvas.settle()
    assert [canvas.effects(name) for name in (one, two, inner, outer, last, last + "-body")] == [2, 2, 1, 1, 1, 1]


def _chord_in_a_chain(app: Any, names: list[str], body: str) -> str:
    header = group(_sig(app, "done", name, name) for name in names)
    return str((header | _sig(app, "gather", body) | _sig(app, "after", f"{body}-after")).apply_async().id)


def test_a_chord_within_a_chain_goes_on_once(canvas: Stage) -> None:
    one, two, body = references(3)
    task_id = canvas.web(_chord_in_a_chain, [one, two], body)
    assert canvas.result(task_id) == [one, two]
    canvas.settle()
    assert [canvas.effects(name) for name in (one, two, body, body + "-after")] == [1, 1, 1, 1]


def test_a_member_whose_key_another_submission_holds_waits_and_counts_with_its_result(canvas: Stage) -> None:
    key, body, other = references(3)
    canvas.web(_send, "order", key, 1.5)
    _running(canvas, key)
    task_id = canvas.web(_chord, [("order", key, 1.5), ("done", other, other)], body)
    _parked(canvas, 1)
    assert canvas.effects(body) == 0
    assert sorted(canvas.result(task_id)) == sorted([key, other])
    canvas.settle()
    assert (canvas.effects(key, "order"), canvas.effects(body)) == (1, 1)


def test_two_submissions_of_one_key_in_one_chord_have_one_effect_and_two_results(canvas: Stage) -> None:
    key, body = references(2)
    task_id = canvas.web(_chord, [("order", key, 0.3), ("order", key, 0.3), ("order", key, 0.3)], body)
    assert canvas.result(task_id) == [key, key, key]
    canvas.settle()
    assert (canvas.effects(key, "order"), canvas.effects(body)) == (1, 1)


def test_a_member_whose_key_is_done_counts_with_the_first_result(canvas: Stage) -> None:
    key, body, other = references(3)
    canvas.result(canvas.web(_send, "order", key))
    task_id = canvas.web(_chord, [("order", key), ("done", other, other)], body)
    assert sorted(canvas.result(task_id)) == sorted([key, other])
    canvas.settle()
    assert (canvas.effects(key, "order"), canvas.effects(body)) == (1, 1)


def test_a_member_parked_behind_a_holder_that_fails_does_the_work_itself(canvas: Stage) -> None:
    key, body, other = references(3)
    holder = canvas.web(_send, "order", key, 1.5, True)
    _running(canvas, key)
    # The same payload as the holder's, so it fails as well: the chord hears of it.
    error = fresh()
    task_id = canvas.web(_chord, [("order", key, 1.5, True), ("done", other, other)], body, error)
    wait_for(lambda: canvas.effects(error), "the chord's error callback")
    canvas.settle()
    assert canvas.effects(key, "order") == 2
    assert (canvas.effects(body), canvas.effects(error)) == (0, 1)
    assert canvas.state(task_id) == "FAILURE"
    assert len(canvas.letters(holder)) == 1


def test_members_behind_a_retry_wait_for_its_end(canvas: Stage) -> None:
    key, body, other = references(3)
    canvas.web(_send, "ship", key, 2, 0.4)
    _running(canvas, key, "ship")
    task_id = canvas.web(_chord, [("ship", key, 2, 0.4), ("ship", key, 2, 0.4), ("done", other, other)], body)
    assert sorted(canvas.result(task_id)) == sorted([key, key, other])
    canvas.settle()
    assert (canvas.effects(key, "ship"), canvas.effects(key, "shipped"), canvas.effects(body)) == (3, 1, 1)


def _consume(app: Any, queue: str) -> None:
    app.control.add_consumer(queue, reply=True, limit=1, timeout=10)


def _leave_alone(app: Any, queue: str) -> None:
    app.control.cancel_consumer(queue, reply=True, limit=1, timeout=10)


def _hold(app: Any, key: str, sign: str, then: str) -> str:
    return str(_sig(app, "order", key).apply_async(headers={"hold": sign, "then": then}).id)


def _statuses(canvas: Stage) -> list[str]:
    return sorted(str(row.status) for row in canvas.rows())


def test_members_that_are_parked_twice_each_count_once(canvas: Stage) -> None:
    key, body, side, *signs = references(7)
    canvas.web(_hold, key, signs[0], "fail")
    _running(canvas, key, "held")
    canvas.web(_consume, side)
    task_id = canvas.web(_chord, [("order", key)] * 3, body, "", side)
    _parked(canvas, 3)
    for number in (1, 2, 3):
        # The holder fails and one member is freed, but nobody takes it: a newcomer gets the key before it comes.
        canvas.web(_leave_alone, side)
        canvas.sign(signs[number - 1])
        wait_for(lambda: _statuses(canvas) == ["parked", "parked", "sent"], "one member freed")
        canvas.web(_hold, key, signs[number], "fail" if number < 3 else "succeed")
        wait_for(lambda held=number + 1: canvas.effects(key, "held") == held, "the key taken by a newcomer")
        canvas.web(_consume, side)
        wait_for(lambda: _statuses(canvas) == ["parked"] * 3, "all parked again")
    assert [row.revision for row in canvas.rows()] == [2, 2, 2]
    canvas.sign(signs[3])
    assert canvas.result(task_id) == [key] * 3
    canvas.settle()
    assert (canvas.effects(key, "order"), canvas.effects(body)) == (0, 1)
    canvas.web(_leave_alone, side)


def test_a_member_whose_process_dies_is_brought_back_and_counts_once(canvas: Stage) -> None:
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


def test_a_member_that_dies_after_it_was_counted_as_the_last_counts_once(canvas: Stage) -> None:
    dying, other, body, error = references(4)
    canvas.sign(other)
    task_id = canvas.web(_dying_member, dying, other, body, error)
    assert sorted(canvas.result(task_id)) == sorted([dying, other])
    canvas.settle()
    assert (canvas.effects(dying), canvas.effects(dying, "died"), canvas.effects(other)) == (1, 1, 1)
    assert (canvas.effects(body), canvas.effects(error)) == (1, 0)


def test_a_member_that_dies_after_it_was_counted_while_others_run_on(canvas: Stage) -> None:
    dying, other, body, error = references(4)
    task_id = canvas.web(_dying_member, dying, other, body, error)
    wait_for(lambda: canvas.effects(dying, "died"), "the member died")
    wait_for(lambda: canvas.canvas_advanced(dying), "it came again")
    canvas.sign(other)
    wait_for(lambda: canvas.effects(other), "the other member")
    canvas.settle()
    assert (canvas.effects(dying), canvas.effects(other), canvas.effects(error)) == (1, 1, 0)
    assert sorted(canvas.result(task_id)) == sorted([dying, other])
    assert canvas.effects(body) == 1


@pytest.mark.parametrize("failing", [1, 2])
def test_a_chord_that_fails_tells_its_error_callback_and_files_a_letter_for_each_member(
    canvas: Stage, failing: int
) -> None:
    body, error, *names = references(6)
    members: Members = [("broken", name) for name in names[:failing]] + [("done", name) for name in names[failing:]]
    task_id = canvas.web(_chord, members, body, error)
    wait_for(lambda: canvas.effects(error), "error callback")
    canvas.settle()
    assert canvas.state(task_id) == "FAILURE"
    assert (canvas.effects(body), canvas.effects(error)) == (0, 1)
    assert [canvas.effects(name) for name in names] == [1] * 4
    letters = [letter.error_message for letter in canvas.all_letters() if letter.error_message in names]
    assert sorted(letters) == sorted(names[:failing])
    assert [letter.reason for letter in canvas.letters(task_id)] == [Reason.CHORD_FAILED]


def test_the_body_of_a_failed_chord_runs_once_when_it_is_replayed_with_the_results(canvas: Stage) -> None:
    body, error, *names = references(5)
    members: Members = [("broken", names[0]), ("done", names[1], 1), ("done", names[2], 2)]
    task_id = canvas.web(_chord, members, body, error)
    wait_for(lambda: canvas.effects(error), "error callback")
    canvas.settle()
    typist = Typist(canvas, "celery")

    found = [letter for letter in typist.reads("dlq list --task gather") if letter["task_id"] == task_id]
    ((letter_id, reason),) = [(letter["id"], letter["reason"]) for letter in found]
    assert reason == "chord_failed"
    typist.types(f"dlq edit {letter_id} --set values=[0,1,2] --because", "the first was done by hand")
    (ended,) = typist.reads(f"dlq replay {letter_id} --because mended --yes --wait")

    assert ended["verdict"] == "resolved"
    assert canvas.result(ended["task_id"]) == [0, 1, 2]
    assert (canvas.effects(body), canvas.effects(error)) == (1, 1)
    assert canvas.letters(task_id) == []


def test_a_body_that_fails_is_one_letter(canvas: Stage) -> None:
    one, two = references(2)
    task_id = canvas.web(_failing_body, one, two)
    wait_for(lambda: canvas.letters(task_id), "letter")
    canvas.settle()
    assert (canvas.effects(one), canvas.effects(two)) == (1, 1)
    assert len(canvas.letters(task_id)) == 1
    assert canvas.job(task_id=task_id).status is Outcome.FAILED


def _failing_body(app: Any, one: str, two: str) -> str:
    return str(chord([_sig(app, "done", one)], app.signature("broken", (two,), immutable=True)).apply_async().id)
