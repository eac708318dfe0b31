"""Any store: an operation is kept with its letters, and changed only by whoever saw it as it is."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from celery_replay import operations
from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.exceptions import TriageRefused
from celery_replay.operations import PORTION, Conditions
from celery_replay.records import Operation, evolve
from celery_replay.states import OperationState, Verb
from celery_replay.stores.base import Store
from tests.conformance.conftest import SHARED
from tests.conformance.world import Clock

DAY = 86_400 * SECOND


def operation(name: str = "op", total: int = 3, keep_us: int = DAY, **conditions: Any) -> Operation:
    return Operation(
        operation_id=name,
        actor="ann",
        reason="the bank is back",
        options=Conditions(**conditions).told(),
        total=total,
        keep_us=keep_us,
    )


def begin(store: Store, name: str = "op", total: int = 3, **more: Any) -> Operation:
    letters = [{"letter": f"{name}-{number}", "revision": number} for number in range(total)]
    return store.begin_operation(operation(name, total, **more), operations.portions(name, letters))


def decide(store: Store, verb: Verb, name: str = "op", text: str = "") -> Operation:
    return store.decide_operation(name, Decision(verb=verb, actor="bob", text=text, operation_id=name))


def test_what_was_begun_is_read_as_it_is(store: Store, clock: Clock) -> None:
    begun = begin(store, rate=2.5, canary=3, allow=("charge", "größe\t\n"))
    found = store.operation("op")
    assert found == begun
    assert (found.began_at, found.due_at, found.state) == (clock.now, clock.now, OperationState.RUNNING)
    assert operations.conditions(found) == Conditions(rate=2.5, canary=3, allow=("charge", "größe\t\n"))
    assert store.operation("other") is None


def test_its_letters_are_kept_in_portions(store: Store) -> None:
    begun = begin(store, total=PORTION * 2 + 1)
    found = [operations.letters_of(portion) for portion in store.every_portion(begun)]
    assert [len(letters) for letters in found] == [PORTION, PORTION, 1]
    assert found[2] == [{"letter": f"op-{PORTION * 2}", "revision": PORTION * 2}]
    assert store.portion("op", 3) is None
    assert [*store.every_portion(begun, first=2)] == [store.portion("op", 2)]


def test_it_is_begun_once_and_the_second_is_told_by_whom(store: Store) -> None:
    begin(store)
    with pytest.raises(TriageRefused, match="ann has begun this operation already"):
        begin(store, total=1)
    found = store.operation("op")
    assert found is not None
    assert found.total == 3


def test_a_change_is_refused_to_whoever_saw_an_older_record(store: Store) -> None:
    begun = begin(store)
    changed = store.change_operation(begun, operations.left_out(begun))
    assert (changed.position, changed.revision) == (1, begun.revision + 1)
    with pytest.raises(TriageRefused, match="changed meanwhile"):
        store.change_operation(begun, operations.left_out(begun))
    assert store.operation("op") == changed


def test_who_paused_and_resumed_it_is_in_its_history(store: Store, clock: Clock) -> None:
    begin(store)
    decide(store, Verb.PAUSED, text="lunch")
    clock.now += SECOND
    resumed = decide(store, Verb.RESUMED)
    assert (resumed.state, resumed.changed_at, resumed.due_at) == (OperationState.RUNNING, clock.now, clock.now)
    told = [(entry.verb, entry.actor, entry.text) for entry in store.operation_history("op")]
    assert sorted(told) == [
        (Verb.BEGUN, "ann", "the bank is back"),
        (Verb.PAUSED, "bob", "lunch"),
        (Verb.RESUMED, "bob", ""),
    ]


def test_what_is_over_can_not_be_resumed(store: Store) -> None:
    begin(store)
    assert decide(store, Verb.ABORTED).state is OperationState.ABORTED
    for verb in (Verb.PAUSED, Verb.RESUMED, Verb.ABORTED):
        with pytest.raises(TriageRefused, match="is aborted"):
            decide(store, verb)
    with pytest.raises(TriageRefused, match="there is no operation"):
        decide(store, Verb.PAUSED, "other")
    assert len(store.operation_history("op")) == 2


def test_that_it_stopped_itself_is_in_its_history(store: Store) -> None:
    begun = begin(store)
    store.change_operation(begun, evolve(begun, state=OperationState.STOPPED, said="of the last 20, 11 failed again"))
    (entry,) = [entry for entry in store.operation_history("op") if entry.verb is Verb.STOPPED]
    assert (entry.actor, entry.text) == ("", "of the last 20, 11 failed again")


def test_letters_that_are_none_of_it_are_told_with_it(store: Store) -> None:
    refused = Decision(verb=Verb.LEFT_OUT, actor="ann", text="it is quarantined", operation_id="op")
    store.begin_operation(operation(total=0), (), [("a", refused)])
    (entry,) = store.history(submission="a", operation_id="op")
    assert (entry.verb, entry.text) == (Verb.LEFT_OUT, "it is quarantined")
    assert [entry.verb for entry in store.operation_history("op")] == [Verb.BEGUN]


def test_those_with_something_to_do_are_found_the_oldest_first(store: Store, clock: Clock) -> None:
    for name in "abcd":
        begin(store, name)
        clock.now += SECOND
    decide(store, Verb.PAUSED, "b")
    decide(store, Verb.ABORTED, "c")
    pending = store.operation("d")
    assert pending is not None
    store.change_operation(pending, operations.sent(pending, "d-0", "replay", clock.now))
    decide(store, Verb.ABORTED, "d")
    # The last one's replay has not ended.
    assert [found.operation_id for found in store.active_operations()] == ["a", "d"]
    assert [found.operation_id for found in store.active_operations(limit=1)] == ["a"]


def test_they_are_listed_page_by_page_the_newest_first(store: Store, clock: Clock) -> None:
    for name in "abcde":
        begin(store, name)
        clock.now += SECOND * (name != "b")
    first = store.operations(2)
    second = store.operations(2, before=(first[-1].began_at, first[-1].operation_id))
    third = store.operations(2, before=(second[-1].began_at, second[-1].operation_id))
    assert [found.operation_id for found in (*first, *second, *third)] == ["e", "d", "c", "b", "a"]


def test_it_is_forgotten_when_its_time_is_over_and_not_while_something_is_to_come(store: Store, clock: Clock) -> None:
    for name in ("aborted", "paused", "pending"):
        begin(store, name)
    decide(store, Verb.ABORTED, "aborted")
    decide(store, Verb.PAUSED, "paused")
    pending = store.operation("pending")
    assert pending is not None
    store.change_operation(pending, operations.sent(pending, "pending-0", "replay", clock.now))
    decide(store, Verb.ABORTED, "pending")
    clock.now += DAY - 1
    store.prune()
    assert store.operation("aborted") is not None
    clock.now += 1
    store.prune()
    assert [found.operation_id for found in store.operations()] == ["pending", "paused"]
    assert (store.operation("aborted"), store.portion("aborted", 0)) == (None, None)
    assert [*store.operation_history("aborted")] == []
    assert len(store.operation_history("paused")) == 2


@pytest.mark.parametrize("store_kind", SHARED, indirect=True)
def test_of_many_who_change_it_at_once_one_succeeds_each_time(store: Store) -> None:
    begin(store, total=100)
    changed: list[int] = []

    def count() -> None:
        for _ in range(5):
            found = store.operation("op")
            assert found is not None
            with suppress(TriageRefused):
                changed.append(store.change_operation(found, operations.left_out(found)).position)

    together = [threading.Thread(target=count) for _ in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    found = store.operation("op")
    assert found is not None
    assert sorted(changed) == [*range(1, found.position + 1)]
    assert found.revision == found.position


@pytest.mark.parametrize("store_kind", SHARED, indirect=True)
def test_of_two_who_begin_the_same_at_once_one_is_told(store: Store) -> None:
    told: list[str] = []
    gate = threading.Barrier(2)

    def press() -> None:
        gate.wait()
        try:
            begin(store)
        except TriageRefused as refusal:
            told.append(refusal.message)
        else:
            told.append("begun")

    together = [threading.Thread(target=press) for _ in range(2)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert sorted(told) == ["ann has begun this operation already: op", "begun"]
