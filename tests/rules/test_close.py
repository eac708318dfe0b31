"""CLOSE, renewal and refusals."""

from __future__ import annotations

import pytest

from celery_replay.admission import admit
from celery_replay.clock import SECOND
from celery_replay.facts import Facts, advance_canvas
from celery_replay.lifecycle import amend_failure, close, due, renew, step_back
from celery_replay.records import Failure, Job, evolve
from celery_replay.states import AckMode, LetterState, Outcome, Reason, RowStatus, Verdict
from tests.rules.builders import (
    EARLIER,
    ENDED,
    HANDED_OVER,
    LATER,
    NOW,
    ask,
    delivery,
    ending,
    facts,
    job,
    lapsed,
    letter,
    row,
)


def _job(stored: Facts) -> Job:
    assert stored.job is not None
    return stored.job


NOT_THE_OWNER = {
    "nothing stored": facts(),
    "another attempt": facts(job(nonce="newer")),
    "the key was taken": facts(lapsed(claim=None), job("other")),
    "interrupted": facts(job(status=Outcome.INTERRUPTED)),
    "ended by another attempt": facts(job(status=Outcome.SUCCEEDED, nonce="newer", canvas_until=LATER)),
}


@pytest.mark.parametrize("name", NOT_THE_OWNER)
def test_whoever_lost_ownership_is_refused_and_parked_in_the_same_step(name: str) -> None:
    closing = close(NOT_THE_OWNER[name], ending(), NOW)
    assert not closing.accepted
    after = closing.facts.row
    assert after is not None
    assert (after.status, after.reason, after.wake_at) == (RowStatus.PARKED, Reason.OWNERSHIP_LOST, NOW)


@pytest.mark.parametrize(
    "stored",
    [
        facts(job(generation=1, nonce="newer")),
        facts(job(status=Outcome.RETRY_SCHEDULED, nonce="newer")),
        facts(job(status=Outcome.SUCCEEDED, nonce="newer", canvas_advanced=True)),
    ],
)
def test_a_refusal_parks_nothing_where_the_delivery_has_nothing_left_to_do(stored: Facts) -> None:
    closing = close(stored, ending(), NOW)
    assert (closing.accepted, closing.facts) == (False, stored)
    assert step_back(stored, delivery(), "key", NOW) == stored


def test_a_refused_attempt_is_recorded_under_its_own_name() -> None:
    theirs = job(nonce="newer", worker="theirs", pid=9, fence=8)
    mine = ending(worker="mine", pid=2, fence=7, started_at=EARLIER)
    (record,) = close(facts(theirs), mine, NOW).ended
    assert (record.nonce, record.outcome) == ("old", Outcome.REFUSED)
    assert (record.worker, record.pid, record.fence, record.started_at) == ("mine", 2, 7, EARLIER)


def test_an_attempt_that_steps_down_by_itself_is_parked_and_may_be_taken_over_at_once() -> None:
    closing = close(facts(job(strikes=2)), ending(Outcome.REFUSED, unsettled=True), NOW)
    mine = _job(closing.facts)
    assert not closing.accepted
    assert (mine.status, mine.lease_until, mine.unsettled, mine.strikes) == (Outcome.INTERRUPTED, None, True, 2)
    assert closing.facts.row is not None


def test_an_attempt_that_steps_down_again_and_again_comes_ever_later() -> None:
    waits, row_before = [], None
    for times in range(10):
        closing = close(facts(job(), row=row_before), ending(Outcome.REFUSED, requeues=times), NOW)
        assert closing.facts.row is not None
        assert closing.facts.row.requeues == times + 1
        waits.append((closing.facts.row.wake_at - NOW) / SECOND)
        row_before = evolve(closing.facts.row, status=RowStatus.TAKEN)
    assert waits == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize("stored", [job(), lapsed(), job(status=Outcome.LOST)])
def test_a_late_close_is_accepted_while_nobody_took_over(stored: Job) -> None:
    closing = close(facts(stored, letter=letter()), ending(), NOW)
    assert closing.accepted
    mine = _job(closing.facts)
    assert (mine.status, mine.lease_until, mine.closed_at, mine.strikes) == (Outcome.SUCCEEDED, None, NOW, 0)
    assert closing.facts.letter is not None
    assert closing.facts.letter.state is LetterState.RESOLVED


@pytest.mark.parametrize("stored", [facts(), facts(job(nonce="newer")), facts(job(status=Outcome.SUCCEEDED))])
def test_an_attempt_that_may_never_have_been_opened_changes_nothing_of_others(stored: Facts) -> None:
    closing = close(stored, ending(Outcome.REQUEUED, unsure=True), NOW)
    assert (closing.accepted, closing.facts, closing.ended) == (False, stored, ())


