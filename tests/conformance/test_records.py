"""Any store: attempts, steps, letters, leadership and retention."""

from __future__ import annotations

import pytest

from celery_replay.clock import SECOND
from celery_replay.records import Chunk, Failure
from celery_replay.states import AckMode, LetterState, OnIncomplete, Outcome, Reason, StepState, Verdict
from celery_replay.stores.base import Store
from celery_replay.stores.redis import RedisStore
from tests.conformance.callers import KEY, claims, closes, opens, runs, settled, step, stored
from tests.conformance.world import Clock
from tests.rules.builders import ending, letter, news

LEASE = 60 * SECOND


def test_a_jobs_attempts_are_kept_in_their_order(store: Store, clock: Clock) -> None:
    runs(store, "a", nonce="dies")
    clock.now += LEASE
    closes(store, runs(store, "a", nonce="fails"), Outcome.RETRY_SCHEDULED)
    clock.now += SECOND
    closes(store, runs(store, "a", generation=1, nonce="succeeds"))
    assert [(attempt.nonce, attempt.outcome) for attempt in store.attempts("a")] == [
        ("dies", Outcome.LOST),
        ("fails", Outcome.RETRY_SCHEDULED),
        ("succeeds", Outcome.SUCCEEDED),
    ]


def test_fences_rise_from_attempt_to_attempt_and_with_the_key(store: Store, clock: Clock) -> None:
    fences: list[int] = []
    for submission in "aab":
        fences.append(runs(store, submission, nonce=f"{submission}{len(fences)}").fence)
        clock.now += LEASE
    assert fences == sorted(set(fences))


def test_a_key_has_one_holder(store: Store, clock: Clock) -> None:
    runs(store, "a")
    clock.now += LEASE
    runs(store, "b")
    assert [job.submission for job in (stored(store, "a"), stored(store, "b")) if job.claim] == ["b"]


def test_jobs_without_a_key_do_not_meet(store: Store) -> None:
    assert {opens(store, name, claim=None).verdict for name in "abc"} == {Verdict.RUN}


def test_a_claimed_step_is_shown_to_the_next_attempt(store: Store, clock: Clock) -> None:
    first = runs(store, "a", nonce="first")
    assert claims(store, first) == (True, None)
    clock.now += LEASE
    answer = opens(store, "b", nonce="second", on_incomplete=OnIncomplete.VERIFY)
    assert answer.incomplete
    second = answer.facts.job
    assert second is not None
    owned, earlier = claims(store, second)
    assert owned
    assert earlier is not None
    assert (earlier.state, earlier.nonce) == (StepState.CLAIMED, "first")


def test_a_settled_step_outlives_its_attempt(store: Store, clock: Clock) -> None:
    first = runs(store, "a", nonce="first")
    claims(store, first)
    closes(store, first, Outcome.FAILED, steps=(settled(step(first)),))
    second = runs(store, "b", nonce="second")
    _, earlier = claims(store, second)
    assert earlier is not None
    assert (earlier.state, earlier.output) == (StepState.SETTLED, '"done"')
    assert not stored(store, "b").unsettled


def test_a_step_that_was_given_up_is_forgotten(store: Store) -> None:
    first = runs(store, "a")
    claims(store, first)
    closes(store, first, Outcome.FAILED, steps=(step(first),))
    assert store.steps(KEY) == []


def test_success_settles_every_step(store: Store) -> None:
    first = runs(store, "a")
    claims(store, first)
    closes(store, first)
    assert [kept.state for kept in store.steps(KEY)] == [StepState.SETTLED]


@pytest.mark.parametrize("state", StepState)
def test_a_flush_by_a_zombie_does_not_touch_its_successors_step(store: Store, clock: Clock, state: StepState) -> None:
    zombie = runs(store, "a", nonce="zombie")
    claims(store, zombie)
    clock.now += LEASE
    successor = runs(store, "a", nonce="successor")
    claims(store, successor)
    store.flush(steps=[step(zombie, state=state)])
    assert [(kept.state, kept.nonce) for kept in store.steps(KEY)] == [(StepState.CLAIMED, "successor")]


def test_an_attempt_whose_steps_are_all_settled_leaves_nothing_unsettled(store: Store, clock: Clock) -> None:
    first = runs(store, "a", nonce="first")
    claims(store, first)
    store.flush(steps=[settled(step(first))], calm=[first])
    clock.now += LEASE
    answer = opens(store, "a", nonce="second", on_incomplete=OnIncomplete.DEAD_LETTER)
    assert (answer.verdict, answer.incomplete) == (Verdict.RUN, False)


def test_an_attempt_is_not_calm_while_a_step_is_open(store: Store) -> None:
    first = runs(store, "a")
    claims(store, first, "one")
    claims(store, first, "two")
    store.flush(steps=[settled(step(first, "one"))], calm=[first])
    assert stored(store, "a").unsettled


