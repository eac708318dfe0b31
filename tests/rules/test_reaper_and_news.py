"""The reaper, and news of the dead from a worker's parent."""

from __future__ import annotations

import pytest

from celery_replay.admission import admit
from celery_replay.facts import Facts
from celery_replay.lifecycle import close
from celery_replay.losses import News, hear, reap
from celery_replay.records import Job, Row, evolve
from celery_replay.states import AckMode, Category, LetterState, Outcome, Reason, RowStatus, Verdict
from tests.rules.builders import EARLIER, ENDED, LATER, NOW, ask, ending, facts, job, lapsed, letter, news, row

PATIENCE = job().redelivery_us
LONG_AGO = NOW - PATIENCE


def _job(stored: Facts) -> Job:
    assert stored.job is not None
    return stored.job


@pytest.mark.parametrize(
    ("stored", "when"),
    [
        (lapsed(ack=AckMode.EARLY), EARLIER),
        (lapsed(ack=AckMode.LATE), EARLIER + PATIENCE),
        (lapsed(ack=AckMode.LATE_ACKS_LOSS), EARLIER + PATIENCE),
        (job(status=Outcome.INTERRUPTED, closed_at=EARLIER), EARLIER + PATIENCE),
        (job(status=Outcome.REQUEUED, closed_at=EARLIER), EARLIER + PATIENCE),
        (job(status=Outcome.RETRY_SCHEDULED, reserved_until=EARLIER), EARLIER + PATIENCE),
        (job(status=Outcome.RETRY_SCHEDULED, reserved_until=EARLIER, ack=AckMode.EARLY), EARLIER + PATIENCE),
    ],
)
def test_a_job_is_filed_when_no_message_can_bring_it_back_and_not_before(stored: Job, when: int) -> None:
    assert reap(facts(stored), when - 1) is None
    change = reap(facts(stored), when)
    assert change is not None
    assert _job(change.facts).status is Outcome.LOST
    assert change.facts.letter is not None


@pytest.mark.parametrize(
    "stored",
    [
        job(),
        job(status=Outcome.LOST),
        job(status=Outcome.FAILED, canvas_advanced=True),
        job(status=Outcome.SUCCEEDED, canvas_advanced=True),
    ],
)
def test_the_reaper_leaves_the_living_and_the_ended_alone(stored: Job) -> None:
    assert reap(facts(stored), NOW) is None


def test_the_reaper_leaves_a_job_to_its_row() -> None:
    assert reap(facts(lapsed(lease_until=LONG_AGO), row=row()), NOW) is None


def test_the_reaper_takes_nothing_over() -> None:
    change = reap(facts(lapsed(lease_until=LONG_AGO, unsettled=True)), NOW)
    assert change is not None
    lost = change.facts
    assert (_job(lost).nonce, _job(lost).claim, _job(lost).unsettled) == ("old", "key", True)
    assert close(lost, ending(), NOW).accepted
    assert admit(lost, ask(), NOW).verdict is Verdict.RUN


def test_a_later_success_of_the_filed_job_resolves_its_letter() -> None:
    change = reap(facts(lapsed(lease_until=LONG_AGO)), NOW)
    assert change is not None
    again = admit(change.facts, ask(), NOW).facts
    after = close(again, ending(nonce="new"), NOW).facts
    assert after.letter is not None
    assert (after.letter.state, _job(after).letter) == (LetterState.RESOLVED, False)


@pytest.mark.parametrize(("unsettled", "category"), [(True, Category.UNKNOWN_OUTCOME), (False, Category.UNCLASSIFIED)])
def test_the_letter_says_whether_an_effect_is_unsettled(unsettled: bool, category: Category) -> None:
    change = reap(facts(lapsed(lease_until=LONG_AGO, unsettled=unsettled)), NOW)
    assert change is not None
    assert change.facts.letter is not None
    assert change.facts.letter.category is category


def test_the_letter_of_a_retry_that_never_came_says_so() -> None:
    change = reap(facts(job(status=Outcome.RETRY_SCHEDULED, reserved_until=LONG_AGO)), NOW)
    assert change is not None
    assert change.facts.letter is not None
    assert (change.facts.letter.reason, change.ended) == (Reason.RETRY_NEVER_CAME, ())


@pytest.mark.parametrize(
    ("stored", "strikes"),
    [
        (lapsed(lease_until=LONG_AGO), 1),
        (job(status=Outcome.INTERRUPTED, closed_at=LONG_AGO), 0),
        (job(status=Outcome.RETRY_SCHEDULED, reserved_until=LONG_AGO), 0),
    ],
)
def test_only_a_death_is_a_strike(stored: Job, strikes: int) -> None:
    change = reap(facts(stored), NOW)
    assert change is not None
    assert _job(change.facts).strikes == strikes


