"""When an operation may send, what stops it, and what people decide."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_replay import operations
from celery_replay.clock import SECOND
from celery_replay.exceptions import TriageRefused
from celery_replay.operations import Conditions
from celery_replay.records import Operation, evolve
from celery_replay.states import OperationState, Verb


def operation(total: int = 100, **conditions: Any) -> Operation:
    return Operation(
        operation_id="op", actor="ann", reason="x", total=total, options=Conditions(**conditions).told(), due_at=0
    )


def send(one: Operation, count: int) -> Operation:
    for _ in range(count):
        one = operations.sent(one, f"l{one.position}", f"r{one.position}", 0)
    return one


def end(one: Operation, *ends: bool | None) -> Operation:
    for well in ends:
        one = operations.ended(one, next(iter(operations.pending(one))), well=well)
    return operations.judged(one)


def test_conditions_of_a_newer_version_are_left_out() -> None:
    one = evolve(operation(), options='{"rate": 2.0, "moon": "full"}')
    assert operations.conditions(one) == Conditions(rate=2.0)


def test_nothing_is_due_but_while_it_runs() -> None:
    for state in OperationState:
        due = operations.due(evolve(operation(), state=state), 0)
        assert bool(due) is (state is OperationState.RUNNING)


def test_a_letter_that_is_gone_says_nothing_of_the_target_but_proves_no_canary() -> None:
    one = end(send(operation(canary=1), 1), None)
    assert (one.state, one.gone, one.recent) == (OperationState.STOPPED, 1, "")


def test_few_failures_among_many_do_not_stop_it() -> None:
    one = send(operation(of_last=4, stop_above=0.5), 8)
    assert end(one, False, True, False, True, False, True).state is OperationState.RUNNING


def test_a_share_counts_once_there_are_enough_of_them() -> None:
    one = end(send(operation(of_last=4, stop_above=0.5), 8), False, False, False)
    assert one.state is OperationState.RUNNING
    assert end(one, True).state is OperationState.STOPPED


def test_a_share_of_one_never_stops_it() -> None:
    assert end(send(operation(of_last=2, stop_above=1), 8), *[False] * 8).state is OperationState.RUNNING


def test_where_all_were_sent_nothing_is_left_to_be_stopped() -> None:
    one = end(send(operation(total=4, of_last=2), 4), False, False, False)
    assert one.state is OperationState.RUNNING
    assert end(one, False).state is OperationState.FINISHED


def test_what_stopped_it_does_not_count_again_once_somebody_lets_it_go_on() -> None:
    one = end(send(operation(stop_after=2), 5), False, False)
    assert (one.state, one.said) == (OperationState.STOPPED, "2 did not end well")
    one = operations.judged(operations.decide(one, Verb.RESUMED, "mended", 0))
    assert one.state is OperationState.RUNNING
    assert end(one, False).state is OperationState.RUNNING
    assert end(end(one, False), False).state is OperationState.STOPPED


def test_what_is_over_stays_so() -> None:
    for state in (OperationState.ABORTED, OperationState.FINISHED):
        for verb in (Verb.PAUSED, Verb.RESUMED, Verb.ABORTED):
            with pytest.raises(TriageRefused):
                operations.decide(evolve(operation(), state=state), verb, "", 0)


@given(
    st.lists(st.sampled_from(["drive", "well", "badly", "gone", "pause", "resume"]), max_size=60),
    st.integers(0, 12),
    st.integers(0, 4),
    st.integers(1, 5),
    st.sampled_from([None, 0.5, 3.0]),
)
def test_whatever_happens_no_more_are_sent_than_it_may(
    moves: list[str], total: int, canary: int, at_once: int, rate: float | None
) -> None:
    one = operation(total, canary=canary, at_once=at_once, rate=rate, of_last=3)
    now = 0
    for move in moves:
        now += SECOND // 2
        waiting = operations.pending(one)
        if move == "drive":
            for _ in range(operations.due(one, now)):
                one = operations.sent(one, f"l{one.position}", "r", now)
        elif move in ("pause", "resume"):
            verb = Verb.PAUSED if move == "pause" else Verb.RESUMED
            try:
                one = operations.decide(one, verb, "", now)
            except TriageRefused:
                continue
        elif waiting:
            one = operations.ended(one, next(iter(waiting)), well={"well": True, "badly": False}.get(move))
        one = operations.judged(one)
        assert len(operations.pending(one)) <= at_once
        assert one.position == one.sent + one.left_out <= total
        assert one.sent == one.resolved + one.failed + one.gone + len(operations.pending(one))
        if canary and not one.proven:
            assert one.tried <= canary
        assert one.active or one.state is not OperationState.RUNNING