def test_an_attempt_that_was_opened_without_knowing_it_is_closed_and_in_no_doubt() -> None:
    closing = close(facts(job(unsettled=True)), ending(Outcome.REQUEUED, unsure=True), NOW)
    mine = _job(closing.facts)
    assert (closing.accepted, mine.status, mine.unsettled, mine.lease_until) == (True, Outcome.REQUEUED, False, None)


def test_a_body_that_ends_its_own_process_is_counted_and_a_shutdown_neither_counts_nor_clears() -> None:
    struck = _job(close(facts(job(strikes=1)), ending(Outcome.INTERRUPTED, strike=True), NOW).facts)
    spared = _job(close(facts(job(strikes=1)), ending(Outcome.INTERRUPTED), NOW).facts)
    assert (struck.strikes, spared.strikes) == (2, 1)


@pytest.mark.parametrize("ack", AckMode)
def test_an_attempt_that_was_cut_off_leaves_what_others_filed_of_its_end(ack: AckMode) -> None:
    filed = facts(job(status=Outcome.LOST, letter=True, ack=ack), letter=letter(reason=Reason.HARD_TIME_LIMIT))
    closing = close(filed, ending(Outcome.INTERRUPTED), NOW)
    assert (closing.accepted, closing.facts, closing.wakes) == (True, filed, None)
    assert [record.outcome for record in closing.ended] == [Outcome.INTERRUPTED]


@pytest.mark.parametrize("canvas", [True, False])
def test_the_lease_lives_on_until_the_canvas_is_sent_on_if_there_is_one(canvas: bool) -> None:
    mine = _job(close(facts(job(), row=row(status=RowStatus.TAKEN)), ending(canvas=canvas), NOW).facts)
    assert mine.canvas_advanced is not canvas
    assert mine.canvas_until == (NOW + ending().canvas_us if canvas else None)


@pytest.mark.parametrize("canvas", [True, False])
def test_a_row_stays_until_the_canvas_is_sent_on(canvas: bool) -> None:
    after = close(facts(job(), row=row(status=RowStatus.TAKEN)), ending(canvas=canvas), NOW).facts
    assert (after.row is not None) is canvas
    assert advance_canvas(after).row is None


def test_a_failure_files_a_letter_with_its_failure_and_message() -> None:
    after = close(facts(job()), ending(Outcome.FAILED), NOW).facts
    assert after.letter is not None
    assert (after.letter.error_type, after.letter.message) == ("ValueError", b"s.0")


def test_a_second_failure_updates_the_one_letter() -> None:
    after = close(facts(job(attempts=3), letter=letter(attempts=1)), ending(Outcome.FAILED), NOW).facts
    assert after.letter is not None
    assert (after.letter.first_seen, after.letter.last_failed) == (EARLIER, NOW)
    assert (after.letter.attempts, after.letter.error_type) == (3, "ValueError")


def test_a_failure_after_a_resolved_letter_opens_it_again() -> None:
    closed = letter(state=LetterState.RESOLVED, resolved_how="by hand")
    after = close(facts(job(), letter=closed), ending(Outcome.FAILED), NOW).facts.letter
    assert after is not None
    assert (after.state, after.resolved_how) == (LetterState.OPEN, "")


@pytest.mark.parametrize("outcome", [Outcome.RETRY_SCHEDULED, Outcome.SUPERSEDED])
def test_a_retry_keeps_the_key_for_itself_and_drops_the_row_of_the_run_before(outcome: Outcome) -> None:
    after = close(facts(job(), row=row(status=RowStatus.TAKEN)), ending(outcome), NOW).facts
    mine = _job(after)
    assert (mine.status, mine.claim, mine.reserved_until) == (outcome, "key", NOW + ending().reserve_us)
    assert after.row is None


def test_a_retry_that_came_early_and_was_parked_keeps_its_row() -> None:
    after = close(facts(job(), row=row(generation=1)), ending(Outcome.RETRY_SCHEDULED), NOW).facts
    assert after.row is not None


def test_a_cut_off_job_is_filed_at_once_where_no_message_comes_back() -> None:
    early = close(facts(job(ack=AckMode.EARLY, message=b"s.0")), ending(Outcome.INTERRUPTED), NOW).facts
    assert _job(early).status is Outcome.LOST
    assert _job(early).strikes == 0
    assert early.letter is not None
    assert early.letter.message == b"s.0"
    late = close(facts(job()), ending(Outcome.INTERRUPTED), NOW).facts
    assert (_job(late).status, late.letter) == (Outcome.INTERRUPTED, None)


