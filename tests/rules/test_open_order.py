"""OPEN: each line of its table, and their order."""

from __future__ import annotations

import itertools

import pytest

from celery_replay.admission import Admission, admit
from celery_replay.facts import Caution, Facts, Place
from celery_replay.records import Lease, evolve
from celery_replay.states import AckMode, OnIncomplete, Outcome, Reason, RowStatus, Verdict
from tests.rules.builders import EARLIER, ENDED, HANDED_OVER, LATER, NOW, ask, facts, job, lapsed, row


def opened(stored: Facts, **question: object) -> Admission:
    return admit(stored, ask(**question), NOW)  # type: ignore[arg-type]


def test_nothing_known_runs() -> None:
    answer = opened(facts())
    assert (answer.verdict, answer.incomplete) == (Verdict.RUN, False)
    assert answer.facts.job is not None
    assert answer.facts.job.nonce == "new"


@pytest.mark.parametrize("generation", [0, 1])
def test_a_parked_row_of_this_or_a_later_delivery_carries_it(generation: int) -> None:
    answer = opened(facts(row=row(generation=generation)))
    assert (answer.verdict, answer.reason) == (Verdict.IGNORE, Reason.ALREADY_PARKED)


def test_a_parked_row_of_an_older_delivery_does_not_carry_a_retry() -> None:
    assert opened(facts(lapsed(), row=row(generation=0)), generation=1).verdict is Verdict.RUN


@pytest.mark.parametrize("status", [RowStatus.RELEASED, RowStatus.SENT, RowStatus.TAKEN])
def test_a_row_that_is_not_parked_never_ignores(status: RowStatus) -> None:
    answer = opened(facts(row=row(status=status)))
    assert answer.verdict is Verdict.RUN
    assert answer.facts.row is not None
    assert answer.facts.row.status is RowStatus.TAKEN


@pytest.mark.parametrize("status", HANDED_OVER)
def test_a_delivery_that_was_handed_over_is_superseded(status: Outcome) -> None:
    answer = opened(facts(job(status=status)))
    assert (answer.verdict, answer.reason) == (Verdict.IGNORE, Reason.NEWER_DELIVERY)


@pytest.mark.parametrize("status", Outcome)
def test_a_delivery_older_than_one_already_opened_is_superseded(status: Outcome) -> None:
    answer = opened(facts(job(status=status, generation=1, lease_until=EARLIER)))
    assert (answer.verdict, answer.reason) == (Verdict.IGNORE, Reason.NEWER_DELIVERY)


@pytest.mark.parametrize("status", ENDED)
def test_an_ended_job_whose_canvas_advanced_is_over_and_leaves_the_parking_lot(status: Outcome) -> None:
    answer = opened(facts(job(status=status, canvas_advanced=True), row=row(status=RowStatus.SENT)))
    assert (answer.verdict, answer.reason) == (Verdict.IGNORE, Reason.CANVAS_ADVANCED)
    assert answer.facts.row is None


@pytest.mark.parametrize("status", ENDED)
def test_an_ended_job_whose_canvas_is_on_its_way_parks(status: Outcome) -> None:
    answer = opened(facts(job(status=status, canvas_until=LATER)))
    assert (answer.verdict, answer.reason) == (Verdict.PARKED, Reason.CANVAS_IN_PROGRESS)
    assert answer.facts.row is not None
    assert answer.facts.row.wake_at == LATER


@pytest.mark.parametrize("canvas_until", [EARLIER, NOW, None])
@pytest.mark.parametrize("status", ENDED)
def test_an_ended_job_whose_canvas_lease_lapsed_is_told_again(status: Outcome, canvas_until: int | None) -> None:
    answer = opened(facts(job(status=status, canvas_until=canvas_until)))
    expected = Verdict.RAISE_AGAIN if status.failing else Verdict.FIRST_RESULT
    assert (answer.verdict, answer.reason) == (expected, Reason.CANVAS_LAPSED)
    assert answer.facts.job is not None
    assert (answer.facts.job.nonce, answer.facts.job.status) == ("new", status)
    assert answer.facts.job.canvas_until == NOW + ask().canvas_us


