"""When a chord is complete, with Django's database as Celery's result backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, Signature, _state, chain, chord, group, signals, states
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext
from django_celery_results.models import ChordCounter

from django_celery_replay.results import DatabaseBackend
from tests.django_store.chords import Chord, make_app, published
from tests.support.together import at_once

pytestmark = pytest.mark.usefixtures("results")


@pytest.fixture
def app() -> Iterator[Celery]:
    before = getattr(_state._tls, "current_app", None)
    app = make_app()
    # Signatures within signatures take it from there.
    app.set_current()
    yield app
    _state._tls.current_app = before


def rows() -> int:
    return ChordCounter.objects.count()


KINDS = ["task", "chain", "group", "chord"]


def body_of(app: Celery, kind: str) -> Signature:
    part, body = app.signature("part"), app.signature("body")
    return {
        "task": body,
        "chain": chain(body, part.clone()),
        "group": group(body, part.clone()),
        "chord": chord([part.clone(), part.clone()], body),
    }[kind]


def test_the_last_part_sends_the_body_the_results_in_the_headers_order(app: Celery) -> None:
    sent = Chord(app, 4)
    for number in (2, 0, 3):
        sent.end(number)
    assert (sent.bodies(), rows()) == ([], 1)
    sent.end(1)
    assert (sent.bodies(), rows()) == ([[0, 1, 2, 3]], 0)


def test_a_part_that_returns_again_counts_once(app: Celery) -> None:
    sent = Chord(app, 3)
    for number in (0, 0, 0, 1, 0, 1):
        sent.end(number)
    assert sent.bodies() == []
    for _ in range(3):
        sent.end(2)
    assert sent.bodies() == [[0, 1, 2]]


def test_falsy_results_are_results(app: Celery) -> None:
    sent = Chord(app, 3)
    for number, value in enumerate(([], "", False)):
        sent.end(number, value)
    assert sent.bodies() == [[[], "", False]]


def test_results_that_are_not_kept_are_kept_for_the_body(app: Celery) -> None:
    sent = Chord(app, 2)
    sent.end(0, store_result=False)
    sent.end(1, store_result=False)
    assert sent.bodies() == [[0, 1]]


def test_a_part_that_is_not_in_the_table_any_more_is_not_counted(app: Celery) -> None:
    sent = Chord(app, 2)
    sent.end(0)
    app.backend.forget(sent.requests[0].id)
    sent.end(1)
    assert (sent.bodies(), rows()) == ([], 1)


def test_tasks_of_a_group_at_the_end_of_a_member_are_all_waited_for(app: Celery) -> None:
    part = app.signature("part")
    sent = Chord(app, [chain(part, group(part.clone(), part.clone())), part.clone()])
    (_, lone) = sent.requests
    first, second = (task["options"]["task_id"] for task in sent.requests[0].chain[0]["kwargs"]["tasks"])
    app.backend.mark_as_done(lone.id, "lone", lone)
    for task_id in (first, second):
        assert sent.bodies() == []
        lone.id = task_id
        app.backend.mark_as_done(task_id, "of the group", lone)
    assert sent.bodies() == [[["of the group", "of the group"], "lone"]]


def test_a_failure_is_told_when_all_parts_have_ended_and_once(app: Celery) -> None:
    sent = Chord(app, 3)
    sent.fail(1)
    sent.fail(2)
    assert app.backend.get_state(sent.id) == states.PENDING
    sent.end(0)
    sent.fail(1)
    assert (sent.bodies(), rows()) == ([], 0)
    assert app.backend.get_state(sent.id) == states.FAILURE
    dependency = sent.requests[1].id
    assert str(app.backend.get_result(sent.id)) == f"Dependency {dependency} raised ValueError('part 1')"


def test_a_revoked_member_fails_the_chord(app: Celery) -> None:
    sent = Chord(app, 2)
    sent.end(0)
    app.backend.mark_as_revoked(sent.requests[1].id, "revoked", sent.requests[1])
    assert app.backend.get_state(sent.id) == states.FAILURE


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_reaches_the_chord_around_the_chord(app: Celery, kind: str) -> None:
    """Its inner chord ends last, and nothing but its failure tells the outer one."""
    part = app.signature("part")
    inner = body_of(app, kind)
    outer = Chord(app, [chord([part.clone(), part.clone()], inner), part.clone()])
    outer.end(2)
    outer.end(0)
    assert app.backend.get_state(outer.id) == states.PENDING
    outer.fail(1)
    assert (app.backend.get_state(outer.id), outer.bodies(), rows()) == (states.FAILURE, [], 0)


def test_a_body_that_cannot_be_sent_fails(app: Celery) -> None:
    sent = Chord(app, 1, app.signature("body").set(serializer="unknown"))
    sent.end(0)
    assert app.backend.get_state(sent.id) == states.FAILURE
    assert "Callback error" in str(app.backend.get_result(sent.id))


def _send_and_die(*args: Any) -> None:
    _send(*args)
    raise SystemExit


_send = DatabaseBackend._send


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_that_is_sent_again_after_its_sender_died_has_the_same_name(
    app: Celery, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends it: a worker's parent is no attempt of ours. OPEN absorbs what it has seen under this name."""
    sent = Chord(app, 2, body_of(app, kind))
    sent.end(0)
    with monkeypatch.context() as patched:
        patched.setattr(DatabaseBackend, "_send", _send_and_die)
        with pytest.raises(SystemExit):
            sent.end(1)
    names = [message.headers["celery_replay"]["s"] for message in published(app)]
    assert (len(set(names)), rows()) == ({"group": 2, "chord": 2}.get(kind, 1), 1)
    sent.end(1)
    assert [message.headers["celery_replay"]["s"] for message in published(app)] == names


