"""Any store: an operation sends each of its letters once, whoever drives it and wherever that is killed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from celery_replay import operations, parking
from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.operations import Conditions
from celery_replay.records import Failure, Operation
from celery_replay.replay import driving
from celery_replay.replay import message as messages
from celery_replay.replay.plan import Options, preview
from celery_replay.runtime import Runtime, reset, runtime_of, use_store
from celery_replay.serialization import unpack
from celery_replay.states import LetterState, OperationState, Outcome, Verb
from celery_replay.steward import Steward
from celery_replay.stores.base import Store
from tests.conformance.callers import closes, runs
from tests.conformance.conftest import SHARED
from tests.conformance.world import Clock
from tests.django_admin.builders import message
from tests.rules import builders

ERROR = Failure(type="ValueError", message="no", frames=("shop/tasks.py:ship",))


class Killed(BaseException):
    """The process dies here."""


@pytest.fixture
def runtime(store: Store) -> Iterator[Runtime]:
    """Lend an app's runtime on the store, with a broker that nobody consumes from."""
    app = Celery("drives", broker="memory://", task_cls="celery_replay:ReplayTask", set_as_current=False)
    app.conf.update(replay_store="memory://", broker_transport_options={"polling_interval": 0.005})

    @app.task(name="shop.ship", stepwise=True, shared=False)
    def ship(order_id: int, card_token: str = "", note: str = "") -> None:
        """Never runs here."""

    reset(app)
    use_store(app, store)
    yield runtime_of(app)
    use_store(app, None)
    reset(app)


def fail(store: Store, *names: str) -> None:
    for name in names:
        delivery = replace(builders.delivery(name), message=lambda: message(task={"protection": "steps"}))
        job = runs(store, name, claim=None, trace_id=name, delivery=delivery)
        closes(store, job, Outcome.FAILED, failure=ERROR, delivery=delivery)


def start(runtime: Runtime, *names: str, **conditions: Any) -> Operation:
    letters = [letter for letter in map(runtime.store.letter, names) if letter is not None]
    items = preview(runtime, letters)
    assert all(item.ready for item in items), [item.said for item in items]
    wanted = Conditions(**conditions)
    return driving.start(runtime, items, actor="ann", reason="mended", conditions=wanted, options=Options())


def known(store: Store, operation: Operation) -> Operation:
    found = store.operation(operation.operation_id)
    assert found is not None
    return found


def end(store: Store, name: str, outcome: Outcome = Outcome.SUCCEEDED) -> None:
    """Run a letter's replay to its end, as a worker does."""
    letter = store.letter(name)
    assert letter is not None
    more = {"failure": ERROR} if outcome is Outcome.FAILED else {}
    closes(store, runs(store, letter.replay, claim=name, original=name, trace_id=letter.replay), outcome, **more)


def replays(store: Store) -> Counter[str]:
    """Count how often each letter was sent."""
    found = (store.history(submission=letter.submission) for letter in store.letters())
    return Counter(entry.submission for entries in found for entry in entries if entry.verb is Verb.REPLAYED)


def states(store: Store, *names: str) -> list[LetterState]:
    found = [store.letter(name) for name in names]
    return [letter.state for letter in found if letter is not None]


def test_it_sends_all_of_its_letters_and_finishes_with_their_ends(runtime: Runtime, store: Store) -> None:
    fail(store, *"abc")
    operation = start(runtime, *"abc")
    assert driving.drive_all(runtime) == 3
    assert states(store, *"abc") == [LetterState.REPLAY_PENDING] * 3
    assert driving.drive_all(runtime) == 0
    for name, outcome in zip("abc", (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SUCCEEDED), strict=True):
        end(store, name, outcome)
    driving.drive_all(runtime)
    found = known(store, operation)
    assert (found.state, found.sent, found.resolved, found.failed) == (OperationState.FINISHED, 3, 2, 1)
    assert store.active_operations() == []


