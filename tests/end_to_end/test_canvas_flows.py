"""Chains, groups, links, error callbacks, retries and `replace`: everything once, on both kinds of result backend."""

from __future__ import annotations

from typing import Any

import pytest
from celery import chain, group

from celery_replay.states import Outcome, Reason
from tests.end_to_end.stage import PATIENCE_S, Stage, fresh, references, wait_for


def _sig(app: Any, task: str, *args: Any) -> Any:
    return app.signature(task, args, immutable=task == "broken")


def _chain(app: Any, *steps: tuple[Any, ...]) -> str:
    return str(chain(*(_sig(app, *step) for step in steps)).apply_async().id)


def test_a_chain_runs_each_task_once_and_in_order(canvas: Stage) -> None:
    one, two, three = references(3)
    last = canvas.web(_chain, ("done", one, 7), ("after", two), ("after", three))
    assert canvas.result(last) == 7
    canvas.settle()
    assert [canvas.effects(name) for name in (one, two, three)] == [1, 1, 1]


def test_one_request_is_one_correlation_and_each_task_names_its_cause(canvas: Stage) -> None:
    one, two, three = references(3)
    last = canvas.web(_chain, ("done", one), ("after", two), ("after", three))
    canvas.result(last)
    canvas.settle()
    third = canvas.job(task_id=last)
    family = [job for job in canvas.jobs() if job.correlation_id == third.correlation_id]
    by_submission = {job.submission: job for job in family}
    assert len(family) == 3
    second = by_submission[third.causation_id or ""]
    first = by_submission[second.causation_id or ""]
    assert first.causation_id is None
    assert len({job.trace_id for job in family}) == 3


@pytest.mark.parametrize("task", ["flaky", "auto"])
def test_after_a_retry_the_rest_of_the_chain_is_neither_lost_nor_run_twice(canvas: Stage, task: str) -> None:
    one, two, three = references(3)
    last = canvas.web(_chain, (task, one, 1, "kept"), ("after", two), ("after", three))
    assert canvas.result(last) == "kept"
    canvas.settle()
    assert canvas.effects(one, "tries") == 2
    assert [canvas.effects(name) for name in (one, two, three)] == [1, 1, 1]


def test_a_retry_is_the_same_job_with_the_next_number(canvas: Stage) -> None:
    one, two = references(2)
    last = canvas.web(_chain, ("flaky", one, 3, "kept"), ("after", two))
    canvas.result(last)
    canvas.settle()
    (job,) = [job for job in canvas.jobs() if job.submission == canvas.job(task_id=last).causation_id]
    assert (job.generation, job.attempts, job.status) == (3, 4, Outcome.SUCCEEDED)
    assert canvas.event_names(job).count("retry_scheduled") == 3


def _group(app: Any, *members: tuple[Any, ...]) -> list[str]:
    return [result.id for result in group(_sig(app, *member) for member in members).apply_async().results]


def test_a_group_runs_each_member_once(canvas: Stage) -> None:
    names = references(5)
    ids = canvas.web(_group, *[("done", name, name) for name in names])
    assert [canvas.result(one) for one in ids] == names
    canvas.settle()
    assert [canvas.effects(name) for name in names] == [1] * 5


def _linked(app: Any, task: str, *args: Any, link: list[tuple[Any, ...]], errors: list[tuple[str, str]]) -> str:
    signature = _sig(app, task, *args)
    for step in link:
        signature.link(_sig(app, *step))
    for name, reference in errors:
        signature.link_error(app.signature(name, kwargs={"reference": reference}))
    return str(signature.apply_async().id)


@pytest.mark.parametrize("links", [1, 3])
def test_links_are_called_once_each(canvas: Stage, links: int) -> None:
    name, error, *after = references(2 + links)
    one = canvas.web(
        _linked, "done", name, 5, link=[("after", link) for link in after], errors=[("failed_later", error)]
    )
    canvas.result(one)
    wait_for(lambda: all(canvas.effects(link) for link in after), "links called")
    canvas.settle()
    assert [canvas.effects(link) for link in after] == [1] * links
    assert canvas.effects(error) == 0


def test_links_are_called_once_after_a_retry(canvas: Stage) -> None:
    name, link, error = references(3)
    canvas.web(_linked, "flaky", name, 2, link=[("after", link)], errors=[("failed", error)])
    wait_for(lambda: canvas.effects(link), "link called")
    canvas.settle()
    assert (canvas.effects(name), canvas.effects(link), canvas.effects(error)) == (1, 1, 0)


@pytest.mark.parametrize("errback", ["failed", "failed_later"])
def test_an_error_callback_is_called_once_and_one_letter_is_filed(canvas: Stage, errback: str) -> None:
    name, link, error = references(3)
    one = canvas.web(_linked, "broken", name, link=[("after", link)], errors=[(errback, error)])
    wait_for(lambda: canvas.effects(error), "error callback called")
    canvas.settle()
    assert (canvas.effects(name), canvas.effects(link), canvas.effects(error)) == (1, 0, 1)
    (letter,) = canvas.letters(one)
    assert (letter.error_type, letter.reason) == ("builtins.ValueError", Reason.EXCEPTION)