def test_an_ended_job_that_went_silent_is_marked_and_not_filed() -> None:
    stored = facts(job(status=Outcome.SUCCEEDED, canvas_until=EARLIER, ack=AckMode.EARLY))
    change = reap(stored, NOW)
    assert change is not None
    mine = _job(change.facts)
    assert (mine.status, mine.canvas_unknown, mine.canvas_until) == (Outcome.SUCCEEDED, True, None)
    assert change.facts.letter is None
    assert admit(change.facts, ask(), NOW).verdict is Verdict.FIRST_RESULT


@pytest.mark.parametrize(
    "told",
    [news(generation=1), news(worker="another"), news(pid=2)],
)
def test_news_is_only_of_the_attempt_that_it_names(told: News) -> None:
    assert hear(facts(job()), told, NOW) is None


@pytest.mark.parametrize("status", [status for status in Outcome if status not in (Outcome.OPEN, Outcome.INTERRUPTED)])
def test_news_of_a_closed_attempt_changes_nothing(status: Outcome) -> None:
    assert hear(facts(job(status=status)), news(), NOW) is None


def test_final_news_files_the_letter_at_once_and_its_repetition_does_nothing() -> None:
    change = hear(facts(job(ack=AckMode.LATE_ACKS_LOSS, message=b"s.0")), news(), NOW)
    assert change is not None
    assert (_job(change.facts).status, _job(change.facts).strikes) == (Outcome.LOST, 1)
    assert change.facts.letter is not None
    assert (change.facts.letter.reason, change.facts.letter.message) == (Reason.WORKER_LOST, b"s.0")
    assert hear(change.facts, news(), NOW) is None


def test_news_of_a_message_that_comes_back_ends_the_lease_and_files_nothing() -> None:
    change = hear(facts(job()), news(final=False), NOW)
    assert change is not None
    mine = _job(change.facts)
    assert (mine.status, mine.lease_until, change.facts.letter) == (Outcome.OPEN, None, None)
    assert mine.reap_at == NOW + PATIENCE
    assert admit(change.facts, ask(), NOW).verdict is Verdict.RUN


def test_news_of_a_job_whose_row_carries_it_wakes_the_row() -> None:
    change = hear(facts(job(), row=row(wake_at=LATER)), news(), NOW)
    assert change is not None
    assert change.facts.letter is None
    assert change.facts.row is not None
    assert change.facts.row.wake_at == NOW


def test_a_revoked_job_is_over_without_a_letter_and_without_a_strike() -> None:
    change = hear(facts(job(unsettled=True), row=row()), news(reason=Reason.REVOKED), NOW)
    assert change is not None
    mine = _job(change.facts)
    assert (mine.status, mine.strikes, mine.unsettled) == (Outcome.REVOKED, 0, True)
    assert (change.facts.letter, change.facts.row) == (None, None)
    assert admit(change.facts, ask(), NOW).verdict is Verdict.IGNORE


@pytest.mark.parametrize("parked", [None, row()], ids=["never heard of", "parked"])
@pytest.mark.parametrize("reason", [Reason.REVOKED, Reason.EXPIRED])
def test_a_job_that_was_thrown_away_before_it_began_is_recorded(parked: Row | None, reason: Reason) -> None:
    told = news(reason=reason, operation="shop.ship", task_id="task", trace_id="trace", key="order:5", keep_us=5)
    change = hear(facts(None, row=parked), told, NOW)
    assert change is not None
    mine = _job(change.facts)
    assert (mine.status, mine.operation, mine.task_id, mine.key) == (Outcome(reason), "shop.ship", "task", "order:5")
    assert (mine.claim, mine.attempts, mine.keep_until) == (None, 0, NOW + 5)
    assert (change.facts.row, change.facts.letter, change.ended) == (None, None, ())
    assert admit(change.facts, ask(), NOW).verdict is Verdict.IGNORE
    assert hear(change.facts, told, LATER) is None


def test_news_of_an_older_delivery_leaves_the_newer_one_parked() -> None:
    assert hear(facts(None, row=row(generation=2)), news(reason=Reason.REVOKED), NOW) is None


def test_a_letter_is_written_once_whoever_comes_first() -> None:
    filed = hear(facts(job(ack=AckMode.LATE_ACKS_LOSS), letter=letter(error_type="ValueError")), news(), NOW)
    assert filed is not None
    assert filed.facts.letter is not None
    assert (filed.facts.letter.error_type, filed.facts.letter.first_seen) == ("ValueError", EARLIER)