@pytest.fixture
def failing_query() -> Iterator[None]:
    """Let a handler of others fail with a query whenever something is published."""

    def ask(**_: Any) -> None:
        with connections[ChordCounter.objects.all().db].cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")

    signals.after_task_publish.connect(ask)
    yield
    signals.after_task_publish.disconnect(ask)


@pytest.mark.usefixtures("failing_query")
def test_a_handlers_failing_query_does_not_keep_the_chord_from_ending(app: Celery) -> None:
    sent = Chord(app, 1)
    sent.end(0)
    assert (sent.bodies(), rows()) == ([[0]], 0)


def test_an_error_callbacks_failing_query_does_not_keep_the_chord_from_failing(app: Celery) -> None:
    calls = []

    @app.task(name="errback", shared=False)
    def errback(request: Any, error: Any, traceback: Any) -> None:
        calls.append(request.id)
        with connections[ChordCounter.objects.all().db].cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")

    body = app.signature("body")
    body.link_error(app.signature("errback"))
    sent = Chord(app, 1, body)
    sent.fail(0)
    assert calls == [sent.id]
    assert (app.backend.get_state(sent.id), rows()) == (states.FAILURE, 0)


def test_a_chain_that_is_sent_on_twice_begins_its_chord_once(app: Celery) -> None:
    frozen = chord([app.signature("part"), app.signature("part")], app.signature("body"), app=app)
    frozen.freeze()
    for _ in range(2):
        frozen.apply_async()
    assert rows() == 1


def test_a_running_member_may_add_a_task(app: Celery) -> None:
    sent = Chord(app, 2)
    added = app.AsyncResult("added")
    app.backend.add_to_chord(sent.requests[0].group, added)
    sent.end(0)
    sent.end(1)
    assert sent.bodies() == []
    request = sent.requests[1]
    request.id = "added"
    app.backend.mark_as_done("added", 2, request)
    assert (sent.bodies(), rows()) == ([[0, 1, 2]], 0)


def test_a_part_that_ends_within_a_transaction_is_counted_when_others_can_see_it(app: Celery) -> None:
    sent = Chord(app, 1)
    with transaction.atomic(using=ChordCounter.objects.all().db):
        sent.end(0)
        assert sent.bodies() == []
    assert sent.bodies() == [[0]]


@pytest.mark.parametrize("database_url", ["postgresql", "mariadb"], indirect=True)
def test_a_chord_that_is_sent_within_a_transaction_ends_though_its_parts_end_before_that(app: Celery) -> None:
    with transaction.atomic(using=ChordCounter.objects.all().db):
        sent = Chord(app, 2)
        for number in range(2):
            at_once(1, lambda _, number=number: (sent.end(number), connections.close_all()))
        assert sent.bodies() == []
    assert (sent.bodies(), rows()) == ([[0, 1]], 0)


def test_a_member_of_a_large_chord_asks_little(app: Celery) -> None:
    sent = Chord(app, 1500)
    with CaptureQueriesContext(connections[ChordCounter.objects.all().db]) as queries:
        sent.end(0)
    # Its own state (four at most), the chord's row, is it stored, are the last ones.
    assert len(queries) <= 7


@pytest.mark.parametrize("round_", range(8))
def test_of_twenty_parts_that_end_at_once_one_sends_the_body(app: Celery, round_: int) -> None:
    sent = Chord(app, 20)

    def end(number: int) -> None:
        sent.end(number)
        connections.close_all()

    at_once(20, end)
    assert (sent.bodies(), rows()) == ([list(range(20))], 0)


def test_copies_that_end_at_once_send_the_body_once(app: Celery) -> None:
    sent = Chord(app, 4)

    def end(number: int) -> None:
        sent.end(number % 4)
        connections.close_all()

    at_once(20, end)
    assert (sent.bodies(), rows()) == ([list(range(4))], 0)


def test_parts_that_fail_at_once_fail_the_chord_once(app: Celery) -> None:
    calls: list[str] = []

    @app.task(name="errback", shared=False)
    def errback(request: Any, error: Any, traceback: Any) -> None:
        calls.append(request.id)

    body = app.signature("body")
    body.link_error(app.signature("errback"))
    sent = Chord(app, 10, body)

    def fail(number: int) -> None:
        sent.fail(number)
        connections.close_all()

    at_once(10, fail)
    assert calls == [sent.id]
    assert (app.backend.get_state(sent.id), rows()) == (states.FAILURE, 0)