@pytest.mark.parametrize("ack", AckMode)
def test_a_message_that_is_given_back_waits_in_the_parking_lot_and_is_counted(ack: AckMode) -> None:
    stored = facts(job(ack=ack, message=b"s.0"))
    for count in (1, 2, 3):
        after = close(stored, ending(Outcome.REQUEUED, reserve_us=7), NOW).facts
        assert (_job(after).status, after.letter) == (Outcome.REQUEUED, None)
        assert after.row is not None
        assert (after.row.status, after.row.reason, after.row.wake_at) == (RowStatus.PARKED, Reason.REQUEUED, NOW + 7)
        assert (after.row.subject, after.row.requeues) == ("s", count)
        assert due(after, NOW) == after
        released = due(after, NOW + 7).row
        assert released is not None
        assert released.status is RowStatus.RELEASED
        stored = evolve(after, job=job(ack=ack), row=evolve(released, status=RowStatus.TAKEN))


@pytest.mark.parametrize("ack", AckMode)
def test_a_job_that_came_while_the_store_was_away_is_on_its_way_again(ack: AckMode) -> None:
    after = close(facts(job(ack=ack)), ending(Outcome.REQUEUED, unsure=True), NOW).facts
    assert (after.row, after.letter) == (None, None)
    assert _job(after).reap_at == NOW + _job(after).redelivery_us


@pytest.mark.parametrize(("claim", "wakes"), [("key", "key"), (None, None)])
def test_a_message_that_is_given_back_wakes_others_and_not_itself(claim: str | None, wakes: str | None) -> None:
    closing = close(facts(job(claim=claim, waiters=True)), ending(Outcome.REQUEUED, claim=claim), NOW)
    assert closing.wakes == wakes


@pytest.mark.parametrize("outcome", [Outcome.INTERRUPTED, *HANDED_OVER])
@pytest.mark.parametrize("kept", [None, b"kept"])
def test_an_attempt_that_closes_before_its_job_has_ended_leaves_the_message(
    outcome: Outcome, kept: bytes | None
) -> None:
    after = close(facts(job(message=kept)), ending(outcome), NOW).facts
    assert _job(after).message == (kept or b"s.0")


@pytest.mark.parametrize("outcome", [*ENDED, Outcome.REQUEUED])
def test_the_message_goes_where_it_is_not_needed_any_more(outcome: Outcome) -> None:
    after = close(facts(job(message=b"kept")), ending(outcome), NOW).facts
    assert _job(after).message is None


@pytest.mark.parametrize(("waiters", "wakes"), [(True, "key"), (False, None)])
def test_closing_says_who_can_go_on(waiters: bool, wakes: str | None) -> None:
    assert close(facts(job(waiters=waiters)), ending(), NOW).wakes == wakes


def test_a_renewal_prolongs_the_lease_even_late() -> None:
    for stored in (job(), lapsed(), job(lease_until=None)):
        after = renew(facts(stored), "old", "key", 10, NOW)
        assert after is not None
        assert _job(after).lease_until == NOW + 10


@pytest.mark.parametrize(
    "stored",
    [None, job(nonce="newer"), lapsed(claim=None), job(status=Outcome.SUCCEEDED), job(status=Outcome.INTERRUPTED)],
)
def test_a_renewal_is_refused_once_the_job_is_another_attempts_or_over(stored: Job | None) -> None:
    assert renew(facts(stored), "old", "key", 10, NOW) is None


def test_the_first_renewal_brings_the_message_along_where_the_store_has_it_not() -> None:
    def made_again() -> bytes:
        raise AssertionError("the store has it")

    after = renew(facts(job()), "old", "key", 10, NOW, lambda: b"s.0")
    assert after is not None
    assert _job(after).message == b"s.0"
    again = renew(after, "old", "key", 20, NOW, made_again)
    assert again is not None
    assert _job(again).message == b"s.0"


def test_a_renewal_after_the_reaper_goes_on_without_undoing_its_mark() -> None:
    lost = facts(job(status=Outcome.LOST))
    assert renew(lost, "old", "key", 10, NOW) == lost


def test_a_failure_announced_after_success_is_an_amendment() -> None:
    failure = Failure(type="OperationalError", message="backend down")
    mine = _job(amend_failure(facts(job(status=Outcome.SUCCEEDED)), failure, "{}", NOW))
    assert (mine.status, mine.result_lost, mine.failure) == (Outcome.SUCCEEDED, True, "{}")
    failed = facts(job(status=Outcome.FAILED))
    assert amend_failure(failed, failure, "{}", NOW) == failed


def test_what_was_acknowledged_early_and_given_back_is_counted_on() -> None:
    given_back = row(status=RowStatus.SENT, requeues=2)
    stored = facts(job(status=Outcome.REQUEUED, closed_at=EARLIER), row=given_back)
    answer = admit(stored, ask(ack=AckMode.EARLY), NOW)
    assert (answer.verdict, answer.facts.row, answer.requeues) == (Verdict.RUN, None, 2)
    again = close(answer.facts, ending(Outcome.REQUEUED, nonce="new", requeues=answer.requeues), NOW)
    assert again.facts.row is not None
    assert again.facts.row.requeues == 3
