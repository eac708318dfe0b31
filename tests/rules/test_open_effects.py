"""OPEN: what is written in the same step as the answer."""

from __future__ import annotations

import pytest

from celery_replay.admission import admit
from celery_replay.records import Job
from celery_replay.states import AckMode, LetterState, OnIncomplete, Outcome, RowStatus, Verdict
from tests.rules.builders import EARLIER, NOW, ask, facts, job, lapsed, letter, row


def _job(answer_job: Job | None) -> Job:
    assert answer_job is not None
    return answer_job


def test_admission_mints_a_new_owner_with_a_lease_and_a_higher_fence() -> None:
    mine = _job(admit(facts(lapsed(fence=NOW + 7)), ask(), NOW).facts.job)
    assert (mine.nonce, mine.lease_until, mine.fence) == ("new", NOW + ask().lease_us, NOW + 8)


def test_a_key_that_moves_takes_its_fence_its_waiters_and_its_strikes_along() -> None:
    answer = admit(facts(holder=lapsed("other", fence=NOW + 7, waiters=True, strikes=1, unsettled=True)), ask(), NOW)
    mine, other = _job(answer.facts.job), _job(answer.facts.holder)
    assert (mine.claim, mine.fence, mine.waiters, mine.strikes, mine.unsettled) == ("key", NOW + 8, True, 2, True)
    assert (other.claim, other.waiters, other.unsettled) == (None, False, False)


def test_a_refusal_that_takes_the_key_never_lowers_its_fence() -> None:
    stored = facts(job(status=Outcome.LOST, claim=None, fence=3), lapsed("other", fence=NOW + 7, unsettled=True))
    answer = admit(stored, ask(on_incomplete=OnIncomplete.DEAD_LETTER), NOW)
    assert answer.verdict is Verdict.REFUSED
    assert _job(answer.facts.job).fence == NOW + 7


def test_the_death_of_an_attempt_that_is_taken_over_is_recorded() -> None:
    (death,) = admit(facts(holder=lapsed("other", unsettled=True)), ask(), NOW).ended
    assert (death.submission, death.nonce, death.outcome) == ("other", "old", Outcome.UNKNOWN)
    (death,) = admit(facts(lapsed()), ask(), NOW).ended
    assert (death.submission, death.outcome) == ("s", Outcome.LOST)


def test_an_admitted_row_is_taken_and_looked_at_when_the_lease_ends() -> None:
    after = admit(facts(lapsed(), row=row(status=RowStatus.SENT)), ask(), NOW).facts.row
    assert after is not None
    assert (after.status, after.wake_at, after.revision) == (RowStatus.TAKEN, NOW + ask().lease_us, 3)


def test_a_row_does_not_bring_back_what_was_acknowledged_early() -> None:
    stored = facts(lapsed(), row=row(status=RowStatus.SENT))
    answer = admit(stored, ask(ack=AckMode.EARLY), NOW)
    assert answer.verdict is Verdict.RUN
    assert answer.facts.row is None
    assert _job(answer.facts.job).message
    later = row(status=RowStatus.SENT, generation=1)
    assert admit(facts(lapsed(), row=later), ask(ack=AckMode.EARLY), NOW).facts.row == later


def test_a_row_that_a_later_delivery_takes_carries_that_delivery() -> None:
    after = admit(facts(lapsed(), row=row(generation=0)), ask(generation=1), NOW).facts.row
    assert after is not None
    assert (after.generation, after.message) == (1, b"s.1")


def test_a_row_of_a_later_delivery_is_left_to_it() -> None:
    later = row(status=RowStatus.SENT, generation=1)
    assert admit(facts(lapsed(), row=later), ask(), NOW).facts.row == later


@pytest.mark.parametrize("status", [RowStatus.RELEASED, RowStatus.SENT])
def test_a_released_row_that_has_to_wait_again_is_parked_in_a_new_round(status: RowStatus) -> None:
    after = admit(facts(holder=job("other"), row=row(status=status)), ask(), NOW).facts.row
    assert after is not None
    assert (after.status, after.revision) == (RowStatus.PARKED, 4)


def test_the_first_result_resolves_the_own_letter() -> None:
    stored = facts(job(status=Outcome.LOST, claim=None, letter=True), job("other", Outcome.SUCCEEDED), None, letter())
    after = admit(stored, ask(), NOW).facts
    assert after.letter is not None
    assert after.letter.state is LetterState.RESOLVED


def test_a_body_that_is_one_step_is_claimed_in_open() -> None:
    assert _job(admit(facts(), ask(is_step=True), NOW).facts.job).unsettled
    assert not _job(admit(facts(), ask(is_step=False), NOW).facts.job).unsettled


@pytest.mark.parametrize(
    ("ack", "message"), [(AckMode.EARLY, b"s.0"), (AckMode.LATE_ACKS_LOSS, None), (AckMode.LATE, None)]
)
def test_the_message_is_kept_where_neither_the_broker_nor_the_workers_parent_has_it_any_more(
    ack: AckMode, message: bytes | None
) -> None:
    assert _job(admit(facts(), ask(ack=ack), NOW).facts.job).message == message


@pytest.mark.parametrize(
    ("before", "strikes"),
    [
        (lapsed(strikes=1), 2),
        (job(status=Outcome.LOST, strikes=1), 1),
        (job(status=Outcome.INTERRUPTED), 0),
        (job(status=Outcome.REQUEUED), 0),
        (job(status=Outcome.RETRY_SCHEDULED, reserved_until=EARLIER), 0),
    ],
)
def test_only_deaths_count_as_strikes_and_each_once(before: Job, strikes: int) -> None:
    answer = admit(facts(before), ask(generation=1), NOW)
    assert answer.verdict is Verdict.RUN
    assert _job(answer.facts.job).strikes == strikes


def test_ignoring_writes_nothing() -> None:
    for stored in (facts(row=row()), facts(job(generation=1), row=row(generation=1, status=RowStatus.TAKEN))):
        assert admit(stored, ask(), NOW).facts == stored