def test_a_zombie_cannot_calm_its_successor(store: Store, clock: Clock) -> None:
    zombie = runs(store, "a", nonce="zombie", is_step=True)
    clock.now += LEASE
    runs(store, "a", nonce="successor", is_step=True)
    store.flush(calm=[zombie])
    assert stored(store, "a").unsettled


def test_a_dead_letter_is_filed_once_and_resolved_by_success(store: Store, clock: Clock) -> None:
    runs(store, "a", ack=AckMode.EARLY)
    clock.now += LEASE
    assert (store.reap(), store.reap()) == (1, 0)
    assert [(kept.submission, kept.message) for kept in store.letters()] == [("a", b"a.0")]
    closes(store, runs(store, "a", nonce="again"))
    kept = store.letter("a")
    assert kept is not None
    assert kept.state is LetterState.RESOLVED


def test_a_second_announcement_of_a_death_changes_nothing(store: Store) -> None:
    runs(store, "a", worker="w", pid=1, ack=AckMode.LATE_ACKS_LOSS)
    told = news(submission="a")
    store.hear(told)
    closes(store, runs(store, "a", nonce="again", worker="w", pid=2))
    store.hear(told)
    assert stored(store, "a").status is Outcome.SUCCEEDED


def test_the_state_of_a_canvas_that_nobody_finished_is_unknown(store: Store, clock: Clock) -> None:
    closes(store, runs(store, "a", ack=AckMode.EARLY))
    clock.now += LEASE
    assert store.reap() == 1
    assert stored(store, "a").canvas_unknown
    store.flush(advanced=["a"])
    assert (stored(store, "a").canvas_unknown, stored(store, "a").canvas_advanced) == (False, True)


def test_a_result_that_was_lost_after_success_is_noted(store: Store) -> None:
    closes(store, runs(store, "a"))
    store.amend("a", Failure(type="OperationalError", message="backend down"), '{"type": "OperationalError"}')
    assert (stored(store, "a").status, stored(store, "a").result_lost) == (Outcome.SUCCEEDED, True)


def test_what_is_not_known_can_be_flushed_amended_and_heard(store: Store) -> None:
    store.flush(advanced=["nobody"])
    store.amend("nobody", Failure(type="E", message=""), "{}")
    assert list(store.hear(news(submission="nobody", final=False))) == []
    assert (store.job("nobody"), store.row("nobody"), store.letter("nobody")) == (None, None, None)


def test_events_are_kept_with_their_blobs(store: Store) -> None:
    chunk = Chunk(trace_id="trace", nonce="a.0", first=0, count=2, body=b"\x00events", blobs=(("ref", b"large"),))
    opens(store, "a")
    store.flush(chunks=[chunk])
    assert [(kept.first, kept.count, kept.body) for kept in store.chunks("trace")] == [(0, 2, b"\x00events")]
    assert (store.blob("ref"), store.blob("other")) == (b"large", None)


def test_jobs_are_found_by_task_key_and_trace_newest_first(store: Store, clock: Clock) -> None:
    for name in "abc":
        clock.now += SECOND
        runs(store, name, claim=None, key="order:1", task_id=f"task-{name}")
    assert [job.submission for job in store.find_jobs(key="order:1", limit=2)] == ["c", "b"]
    assert [job.submission for job in store.find_jobs(task_id="task-a", trace_id="trace")] == ["a"]
    assert list(store.find_jobs(trace_id="other")) == []


def test_one_steward_leads_until_its_lease_lapses(store: Store, clock: Clock) -> None:
    assert store.lead("one", 10)
    assert not store.lead("two", 10)
    clock.now += 9
    assert store.lead("one", 10)
    clock.now += 10
    assert store.lead("two", 10)
    assert store.lead("one", 10, name="archive")


def test_retention_forgets_what_is_over_and_keeps_what_needs_a_person(store: Store, clock: Clock) -> None:
    closes(store, runs(store, "done"), canvas=False)
    closes(store, runs(store, "failed", claim=None), Outcome.FAILED, canvas=False)
    runs(store, "running", claim=None)
    clock.now += ending().keep_us
    assert store.prune() == 1
    assert store.job("done") is None
    assert list(store.attempts("done")) == []
    assert stored(store, "failed").letter
    assert stored(store, "running").status is Outcome.OPEN
    assert opens(store, "fresh").verdict is Verdict.RUN


def test_a_letter_knows_why(store: Store) -> None:
    closes(store, runs(store, "a"), Outcome.FAILED, failure=Failure(type="E", message="no", reason=Reason.REJECTED))
    kept = store.letter("a")
    assert kept is not None
    assert (kept.reason, kept.error_type, kept.state) == (Reason.REJECTED, "E", letter().state)


def test_a_mark_never_sinks_and_is_one_of_its_name(store: Store) -> None:
    if isinstance(store, RedisStore):
        pytest.skip("it keeps no marks: it may forget them")
    assert store.mark("one") == 0
    assert store.mark("one", 7) == 0
    assert store.mark("one", 5) == 7
    assert store.mark("one", 9) == 7
    assert (store.mark("one"), store.mark("other")) == (9, 0)
