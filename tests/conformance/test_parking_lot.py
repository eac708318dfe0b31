"""Any store: who waits, who is woken, in which order."""

from __future__ import annotations

import pytest

from celery_replay.clock import SECOND
from celery_replay.facts import PUBLISHING_US
from celery_replay.states import AckMode, Outcome, RowStatus, Verdict
from celery_replay.stores.base import Pulse, Store
from tests.conformance.callers import KEY, claims, closes, opens, runs, stations, stored
from tests.conformance.world import Clock
from tests.rules.builders import delivery, ending, news

LEASE = 60 * SECOND
RESEND = 90 * SECOND
PARKED, RELEASED, SENT, TAKEN = RowStatus.PARKED, RowStatus.RELEASED, RowStatus.SENT, RowStatus.TAKEN


def _queue(store: Store, clock: Clock, *waiting: str) -> None:
    for submission in waiting:
        clock.now += SECOND
        assert opens(store, submission).verdict is Verdict.PARKED


def test_success_frees_everybody_who_waited_for_the_key(store: Store, clock: Clock) -> None:
    owner = runs(store, "a")
    _queue(store, clock, "b", "c", "d")
    assert {row.submission for row in closes(store, owner)} == {"b", "c", "d"}
    assert [opens(store, name).verdict for name in "bcd"] == [Verdict.FIRST_RESULT] * 3


def test_failure_frees_those_who_waited_one_after_the_other_in_their_order(store: Store, clock: Clock) -> None:
    running = runs(store, "a")
    _queue(store, clock, "b", "c", "d")
    for following in "bcd":
        (row,) = closes(store, running, Outcome.FAILED)
        assert row.submission == following
        store.mark_sent(row, RESEND)
        running = runs(store, following)
        store.flush(advanced=["abc"["bcd".index(following)]])


def test_a_scheduled_retry_frees_nobody_but_itself(store: Store, clock: Clock) -> None:
    owner = runs(store, "a")
    _queue(store, clock, "b")
    assert opens(store, "a", generation=1).verdict is Verdict.PARKED
    (row,) = closes(store, owner, Outcome.RETRY_SCHEDULED)
    assert (row.submission, row.generation, row.message) == ("a", 1, b"a.1")
    assert runs(store, "a", generation=1).nonce == "a.1"
    assert stations(store) == {"a": TAKEN, "b": PARKED}


def test_a_released_row_is_handed_out_until_it_is_marked_as_sent(store: Store, clock: Clock) -> None:
    owner = runs(store, "a")
    _queue(store, clock, "b")
    (row,) = closes(store, owner)
    # Whoever closed has a moment to publish it; then the steward does.
    assert store.release_due() == []
    clock.now += PUBLISHING_US
    assert [again.submission for again in store.release_due()] == ["b"]
    store.mark_sent(row, RESEND)
    assert store.release_due() == []
    assert stations(store) == {"b": SENT}


def test_a_sent_row_that_nobody_admits_is_handed_out_again_after_its_deadline(store: Store, clock: Clock) -> None:
    owner = runs(store, "a")
    _queue(store, clock, "b")
    (row,) = closes(store, owner)
    store.mark_sent(row, RESEND)
    clock.now += RESEND - 1
    assert store.release_due() == []
    clock.now += 1
    (again,) = store.release_due()
    assert again.revision > row.revision


def test_a_late_mark_does_not_hit_the_next_round(store: Store, clock: Clock) -> None:
    owner = runs(store, "a")
    _queue(store, clock, "b")
    (row,) = closes(store, owner, Outcome.FAILED)
    between = runs(store, "c", nonce="between")
    _queue(store, clock, "b")
    store.mark_sent(row, RESEND)
    assert stations(store) == {"b": PARKED}
    assert [row.submission for row in closes(store, between, Outcome.FAILED)] == ["b"]


def test_a_dead_owners_waiter_is_released_when_the_lease_lapses_and_not_before(store: Store, clock: Clock) -> None:
    runs(store, "a")
    opens(store, "b")
    clock.now += LEASE - 1
    assert store.release_due() == []
    clock.now += 1
    assert [row.submission for row in store.release_due()] == ["b"]


def test_a_renewed_lease_keeps_its_waiters_waiting(store: Store, clock: Clock) -> None:
    runs(store, "a")
    opens(store, "b")
    clock.now += LEASE - 1
    pulse = Pulse(submission="a", nonce="a.0", claim=KEY, lease_us=LEASE)
    assert store.renew([pulse, Pulse(submission="a", nonce="zombie", claim=KEY, lease_us=LEASE)]) == {"zombie"}
    clock.now += LEASE - 1
    assert store.release_due() == []
    clock.now += 1
    assert [row.submission for row in store.release_due()] == ["b"]


