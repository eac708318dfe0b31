"""Any store: dead letters are counted by their cause, decided about once, and their history is kept."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import pytest

from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.exceptions import TriageRefused
from celery_replay.records import Failure, Letter
from celery_replay.serialization import pack
from celery_replay.states import AckMode, Effect, LetterState, Outcome, Reason, RowStatus, StepState, Verb
from celery_replay.stores.base import Store
from celery_replay.stores.units import HOUR
from tests.conformance.callers import claims, closes, opens, runs, step, stored
from tests.conformance.world import Clock
from tests.rules import builders

ERROR = Failure(type="ValueError", message="no", frames=("shop/tasks.py:ship",))


def fails(store: Store, submission: str, failure: Failure = ERROR, **question: object) -> Letter:
    """Let a job without a key fail."""
    job = runs(store, submission, **{"claim": None, "trace_id": submission, **question})
    closes(store, job, Outcome.FAILED, failure=failure)
    return letter(store, job.original or submission)


def letter(store: Store, submission: str) -> Letter:
    found = store.letter(submission)
    assert found is not None
    return found


def decide(store: Store, submission: str, verb: Verb, **more: object) -> Letter:
    return store.decide(submission, Decision(verb=verb, actor="ann", **more))  # type: ignore[arg-type]


def begins(store: Store, submission: str, replay: str) -> None:
    decision = Decision(verb=Verb.REPLAYED, actor="ann", replay=replay, operation_id="op")
    row = store.begin_replay(submission, decision, b"again")
    store.mark_sent(row, SECOND)


def test_letters_of_one_cause_are_one_group_with_a_count_and_a_trend(store: Store, clock: Clock) -> None:
    start = clock.now
    for number, name in enumerate("abc"):
        clock.now = start + number * HOUR
        fails(store, name, replace(ERROR, message=f"no {name}"))
    fails(store, "other", replace(ERROR, frames=("shop/tasks.py:pay",)))

    groups = {group.frames: group for group in store.groups()}
    same = groups["shop/tasks.py:ship"]

    assert (same.filed, same.unresolved, same.newest, same.error_message) == (3, 3, "c", "no c")
    assert (same.first_seen, same.last_seen) == (start, start + 2 * HOUR)
    assert groups["shop/tasks.py:pay"].filed == 1
    trend = store.trend([same.group_id], start)[same.group_id]
    assert list(trend.values()) == [1] * len(trend)
    assert len(trend) == len({(start + n * HOUR) // HOUR for n in range(3)} - {start // HOUR if start % HOUR else -1})
    assert [kept.submission for kept in store.letters(group_id=same.group_id)] == ["c", "b", "a"]


def test_a_group_counts_down_as_its_letters_are_decided(store: Store) -> None:
    for name in "abc":
        fails(store, name)
    decide(store, "a", Verb.DISCARDED)
    decide(store, "b", Verb.INVESTIGATED)
    (group,) = store.groups()
    assert (group.filed, group.unresolved) == (3, 2)
    decide(store, "b", Verb.DISCARDED)
    decide(store, "c", Verb.DISCARDED)
    assert list(store.groups()) == []
    assert [(kept.filed, kept.unresolved) for kept in store.groups(unresolved=False)] == [(3, 0)]


def test_groups_come_page_by_page_newest_first(store: Store, clock: Clock) -> None:
    for number in range(5):
        clock.now += SECOND
        fails(store, f"s{number}", replace(ERROR, type=f"E{number}"))
    first = store.groups(2)
    rest = store.groups(9, before=(first[-1].last_seen, first[-1].group_id))
    assert [group.error_type for group in [*first, *rest]] == ["E4", "E3", "E2", "E1", "E0"]


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        (Verb.INVESTIGATED, LetterState.INVESTIGATING),
        (Verb.QUARANTINED, LetterState.QUARANTINED),
        (Verb.DISCARDED, LetterState.DISCARDED),
        (Verb.NOTED, LetterState.OPEN),
    ],
)
def test_a_decision_changes_the_state_and_is_written_down(store: Store, verb: Verb, state: LetterState) -> None:
    fails(store, "a")
    assert decide(store, "a", verb, text="why").state is state
    assert letter(store, "a").state is state
    assert [(e.verb, e.actor, e.text) for e in store.history(submission="a")] == [(verb, "ann", "why")]
    assert stored(store, "a").letter is state.unresolved


def test_an_assignee_and_a_mended_payload_are_kept(store: Store) -> None:
    fails(store, "a")
    decide(store, "a", Verb.ASSIGNED, assignee="bob")
    decide(store, "a", Verb.EDITED, edited=b"mended")
    kept = letter(store, "a")
    assert (kept.assignee, kept.edited, kept.message) == ("bob", b"mended", b"a.0")


def test_a_decision_that_the_state_does_not_allow_is_refused_and_leaves_no_record(store: Store) -> None:
    fails(store, "a")
    decide(store, "a", Verb.DISCARDED)
    with pytest.raises(TriageRefused, match="discarded"):
        decide(store, "a", Verb.EDITED, edited=b"x")
    with pytest.raises(TriageRefused, match="no dead letter"):
        decide(store, "nobody", Verb.NOTED)
    assert len(store.history(submission="a")) == 1


def test_a_decision_about_what_has_changed_since_is_refused(store: Store) -> None:
    seen = fails(store, "a")
    decide(store, "a", Verb.ASSIGNED, assignee="bob")
    with pytest.raises(TriageRefused, match="changed"):
        decide(store, "a", Verb.DISCARDED, revision=seen.revision)


def test_a_replay_is_decided_once_and_is_on_its_way_at_once(store: Store) -> None:
    fails(store, "a")
    begins(store, "a", "a2")
    with pytest.raises(TriageRefused, match="already"):
        begins(store, "a", "a3")
    kept = letter(store, "a")
    assert (kept.state, kept.replay, kept.replays) == (LetterState.REPLAY_PENDING, "a2", 1)
    assert [(row.submission, row.status) for row in store.rows()] == [("a2", RowStatus.SENT)]
    assert [kept.submission for kept in store.letters(operation_id="op")] == ["a"]


def test_of_two_who_press_replay_at_once_one_succeeds(store: Store, store_kind: str) -> None:
    if store_kind == "memory":
        pytest.skip("one lock: nothing can happen at once")
    fails(store, "a")
    barrier, said = threading.Barrier(4), []

    def press(name: str) -> None:
        barrier.wait()
        try:
            store.begin_replay("a", Decision(verb=Verb.REPLAYED, actor=name, replay=f"replay-{name}"), b"again")
        except TriageRefused as refusal:
            said.append(str(refusal))
        finally:
            store.close_connections()

    threads = [threading.Thread(target=partial(press, name)) for name in "wxyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 3
    assert len(store.rows()) == 1
    assert [entry.verb for entry in store.history(submission="a")] == [Verb.REPLAYED]


def test_a_replay_that_died_on_its_way_is_sent_by_the_steward(store: Store, clock: Clock) -> None:
    fails(store, "a")
    store.begin_replay("a", Decision(verb=Verb.REPLAYED, actor="ann", replay="a2"), b"again")
    assert list(store.release_due()) == []
    clock.now += 6 * SECOND
    assert [(row.submission, row.message) for row in store.release_due()] == [("a2", b"again")]


def test_a_replays_success_resolves_the_originals_letter(store: Store) -> None:
    fails(store, "a")
    begins(store, "a", "a2")
    closes(store, runs(store, "a2", claim="a", original="a", trace_id="a2"))
    kept = letter(store, "a")
    assert (kept.state, kept.resolved_how, store.letter("a2")) == (LetterState.RESOLVED, "replayed", None)
    assert not stored(store, "a").letter
    assert list(store.groups()) == []


def test_a_replays_failure_counts_in_its_own_group(store: Store) -> None:
    first = fails(store, "a")
    begins(store, "a", "a2")
    after = fails(store, "a2", replace(ERROR, type="KeyError"), claim="a", original="a")
    assert (after.state, after.error_type, store.letter("a2")) == (LetterState.OPEN, "KeyError", None)
    counted = {group.group_id: (group.filed, group.unresolved) for group in store.groups(unresolved=False)}
    assert counted == {first.group_id: (1, 0), after.group_id: (1, 1)}


def test_an_operations_history_tells_what_became_of_its_replays(store: Store, clock: Clock) -> None:
    for name in "abc":
        fails(store, name)
        begins(store, name, f"{name}2")
        clock.now += 1
    closes(store, runs(store, "a2", claim="a", original="a", trace_id="a2"))
    fails(store, "b2", claim="b", original="b")
    decide(store, "b", Verb.DISCARDED)
    told = [(e.submission, e.verb) for e in store.history(operation_id="op")]
    assert told[:3] == [(name, Verb.REPLAYED) for name in "abc"]
    assert sorted(told[3:]) == [("a", Verb.RESOLVED), ("b", Verb.FAILED_AGAIN)]


def test_what_changes_no_record_is_written_down_all_of_it(store: Store) -> None:
    left = [(name, Decision(verb=Verb.LEFT_OUT, actor="ann", text=f"not {name}", operation_id="op")) for name in "ab"]
    store.write_down(left)
    store.note_group("g", Decision(verb=Verb.NOTED, actor="bob", text="the bank was down"))
    assert sorted((e.submission, e.text) for e in store.history(operation_id="op")) == [("a", "not a"), ("b", "not b")]
    assert [(e.actor, e.text) for e in store.history(group_id="g")] == [("bob", "the bank was down")]


def test_a_replay_that_dies_is_sent_again_by_the_steward(store: Store, clock: Clock) -> None:
    fails(store, "a")
    begins(store, "a", "a2")
    runs(store, "a2", claim="a", original="a", ack=AckMode.LATE)
    clock.now += 61 * SECOND
    assert [row.submission for row in store.release_due()] == ["a2"]
    assert letter(store, "a").state is LetterState.REPLAY_PENDING


def test_a_replay_that_was_acknowledged_early_and_dies_gives_its_letter_back(store: Store, clock: Clock) -> None:
    fails(store, "a")
    begins(store, "a", "a2")
    runs(store, "a2", claim="a", original="a", ack=AckMode.EARLY)
    clock.now += 61 * SECOND
    assert store.release_due() == []
    store.reap()
    (kept,) = store.letters()
    assert (kept.submission, kept.state, kept.reason) == ("a", LetterState.OPEN, Reason.WORKER_LOST)


@pytest.mark.parametrize("key", [None, "key"])
def test_a_copy_of_the_original_gets_its_replays_result(store: Store, clock: Clock, key: str | None) -> None:
    runs(store, "a", claim=key, ack=AckMode.EARLY)
    clock.now += 61 * SECOND
    store.reap()
    begins(store, "a", "a2")
    closes(store, runs(store, "a2", claim=key or "a", original="a"), result="5")
    answer = opens(store, "a", claim=key, nonce="copy")
    assert answer.source is not None
    assert (str(answer.verdict), answer.source.submission) == ("first_result", "a2")


def test_an_effect_is_unknown_while_a_step_is_open_and_proven_by_a_settled_one(store: Store) -> None:
    job = runs(store, "a", claim=None)
    claims(store, job)
    closes(store, job, Outcome.FAILED, failure=ERROR, unsettled=True)
    assert letter(store, "a").effect is Effect.UNKNOWN
    assert [kept.submission for kept in store.letters(effect=Effect.UNKNOWN)] == ["a"]


def test_what_is_pruned_takes_its_history_and_its_empty_group_along(store: Store, clock: Clock) -> None:
    fails(store, "a")
    fails(store, "b")
    decide(store, "a", Verb.DISCARDED)
    clock.now += 400 * 86_400 * SECOND
    while store.prune():
        pass
    assert (store.letter("a"), list(store.history(submission="a"))) == (None, [])
    assert [group.filed for group in store.groups(unresolved=False)] == [2]
    decide(store, "b", Verb.DISCARDED)
    while store.prune():
        pass
    assert list(store.groups(unresolved=False)) == []


def test_a_parked_job_is_freed_before_its_time_and_that_is_written_down(store: Store) -> None:
    runs(store, "a")
    opens(store, "b")
    assert store.free("b", "ann", "now").status is RowStatus.RELEASED
    assert [(entry.verb, entry.actor) for entry in store.history(submission="b")] == [(Verb.FREED, "ann")]
    with pytest.raises(TriageRefused, match="not parked"):
        store.free("a", "ann", "now")


@pytest.mark.parametrize(("state", "effect"), [(StepState.SETTLED, Effect.PROVEN), (StepState.CLAIMED, Effect.ABSENT)])
def test_a_letter_knows_of_the_steps_that_end_with_its_attempt(store: Store, state: StepState, effect: Effect) -> None:
    job = runs(store, "a", claim=None, trace_id="a")
    claims(store, job)
    told = pack({"task": {"protection": "steps"}})
    delivery = replace(builders.delivery("a"), message=lambda: told)
    closes(store, job, Outcome.FAILED, failure=ERROR, steps=(step(job, state=state),), delivery=delivery)
    assert letter(store, "a").effect is effect