def test_a_canary_goes_first_and_the_rest_only_if_it_ends_well(runtime: Runtime, store: Store) -> None:
    fail(store, *"abcd")
    operation = start(runtime, *"abcd", canary=2)
    driving.drive_all(runtime)
    assert driving.drive_all(runtime) == 0
    assert states(store, *"abcd") == [LetterState.REPLAY_PENDING] * 2 + [LetterState.OPEN] * 2
    end(store, "a")
    assert driving.drive_all(runtime) == 0
    end(store, "b")
    assert driving.drive_all(runtime) == 2
    assert known(store, operation).proven


def test_a_canary_that_fails_stops_it_and_somebody_may_let_it_try_another_one(runtime: Runtime, store: Store) -> None:
    fail(store, *"abc")
    operation = start(runtime, *"abc", canary=1)
    driving.drive_all(runtime)
    end(store, "a", Outcome.FAILED)
    assert driving.drive_all(runtime) == 0
    stopped = known(store, operation)
    assert (stopped.state, stopped.said) == (OperationState.STOPPED, "of the first 1, 1 did not end well")
    assert states(store, *"abc") == [LetterState.OPEN] * 3
    store.decide_operation(operation.operation_id, Decision(verb=Verb.RESUMED, actor="bob"))
    assert driving.drive_all(runtime) == 1
    end(store, "b")
    assert driving.drive_all(runtime) == 1
    end(store, "c")
    driving.drive_all(runtime)
    assert known(store, operation).state is OperationState.FINISHED


def test_no_more_are_under_way_than_it_may_have(runtime: Runtime, store: Store) -> None:
    fail(store, *"abcde")
    start(runtime, *"abcde", at_once=2)
    assert driving.drive_all(runtime) == 2
    assert driving.drive_all(runtime) == 0
    end(store, "b")
    assert driving.drive_all(runtime) == 1
    assert states(store, *"abcde").count(LetterState.REPLAY_PENDING) == 2


def test_it_stops_itself_while_its_target_is_still_down(runtime: Runtime, store: Store) -> None:
    names = [f"n{number:03}" for number in range(60)]
    fail(store, *names)
    operation = start(runtime, *names, at_once=5, of_last=10)
    for _ in range(60):
        driving.drive_all(runtime)
        for name, state in zip(names, states(store, *names), strict=True):
            if state is LetterState.REPLAY_PENDING:
                end(store, name, Outcome.FAILED)
    found = known(store, operation)
    assert (found.state, found.said) == (OperationState.STOPPED, "of the last 10, 10 failed again")
    assert found.sent == 10
    assert set(states(store, *names)) == {LetterState.OPEN}


def test_a_rate_is_kept_and_what_was_missed_is_made_up_for_a_second(
    runtime: Runtime, store: Store, clock: Clock
) -> None:
    names = [f"n{number:02}" for number in range(20)]
    fail(store, *names)
    start(runtime, *names, rate=4)
    sent = []
    for pause in (0, 0, 1, 1, 30, 0):
        clock.now += pause * SECOND
        sent.append(driving.drive_all(runtime))
    assert sent == [1, 0, 4, 4, 5, 0]


def test_while_it_is_paused_nothing_is_sent_and_ends_are_counted(runtime: Runtime, store: Store, clock: Clock) -> None:
    fail(store, *"abc")
    operation = start(runtime, *"abc", rate=1)
    driving.drive_all(runtime)
    store.decide_operation(operation.operation_id, Decision(verb=Verb.PAUSED, actor="bob"))
    clock.now += 60 * SECOND
    end(store, "a")
    assert driving.drive_all(runtime) == 0
    paused = known(store, operation)
    assert (paused.state, paused.resolved, paused.active) == (OperationState.PAUSED, 1, False)
    store.decide_operation(operation.operation_id, Decision(verb=Verb.RESUMED, actor="bob"))
    # What was not sent while it was held is not made up for.
    assert driving.drive_all(runtime) == 1