def test_a_delivery_past_its_expiry_is_refused_without_a_letter() -> None:
    answer = opened(facts(), expires_at=NOW)
    assert (answer.verdict, answer.reason) == (Verdict.REFUSED, Reason.EXPIRED)
    assert answer.facts.job is not None
    assert answer.facts.job.status is Outcome.EXPIRED
    assert answer.facts.letter is None


def test_expiry_does_not_end_an_attempt_that_is_running() -> None:
    assert opened(facts(job()), expires_at=EARLIER).verdict is Verdict.PARKED


def test_a_job_that_killed_its_workers_too_often_is_poison() -> None:
    answer = opened(facts(lapsed(strikes=4)))
    assert (answer.verdict, answer.reason) == (Verdict.REFUSED, Reason.POISON)
    assert answer.facts.letter is not None


def test_poison_follows_the_key_to_another_submission() -> None:
    answer = opened(facts(holder=lapsed("other", strikes=4)))
    assert answer.reason is Reason.POISON


def test_a_living_attempt_is_not_called_poison() -> None:
    assert opened(facts(job(strikes=9))).verdict is Verdict.PARKED


def test_another_submission_of_a_done_key_gets_the_first_result() -> None:
    first = job("other", Outcome.SUCCEEDED, result='"label"', canvas_advanced=True)
    answer = opened(facts(holder=first))
    assert (answer.verdict, answer.reason, answer.source) == (Verdict.FIRST_RESULT, Reason.KEY_DONE, first)
    mine = answer.facts.job
    assert mine is not None
    assert (mine.status, mine.origin, mine.result, mine.claim) == (Outcome.DEDUPLICATED, "other", '"label"', None)
    assert not mine.canvas_advanced
    assert mine.canvas_until == NOW + ask().canvas_us


@pytest.mark.parametrize(("mine", "holder"), [(job(), None), (None, job("other")), (lapsed(claim=None), job("other"))])
def test_a_key_with_a_living_attempt_parks(mine: object, holder: object) -> None:
    answer = opened(facts(mine, holder))  # type: ignore[arg-type]
    assert (answer.verdict, answer.reason) == (Verdict.PARKED, Reason.IN_FLIGHT)
    after = answer.facts
    waits_for = after.holder or after.job
    assert waits_for is not None
    assert waits_for.waiters
    assert after.row is not None
    assert after.row.wake_at == LATER


@pytest.mark.parametrize("status", HANDED_OVER)
def test_a_key_reserved_for_another_submissions_retry_parks(status: Outcome) -> None:
    answer = opened(facts(holder=job("other", status)))
    assert (answer.verdict, answer.reason) == (Verdict.PARKED, Reason.RETRY_PENDING)


@pytest.mark.parametrize("status", HANDED_OVER)
def test_the_retry_itself_runs_with_its_own_reservation(status: Outcome) -> None:
    assert opened(facts(job(status=status)), generation=1).verdict is Verdict.RUN


def test_a_reservation_that_lapsed_keeps_nobody_out() -> None:
    holder = job("other", Outcome.RETRY_SCHEDULED, reserved_until=NOW)
    assert opened(facts(holder=holder)).verdict is Verdict.RUN


def test_another_payload_under_the_key_is_a_conflict() -> None:
    holder = job("other", Outcome.FAILED, fingerprint="v1:aa")
    answer = opened(facts(holder=holder), fingerprint="v1:bb")
    assert (answer.verdict, answer.reason) == (Verdict.REFUSED, Reason.KEY_CONFLICT)
    assert answer.facts.job is not None
    assert answer.facts.job.status is Outcome.FAILED_VALIDATION
    assert answer.facts.holder == holder


def test_another_payload_is_a_conflict_also_where_the_key_is_done() -> None:
    holder = job("other", Outcome.SUCCEEDED, fingerprint="v1:aa")
    assert opened(facts(holder=holder), fingerprint="v1:bb").reason is Reason.KEY_CONFLICT