@pytest.mark.parametrize("task", ["flaky", "auto"])
def test_an_error_callback_comes_once_when_all_retries_failed(canvas: Stage, task: str) -> None:
    name, error = references(2)
    one = canvas.web(_linked, task, name, 99, link=[], errors=[("failed", error)])
    wait_for(lambda: canvas.effects(error), "error callback called", PATIENCE_S)
    canvas.settle()
    tries = {"flaky": 11, "auto": 3}[task]
    assert (canvas.effects(name, "tries"), canvas.effects(error)) == (tries, 1)
    (letter,) = canvas.letters(one)
    assert letter.attempts == tries


def test_in_a_chain_that_breaks_the_rest_never_runs(canvas: Stage) -> None:
    one, two, three = references(3)
    last = canvas.web(_chain, ("done", one), ("broken", two), ("after", three))
    wait_for(lambda: any(letter.error_message == two for letter in canvas.all_letters()), "letter filed")
    canvas.settle()
    assert canvas.effects(three) == 0
    assert canvas.jobs(task_id=last) == []


def _send(app: Any, task: str, *args: Any, **options: Any) -> str:
    return str(_sig(app, task, *args).apply_async(**options).id)


def test_children_published_again_by_a_retry_run_once_where_they_have_a_key(canvas: Stage) -> None:
    child, key = references(2)
    one = canvas.web(_send, "parent", child, key, 2)
    assert canvas.result(one) == child
    wait_for(lambda: canvas.effects(child) == 3, "children without a key run")
    canvas.settle()
    # Each try of a body that publishes is a publish of its own: plain Celery's behaviour, and what keys are for.
    assert canvas.effects(child) == 3
    assert canvas.effects(key, "ordered") == 1
    ours = canvas.job(task_id=one)
    children = [job for job in canvas.jobs() if job.causation_id == ours.submission]
    assert len(children) == 6
    assert {job.correlation_id for job in children} == {ours.correlation_id}
    orders = sorted(str(job.status) for job in children if job.operation == "order")
    assert orders == ["deduplicated", "deduplicated", "succeeded"]


KINDS = ["task", "retrying task", "chain", "group", "chord"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_replaced_task_goes_on_as_its_replacement(canvas: Stage, kind: str) -> None:
    one, two = references(2)
    task_id = canvas.web(_send, "becomes", kind, one, two)
    expected = {"group": [one, two], "chord": [one, two]}.get(kind, one)
    assert canvas.result(task_id) == expected
    canvas.settle()
    assert (canvas.effects(one, "runs"), canvas.effects(one)) == (1, 1)
    assert canvas.effects(two) == (0 if kind in ("task", "retrying task") else 1)
    # One submission from beginning to end.
    job = canvas.job(task_id=task_id)
    assert (job.status, job.canvas_advanced) == (Outcome.SUCCEEDED, True)
    assert job.generation >= 1 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_links_and_the_rest_of_a_chain_follow_the_replacement_once(canvas: Stage, kind: str) -> None:
    one, two, link, rest = references(4)
    last = canvas.web(_replaced_in_chain, kind, one, two, link, rest)
    canvas.result(last)
    wait_for(lambda: canvas.effects(link), "link called")
    canvas.settle()
    assert (canvas.effects(link), canvas.effects(rest)) == (1, 1)


def _replaced_in_chain(app: Any, kind: str, one: str, two: str, link: str, rest: str) -> str:
    first = _sig(app, "becomes", kind, one, two)
    first.link(_sig(app, "after", link))
    return str(chain(first, _sig(app, "after", rest)).apply_async().id)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_stays_with_the_replacement_until_it_has_ended(canvas: Stage, kind: str) -> None:
    key = fresh()
    first = canvas.web(_send, "becomes_order", key, kind)
    value = canvas.result(first)
    canvas.settle()
    again = canvas.web(_send, "becomes_order", key, kind)
    assert canvas.result(again) == value
    canvas.settle()
    assert (canvas.effects(key, "runs"), canvas.effects(key)) == (1, 1)
    assert canvas.job(task_id=again).status is Outcome.DEDUPLICATED


def test_callbacks_of_an_ignored_result_are_called_once(canvas: Stage) -> None:
    name, link = references(2)
    canvas.web(_ignoring, name, link)
    wait_for(lambda: canvas.effects(link), "link called")
    canvas.settle()
    assert (canvas.effects(name), canvas.effects(link)) == (1, 1)


def _ignoring(app: Any, name: str, link: str) -> None:
    _sig(app, "done", name).apply_async(ignore_result=True, link=_sig(app, "after", link))