def test_a_letter_that_changed_is_left_out_and_the_history_says_why(runtime: Runtime, store: Store) -> None:
    fail(store, *"abc")
    operation = start(runtime, *"abc")
    store.decide("b", Decision(verb=Verb.ASSIGNED, actor="bob", assignee="bob"))
    store.decide("c", Decision(verb=Verb.QUARANTINED, actor="bob"))
    driving.drive_all(runtime)
    assert replays(store) == {"a": 1}
    assert (known(store, operation).sent, known(store, operation).left_out) == (1, 2)
    said = [store.history(submission=name)[-1].text for name in "bc"]
    assert said[0] == "the letter changed since you looked at it; look again"
    assert said[1].startswith("it is quarantined")


def test_what_somebody_else_replays_meanwhile_is_not_sent_again(runtime: Runtime, store: Store) -> None:
    fail(store, *"ab")
    operation = start(runtime, *"ab")
    store.begin_replay("b", Decision(verb=Verb.REPLAYED, actor="bob", replay="bobs", operation_id="his"), message())
    driving.drive_all(runtime)
    assert replays(store) == {"a": 1, "b": 1}
    assert known(store, operation).left_out == 1


def test_each_keeps_its_own_task_payload_and_queue(runtime: Runtime, store: Store) -> None:
    for name, task, queue in (("a", "shop.ship", "slow"), ("b", "shop.pay", "urgent")):
        sent = message([name], {}, headers={"task": task}, routing_key=queue, task={"protection": "steps"})
        delivery = replace(builders.delivery(name), operation=task, message=lambda sent=sent: sent)
        job = runs(store, name, claim=None, trace_id=name, delivery=delivery)
        closes(store, job, Outcome.FAILED, failure=ERROR, delivery=delivery)

    @runtime.app.task(name="shop.pay", stepwise=True, shared=False)
    def pay(order_id: str) -> None:
        """Never runs here."""

    start(runtime, "a", "b")
    driving.drive_all(runtime)
    found = [store.letter(name) for name in "ab"]
    rows = [store.row(letter.replay) for letter in found if letter is not None]
    kept = [unpack(row.message) for row in rows if row is not None]
    assert [(one["headers"]["task"], one["routing_key"]) for one in kept] == [
        ("shop.ship", "slow"), ("shop.pay", "urgent"),
    ]  # fmt: skip
    assert [messages.read(row.message).args for row in rows if row is not None] == [("a",), ("b",)]