@pytest.mark.parametrize("theirs", [None, "", "v1:aa", "v2:bb"])
def test_fingerprints_that_are_equal_absent_or_of_another_making_never_conflict(theirs: str | None) -> None:
    holder = job("other", Outcome.SUCCEEDED, fingerprint=theirs)
    assert opened(facts(holder=holder), fingerprint="v1:aa").verdict is Verdict.FIRST_RESULT


@pytest.mark.parametrize(("refuse", "verdict"), [(True, Verdict.REFUSED), (False, Verdict.RUN)])
def test_a_key_whose_job_failed_runs_again_or_is_refused_by_policy(refuse: bool, verdict: Verdict) -> None:
    answer = opened(facts(holder=job("other", Outcome.FAILED)), refuse_failed=refuse)
    assert answer.verdict is verdict


def test_a_lost_job_is_no_failed_key() -> None:
    assert opened(facts(holder=job("other", Outcome.LOST)), refuse_failed=True).verdict is Verdict.RUN


UNSETTLED = [
    facts(lapsed(unsettled=True)),
    facts(job(status=Outcome.LOST, unsettled=True)),
    facts(job(status=Outcome.INTERRUPTED, unsettled=True)),
    facts(holder=lapsed("other", unsettled=True)),
    facts(holder=job("other", Outcome.FAILED, unsettled=True)),
    facts(holder=job("other", Outcome.LOST, unsettled=True)),
]


@pytest.mark.parametrize("stored", UNSETTLED)
@pytest.mark.parametrize("policy", [OnIncomplete.RESUME, OnIncomplete.VERIFY])
def test_an_unsettled_effect_is_told_to_whoever_runs_next(stored: Facts, policy: OnIncomplete) -> None:
    answer = opened(stored, on_incomplete=policy)
    assert (answer.verdict, answer.incomplete) == (Verdict.RUN, True)
    assert answer.facts.job is not None
    assert answer.facts.job.unsettled


@pytest.mark.parametrize("stored", UNSETTLED)
def test_an_unsettled_effect_goes_to_a_person_where_the_task_wants_it(stored: Facts) -> None:
    answer = opened(stored, on_incomplete=OnIncomplete.DEAD_LETTER)
    assert (answer.verdict, answer.reason) == (Verdict.REFUSED, Reason.EFFECT_UNSETTLED)
    after = answer.facts
    assert after.letter is not None
    assert after.job is not None
    assert (after.job.status, after.job.unsettled, after.job.identity) == (Outcome.FAILED, True, "key")
    again = opened(facts(holder=after.job), submission="third", on_incomplete=OnIncomplete.DEAD_LETTER)
    assert again.reason is Reason.EFFECT_UNSETTLED


ORDER = {
    "parked": (facts(row=row()), Reason.ALREADY_PARKED),
    "superseded": (facts(job(status=Outcome.FAILED, generation=1)), Reason.NEWER_DELIVERY),
    "advanced": (facts(job(status=Outcome.FAILED, canvas_advanced=True)), Reason.CANVAS_ADVANCED),
    "in progress": (facts(job(status=Outcome.FAILED, canvas_until=LATER)), Reason.CANVAS_IN_PROGRESS),
    "lapsed canvas": (facts(job(status=Outcome.FAILED, canvas_until=EARLIER)), Reason.CANVAS_LAPSED),
}


@pytest.mark.parametrize("name", ORDER)
def test_what_is_known_of_the_submission_comes_before_all_questions_about_the_key(name: str) -> None:
    stored, reason = ORDER[name]
    hostile = {
        "expires_at": EARLIER,
        "poison_cap": 0,
        "refuse_failed": True,
        "fingerprint": "v1:bb",
        "on_incomplete": OnIncomplete.DEAD_LETTER,
    }
    holders = [
        job("other", Outcome.SUCCEEDED, fingerprint="v1:aa"),
        job("other", fingerprint="v1:aa"),
        job("other", Outcome.FAILED, fingerprint="v1:aa", unsettled=True),
    ]
    for holder in holders:
        answer = opened(facts(stored.job, holder, stored.row), **hostile)
        assert answer.reason is reason