def test_only_one_of_several_waiters_is_released_by_a_lapse(store: Store, clock: Clock) -> None:
    runs(store, "a")
    for name in "bcd":
        opens(store, name)
    clock.now += LEASE
    assert len(store.release_due()) == 1
    assert sorted(stations(store).values(), key=str) == [PARKED, PARKED, RELEASED]


def test_a_row_that_a_retry_takes_over_brings_the_retry_again(store: Store, clock: Clock) -> None:
    runs(store, "a", nonce="zombie")
    clock.now += LEASE
    runs(store, "a", nonce="successor")
    accepted, _ = store.close(None, ending(delivery=delivery("a"), nonce="zombie"))
    assert not accepted
    clock.now += LEASE
    runs(store, "a", generation=1)
    clock.now += LEASE
    (row,) = store.release_due()
    assert (row.generation, row.message) == (1, b"a.1")


def test_a_refused_claim_parks_its_delivery(store: Store, clock: Clock) -> None:
    zombie = runs(store, "a", nonce="zombie")
    clock.now += LEASE
    runs(store, "a", nonce="successor")
    assert claims(store, zombie) == (False, None)
    assert stations(store) == {"a": PARKED}
    assert store.steps(KEY) == []


def test_a_job_that_steps_down_is_released_at_once(store: Store) -> None:
    owner = runs(store, "a")
    closes(store, owner, Outcome.REFUSED)
    assert [row.submission for row in store.release_due()] == ["a"]
    assert runs(store, "a", nonce="again").strikes == 0


def test_news_of_a_dead_owner_frees_its_waiters_at_once(store: Store, clock: Clock) -> None:
    runs(store, "a", worker="w", pid=1)
    _queue(store, clock, "b")
    (row,) = store.hear(news(submission="a", final=False))
    assert row.submission == "b"


def test_the_parking_lot_is_empty_once_a_job_is_settled(store: Store, clock: Clock) -> None:
    owner = runs(store, "a")
    _queue(store, clock, "b")
    closes(store, owner, Outcome.FAILED)
    second = runs(store, "b")
    assert stations(store) == {"b": TAKEN}
    closes(store, second)
    assert stations(store) == {"b": TAKEN}
    store.flush(advanced=["b"])
    assert stations(store) == {}
    assert stored(store, "b").canvas_advanced


@pytest.mark.parametrize("ack", AckMode)
def test_jobs_with_a_row_do_not_keep_the_reaper_from_others(store: Store, clock: Clock, ack: AckMode) -> None:
    for number in range(3):
        name = f"parked-{number}"
        runs(store, name, claim=None, ack=ack)
        opens(store, name, nonce="copy", claim=None, ack=ack)
    clock.now += SECOND
    runs(store, "dead", claim=None, ack=ack)
    clock.now += 400 * SECOND
    assert store.reap(limit=1) == 1
    assert stored(store, "dead").status is Outcome.LOST


def test_the_reaper_leaves_sent_rows_to_their_deadline(store: Store, clock: Clock) -> None:
    runs(store, "a")
    opens(store, "a", nonce="copy")
    clock.now += 400 * SECOND
    (row,) = store.release_due()
    store.mark_sent(row, RESEND)
    for _ in range(3):
        clock.now += SECOND
        store.reap()
        assert store.release_due() == []


def test_one_that_nobody_takes_from_its_queue_does_not_hold_up_those_behind_it(store: Store, clock: Clock) -> None:
    owner = runs(store, "a")
    _queue(store, clock, "b", "c")
    (first,) = closes(store, owner, Outcome.FAILED)
    store.mark_sent(first, RESEND)
    clock.now += 2 * SECOND
    assert store.release_due() == []
    clock.now += RESEND
    assert {row.submission for row in store.release_due()} >= {"b"}
    clock.now += 2 * SECOND
    store.release_due()
    assert stations(store) == {"b": RELEASED, "c": RELEASED}


def test_rows_that_can_not_be_published_do_not_starve_the_others(store: Store, clock: Clock) -> None:
    for number in range(5):
        held = runs(store, f"held-{number}", claim=f"key-{number}")
        opens(store, f"stuck-{number}", claim=f"key-{number}")
        closes(store, held, Outcome.FAILED, claim=f"key-{number}")
    other = runs(store, "a")
    _queue(store, clock, "b")
    clock.now += PUBLISHING_US
    assert len(store.release_due(limit=5)) == 5  # nobody publishes them
    closes(store, other, Outcome.FAILED)
    clock.now += PUBLISHING_US - SECOND
    store.release_due(limit=5)
    clock.now += SECOND
    seen = {row.submission for _ in range(2) for row in store.release_due(limit=5)}
    assert "b" in seen