def test_an_attempt_that_was_ended_before_it_knew_why_gets_the_reason_from_the_news() -> None:
    cut_off = close(facts(job(ack=AckMode.EARLY)), ending(outcome=Outcome.INTERRUPTED), NOW).facts
    assert cut_off.letter is not None
    assert cut_off.letter.reason is Reason.INTERRUPTED

    change = hear(cut_off, news(reason=Reason.HARD_TIME_LIMIT), LATER)

    assert change is not None
    assert change.facts.letter is not None
    assert change.facts.letter.reason is Reason.HARD_TIME_LIMIT
    assert change.facts.job is not None
    assert change.facts.job.strikes == 1
    assert hear(change.facts, news(reason=Reason.HARD_TIME_LIMIT), LATER) is None


def test_a_job_that_was_cut_off_by_its_revocation_has_no_open_letter() -> None:
    cut_off = close(facts(job(ack=AckMode.EARLY)), ending(outcome=Outcome.INTERRUPTED), NOW).facts

    change = hear(cut_off, news(reason=Reason.REVOKED), LATER)

    assert change is not None
    assert change.facts.job is not None
    assert change.facts.job.status is Outcome.REVOKED
    assert change.facts.letter is not None
    assert change.facts.letter.state is LetterState.RESOLVED


def test_a_withdrawn_message_takes_its_row_along_and_leaves_a_living_attempt_alone() -> None:
    parked = facts(None, row=row())
    change = hear(parked, news(reason=Reason.EXPIRED), NOW)
    assert change is not None
    assert change.facts.row is None

    assert hear(facts(job()), news(reason=Reason.REVOKED, pid=999), NOW) is None


def test_the_parent_that_announced_a_rejected_job_says_that_its_canvas_is_through() -> None:
    rejected = close(facts(job()), ending(outcome=Outcome.FAILED), NOW).facts
    change = hear(rejected, news(reason=Reason.REJECTED), LATER)
    assert change is not None
    assert change.facts.job is not None
    assert change.facts.job.canvas_advanced


@pytest.mark.parametrize("waits", [None, row(), row(status=RowStatus.SENT)], ids=["no row", "parked", "sent"])
@pytest.mark.parametrize("final", [True, False])
def test_a_hard_time_limit_is_filed_whatever_becomes_of_the_message(final: bool, waits: Row | None) -> None:
    told = news(reason=Reason.HARD_TIME_LIMIT, final=final, error_type="TimeLimitExceeded", error="1 s", message=b"m")
    change = hear(facts(job(), row=waits), told, NOW)
    assert change is not None
    assert (_job(change.facts).status, _job(change.facts).strikes) == (Outcome.LOST, 1)
    filed = change.facts.letter
    assert filed is not None
    assert (filed.reason, filed.error_type, filed.error_message) == (Reason.HARD_TIME_LIMIT, "TimeLimitExceeded", "1 s")
    assert filed.message == b"m"
    assert (change.facts.row is None) == (waits is None)
    assert hear(change.facts, told, LATER) is None


def test_a_hard_time_limit_is_filed_although_the_message_came_back_and_runs_again() -> None:
    told = news(reason=Reason.HARD_TIME_LIMIT, final=False, pid=99)
    change = hear(facts(job()), told, NOW)
    assert change is not None
    mine = _job(change.facts)
    assert (mine.status, mine.nonce, mine.lease_until, mine.strikes) == (Outcome.OPEN, "old", LATER, 1)
    assert change.facts.letter is not None
    assert change.facts.letter.reason is Reason.HARD_TIME_LIMIT
    assert close(change.facts, ending(), NOW).facts.letter == evolve(
        change.facts.letter, state=LetterState.RESOLVED, resolved_how="succeeded"
    )


@pytest.mark.parametrize("status", [status for status in Outcome if status is not Outcome.OPEN])
def test_a_hard_time_limit_of_an_earlier_attempt_changes_nothing_of_a_closed_one(status: Outcome) -> None:
    assert hear(facts(job(status=status)), news(reason=Reason.HARD_TIME_LIMIT, pid=99), NOW) is None


def test_a_lost_child_that_celery_retries_is_expected_as_a_retry() -> None:
    change = hear(facts(job(ack=AckMode.EARLY, message=b"m")), news(final=False, retry_us=5), NOW)
    assert change is not None
    mine = _job(change.facts)
    assert (mine.status, mine.strikes, mine.message) == (Outcome.RETRY_SCHEDULED, 1, b"m")
    assert (mine.lease_until, mine.reserved_until) == (None, NOW + 5 + PATIENCE)
    assert change.facts.letter is None
    assert [record.outcome for record in change.ended] == [Outcome.LOST]
    assert admit(change.facts, ask(), NOW).verdict is Verdict.IGNORE
    assert admit(change.facts, ask(generation=1), NOW).verdict is Verdict.RUN