LINES = [
    ("expires_at", EARLIER, Reason.EXPIRED),
    ("poison_cap", 0, Reason.POISON),
    ("fingerprint", "v1:bb", Reason.KEY_CONFLICT),
    ("refuse_failed", True, Reason.KEY_FAILED),
    ("on_incomplete", OnIncomplete.DEAD_LETTER, Reason.EFFECT_UNSETTLED),
]


@pytest.mark.parametrize(("earlier", "later"), list(itertools.combinations(LINES, 2)))
def test_of_two_refusals_the_first_in_the_table_decides(
    earlier: tuple[str, object, Reason], later: tuple[str, object, Reason]
) -> None:
    holder = job("other", Outcome.FAILED, fingerprint="v1:aa", unsettled=True)
    answer = opened(facts(holder=holder), **{earlier[0]: earlier[1], later[0]: later[1]})
    assert answer.reason is earlier[2]


def test_a_conflict_waits_for_the_end_of_the_attempt_in_flight() -> None:
    answer = opened(facts(holder=job("other", fingerprint="v1:aa")), fingerprint="v1:bb")
    assert answer.verdict is Verdict.PARKED


@pytest.mark.parametrize("ack", [AckMode.LATE, AckMode.LATE_ACKS_LOSS])
def test_an_attempt_whose_answer_was_lost_is_told_again_how_often_its_message_was_given_back(ack: AckMode) -> None:
    stored = facts(lapsed(status=Outcome.REQUEUED), row=row(status=RowStatus.SENT, requeues=2))
    first = admit(stored, ask(ack=ack), NOW)
    again = admit(first.facts, ask(ack=ack), NOW)
    assert [(answer.verdict, answer.requeues) for answer in (first, again)] == [(Verdict.RUN, 2)] * 2


PAUSED = Caution(leases_until=LATER)
UNSURE = Caution(leases_until=LATER, tokens_until=LATER)


@pytest.mark.parametrize(
    ("caution", "wants", "waits"),
    [
        (PAUSED, {"resources": ("order:7",)}, True),
        (PAUSED, {"guards": True}, False),
        (PAUSED, {}, False),
        (UNSURE, {"guards": True}, True),
        (UNSURE, {}, False),
        (Caution(leases_until=NOW, tokens_until=NOW), {"resources": ("order:7",), "guards": True}, False),
    ],
)
def test_only_those_wait_for_the_end_of_a_pause_who_would_get_what_may_be_anothers(
    caution: Caution, wants: dict[str, object], waits: bool
) -> None:
    places = (Place(lease=Lease(resource="order:7")),) if "resources" in wants else ()
    answer = opened(evolve(facts(), caution=caution, places=places), **wants)
    assert (answer.reason is Reason.GRANTS_PAUSED) is waits
    if waits:
        assert answer.facts.row is not None
        assert (answer.facts.row.wake_at, answer.facts.job) == (LATER, None)


def test_whoever_waits_for_the_end_of_a_pause_keeps_his_place_in_line() -> None:
    waited = row(status=RowStatus.SENT, reason=Reason.LEASE_HELD, contended_since=EARLIER)
    places = (Place(lease=Lease(resource="order:7")),)
    answer = opened(evolve(facts(row=waited), caution=PAUSED, places=places), resources=("order:7",))
    assert answer.facts.row is not None
    assert (answer.facts.row.reason, answer.facts.row.contended_since) == (Reason.GRANTS_PAUSED, EARLIER)


def test_a_key_that_is_done_is_answered_during_a_pause() -> None:
    answer = opened(evolve(facts(holder=job("other", Outcome.SUCCEEDED)), caution=UNSURE), guards=True)
    assert answer.verdict is Verdict.FIRST_RESULT


def test_no_token_is_lower_than_one_that_may_have_been_given() -> None:
    places = (Place(lease=Lease(resource="order:7", fence=3)),)
    answer = opened(evolve(facts(), caution=Caution(floor=LATER), places=places), resources=("order:7",))
    assert answer.facts.job is not None
    assert (answer.facts.job.fence, answer.facts.places[0].lease.fence) == (LATER, LATER)