def test_a_broker_that_does_not_answer_is_waited_for_once(
    runtime: Runtime, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(store, *"abc")
    start(runtime, *"abc")
    tried: list[bytes] = []

    def unreachable(app: Any, message: bytes, *rest: Any) -> None:
        tried.append(message)
        raise OperationalError("no route to host")

    with monkeypatch.context() as away:
        away.setattr(parking, "publish", unreachable)
        assert driving.drive_all(runtime) == 1
    assert len(tried) == 1
    assert driving.drive_all(runtime) == 2
    assert replays(store) == dict.fromkeys("abc", 1)


class Mortal:
    """A store under which its caller is killed before or after a call."""

    def __init__(self, store: Store, at: int) -> None:
        self._store = store
        self._left = at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("letter", "begin_replay", "mark_sent", "change_operation", "write_down", "history", "now"):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._maybe_die()
            answer = found(*args, **kwargs)
            self._maybe_die()
            return answer

        return call

    def _maybe_die(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Killed


@pytest.mark.parametrize("store_kind", ["memory", "redis", "sqlite", "journaled"], indirect=True)
def test_wherever_its_driver_is_killed_another_one_goes_on_and_no_letter_is_sent_twice(
    runtime: Runtime, store: Store
) -> None:
    for at in range(1, 200):
        names = [f"{name}{at}" for name in "abcd"]
        fail(store, *names)
        operation = start(runtime, *names)
        store.decide(names[1], Decision(verb=Verb.NOTED, actor="bob"))
        store.decide(names[3], Decision(verb=Verb.DISCARDED, actor="bob"))
        runtime._store = Mortal(store, at)  # type: ignore[assignment]
        killed = False
        try:
            driving.drive(runtime, operation)
        except Killed:
            killed = True
        finally:
            runtime._store = store
        # One whose replay has ended before anybody wrote down that it was sent.
        first = store.letter(names[0])
        assert first is not None
        if first.state is LetterState.REPLAY_PENDING:
            end(store, names[0], Outcome.FAILED)
        while driving.drive(runtime, known(store, operation)):
            pass
        counted = {name: replays_of(store, name) for name in names}
        assert set(counted.values()) <= {0, 1}, (at, counted)
        found = known(store, operation)
        assert found.sent == sum(counted.values()), at
        assert found.position == 4
        store.decide_operation(operation.operation_id, Decision(verb=Verb.ABORTED, actor="bob"))
        if not killed:
            return
    pytest.fail("it was killed at every step")


def replays_of(store: Store, name: str) -> int:
    return sum(entry.verb is Verb.REPLAYED for entry in store.history(submission=name))


@pytest.mark.parametrize("store_kind", SHARED, indirect=True)
def test_two_who_drive_at_once_send_each_letter_once(runtime: Runtime, store: Store) -> None:
    names = [f"n{number:02}" for number in range(30)]
    fail(store, *names)
    operation = start(runtime, *names)
    together(*[lambda: [driving.drive_all(runtime) for _ in range(8)]] * 3)
    while driving.drive_all(runtime):
        pass
    found = known(store, operation)
    assert replays(store) == dict.fromkeys(names, 1)
    assert (found.sent, found.left_out, len(operations.pending(found))) == (30, 0, 30)


@pytest.mark.parametrize("store_kind", SHARED, indirect=True)
def test_of_two_operations_on_the_same_letters_each_is_sent_by_one(runtime: Runtime, store: Store) -> None:
    names = [f"n{number:02}" for number in range(20)]
    fail(store, *names)
    items = preview(runtime, [letter for letter in map(store.letter, names) if letter is not None])
    started: list[Operation] = []

    def press() -> None:
        more = {"reason": "mended", "conditions": Conditions(), "options": Options()}
        started.append(driving.start(runtime, items, actor="ann", **more))  # type: ignore[arg-type]
        for _ in range(6):
            driving.drive_all(runtime)

    together(press, press)
    while driving.drive_all(runtime):
        pass
    assert replays(store) == dict.fromkeys(names, 1)
    counts = [(one.sent, one.left_out) for one in (known(store, each) for each in started)]
    assert sum(sent for sent, _ in counts) == 20
    assert sum(left_out for _, left_out in counts) == 20


def together(*works: Callable[[], object]) -> None:
    """Do work at the same time; an error of one is the test's."""
    errors: list[BaseException] = []
    gate = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        gate.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_pause_while_letters_are_being_sent_loses_none_of_them(runtime: Runtime, store: Store) -> None:
    fail(store, *"abc")
    operation = start(runtime, *"abc")
    begin = store.begin_replay

    def after_the_pause(submission: str, *rest: Any) -> Any:
        if submission == "b":
            store.decide_operation(operation.operation_id, Decision(verb=Verb.ABORTED, actor="bob", text="no"))
        return begin(submission, *rest)

    store.begin_replay = after_the_pause  # type: ignore[method-assign]
    driving.drive_all(runtime)
    del store.begin_replay
    found = known(store, operation)
    assert (found.state, found.sent, found.active) == (OperationState.ABORTED, 3, True)
    for name in "abc":
        end(store, name)
    driving.drive_all(runtime)
    found = known(store, operation)
    assert (found.resolved, found.active, found.keep_until is not None) == (3, False, True)


def test_the_steward_that_leads_drives_it(runtime: Runtime, store: Store) -> None:
    fail(store, *"abc")
    operation = start(runtime, *"abc")
    follower, leader = Steward(runtime), Steward(runtime)
    assert store.lead(leader.nonce, 60 * SECOND)
    follower.round()
    assert replays(store) == {}
    leader.round()
    assert replays(store) == dict.fromkeys("abc", 1)
    assert known(store, operation).sent == 3