def test_the_letter_of_an_attempt_that_cut_itself_off_is_resolved_by_celerys_retry() -> None:
    cut_off = close(facts(job(ack=AckMode.EARLY)), ending(outcome=Outcome.INTERRUPTED), NOW).facts
    change = hear(cut_off, news(final=False, retry_us=5), NOW)
    assert change is not None
    assert change.facts.letter is not None
    assert (change.facts.letter.state, change.facts.letter.resolved_how) == (LetterState.RESOLVED, "retried")


TURNED_AWAY = [(Reason.UNKNOWN_TASK, Category.PERMANENT), (Reason.UNDECODABLE, Category.VALIDATION)]


@pytest.mark.parametrize(("reason", "category"), TURNED_AWAY)
@pytest.mark.parametrize(
    "known",
    [
        None,
        lapsed(),
        job(status=Outcome.LOST),
        job(status=Outcome.REQUEUED),
        job(status=Outcome.INTERRUPTED),
        job(status=Outcome.RETRY_SCHEDULED, generation=-1),
    ],
    ids=lambda known: str(known.status) if known else "never heard of",
)
def test_a_message_that_was_thrown_away_has_one_letter_and_may_still_run(
    known: Job | None, reason: Reason, category: Category
) -> None:
    told = news(reason=reason, error_type="KeyError", error="gone", message=b"m", operation="gone", keep_us=5)
    change = hear(facts(known), told, NOW)
    assert change is not None
    filed = change.facts.letter
    assert filed is not None
    assert (filed.reason, filed.category, filed.error_type, filed.message) == (reason, category, "KeyError", b"m")
    mine = _job(change.facts)
    assert (mine.status, mine.generation, mine.canvas_advanced) == (Outcome.LOST, 0, False)
    assert hear(change.facts, told, LATER) is None
    again = admit(change.facts, ask(), LATER)
    assert again.verdict is Verdict.RUN
    after = close(again.facts, ending(nonce="new"), LATER).facts
    assert after.letter is not None
    assert after.letter.state is LetterState.RESOLVED


@pytest.mark.parametrize("reason", [Reason.UNKNOWN_TASK, Reason.UNDECODABLE])
@pytest.mark.parametrize(
    "stored",
    [
        facts(job()),
        facts(job(generation=1, status=Outcome.LOST)),
        *(facts(job(status=outcome)) for outcome in ENDED),
        facts(None, row=row()),
        facts(lapsed(), row=row(status=RowStatus.RELEASED)),
    ],
)
def test_a_message_that_was_thrown_away_is_no_loss_where_others_have_the_job(stored: Facts, reason: Reason) -> None:
    assert hear(stored, news(reason=reason), NOW) is None


def test_a_message_that_was_thrown_away_keeps_the_row_that_will_send_it_again() -> None:
    sent = row(status=RowStatus.SENT)
    change = hear(facts(lapsed(), row=sent), news(reason=Reason.UNKNOWN_TASK), NOW)
    assert change is not None
    assert change.facts.row == sent
    assert change.facts.letter is not None


def test_a_retry_that_was_thrown_away_takes_the_row_of_the_older_delivery_along() -> None:
    stored = facts(lapsed(), row=row(status=RowStatus.SENT))
    change = hear(stored, news(reason=Reason.UNKNOWN_TASK, generation=1), NOW)
    assert change is not None
    assert (change.facts.row, _job(change.facts).generation) == (None, 1)
    assert change.facts.letter is not None


@pytest.mark.parametrize("how", ["succeeded", "deduplicated", "replayed"])
@pytest.mark.parametrize("mine", [lapsed(ack=AckMode.EARLY), lapsed("s/1", ack=AckMode.EARLY, original="s")])
def test_a_copy_that_dies_after_the_job_or_its_replay_succeeded_leaves_the_letter_resolved(mine: Job, how: str) -> None:
    resolved = letter(state=LetterState.RESOLVED, resolved_how=how, replay="s/1")
    change = reap(facts(mine, letter=resolved), NOW)
    assert change is not None
    assert _job(change.facts).status is Outcome.LOST
    assert change.facts.letter == resolved


@pytest.mark.parametrize("reason", [Reason.REVOKED, Reason.EXPIRED])
@pytest.mark.parametrize("state", [LetterState.REPLAY_PENDING, LetterState.OPEN])
def test_what_is_withdrawn_after_it_was_replayed_leaves_its_letter_to_the_replay(
    state: LetterState, reason: Reason
) -> None:
    stored = facts(lapsed(status=Outcome.LOST), letter=letter(state=state, replay="s/1"))
    change = hear(stored, news(reason=reason), NOW)
    assert change is not None
    assert _job(change.facts).status is Outcome(reason)
    assert change.facts.letter == stored.letter
