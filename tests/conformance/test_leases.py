"""Any store: leases on resources, who waits for them, in which order, and what becomes of who lost one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from celery_replay.admission import Admission
from celery_replay.clock import SECOND
from celery_replay.leases import BACKOFF_LIMIT_US, LONG_STOP_US
from celery_replay.records import HOLDINGS, Job, Row
from celery_replay.states import LeaseEnd, Outcome, Reason, RowStatus, Verdict
from celery_replay.stores.base import Pulse, Store
from tests.conformance import callers
from tests.conformance.callers import claims, stations, stored
from tests.conformance.world import Clock
from tests.rules.builders import news

LEASE = 60 * SECOND
RESEND = 90 * SECOND
PARKED, RELEASED, SENT, TAKEN = RowStatus.PARKED, RowStatus.RELEASED, RowStatus.SENT, RowStatus.TAKEN


def opens(store: Store, submission: str, *resources: str, **question: Any) -> Admission:
    question = {"claim": None, "resources": tuple(sorted(resources)), **question}
    return callers.opens(store, submission, **question)


def runs(store: Store, submission: str, *resources: str, **question: Any) -> Job:
    answer = opens(store, submission, *resources, **question)
    assert answer.verdict is Verdict.RUN
    assert answer.facts.job is not None
    return answer.facts.job


def closes(store: Store, job: Job, *resources: str, outcome: Outcome = Outcome.SUCCEEDED, **how: Any) -> Sequence[Row]:
    return callers.closes(store, job, outcome, resources=tuple(sorted(resources)), **how)


def waits(store: Store, clock: Clock, submission: str, *resources: str, **question: Any) -> Admission:
    clock.now += SECOND
    answer = opens(store, submission, *resources, **question)
    assert (answer.verdict, answer.reason) == (Verdict.PARKED, Reason.LEASE_HELD)
    return answer


def beats(store: Store, job: Job, *resources: str) -> bool:
    pulse = Pulse(submission=job.submission, nonce=job.nonce, claim=None, lease_us=LEASE, resources=resources)
    return not store.renew([pulse])


def given_up(store: Store, clock: Clock, submission: str, *resources: str) -> Job:
    """Run a job that is taken for lost, and lives."""
    job = runs(store, submission, *resources, worker="w", pid=1)
    clock.now += 600 * SECOND
    assert store.reap() == 1
    assert beats(store, job, *resources)
    return job


def names(rows: Sequence[Row]) -> list[str]:
    return [row.submission for row in rows]


def fences(answer: Admission) -> dict[str, int]:
    return {place.lease.resource: place.lease.fence for place in answer.facts.places}


def test_jobs_of_any_task_that_name_a_resource_exclude_each_other(store: Store, clock: Clock) -> None:
    runs(store, "a", "order:7")
    assert opens(store, "b", "order:8").verdict is Verdict.RUN
    answer = waits(store, clock, "c", "order:7", key="another", claim="another")
    assert answer.behind is not None
    assert (answer.behind.lease.submission, answer.behind.lease.resource) == ("a", "order:7")


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.INTERRUPTED, Outcome.IGNORED])
def test_however_the_holder_closes_the_first_who_waits_is_called(store: Store, clock: Clock, outcome: Outcome) -> None:
    holder = runs(store, "a", "r")
    for name in "bcd":
        waits(store, clock, name, "r")
    assert names(closes(store, holder, "r", outcome=outcome)) == ["b"]
    assert runs(store, "b", "r").attempts == 1
    assert stations(store) == {"b": TAKEN, "c": PARKED, "d": PARKED}


def test_a_scheduled_retry_lets_go_of_its_resources_and_stands_in_line_again(store: Store, clock: Clock) -> None:
    holder = runs(store, "a", "r", claim="key")
    waits(store, clock, "b", "r")
    assert names(closes(store, holder, "r", outcome=Outcome.RETRY_SCHEDULED, claim="key")) == ["b"]
    second = runs(store, "b", "r")
    waits(store, clock, "a", "r", claim="key", generation=1)
    assert names(closes(store, second, "r")) == ["a"]
    assert runs(store, "a", "r", claim="key", generation=1).generation == 1


def test_each_waits_once_and_in_the_order_of_coming(store: Store, clock: Clock) -> None:
    jobs = [f"job-{number:04}" for number in range(60 if store.shared else 1_000)]
    holder, opened, order = runs(store, "first", "r"), 1, []
    for name in jobs:
        waits(store, clock, name, "r")
        opened += 1
    while rows := closes(store, holder, "r"):
        (row,) = rows
        store.mark_sent(row, RESEND)
        holder, opened = runs(store, row.submission, "r"), opened + 1
        order.append(row.submission)
    assert order == jobs
    assert opened == 2 * len(jobs) + 1


def test_a_newcomer_does_not_overtake_who_was_called(store: Store, clock: Clock) -> None:
    holder = runs(store, "a", "r")
    waits(store, clock, "b", "r")
    (row,) = closes(store, holder, "r")
    store.mark_sent(row, RESEND)
    waits(store, clock, "late", "r")
    assert names(closes(store, runs(store, "b", "r"), "r")) == ["late"]


def test_who_does_not_come_when_called_is_overtaken_and_comes_first_when_it_does(store: Store, clock: Clock) -> None:
    holder = runs(store, "a", "r")
    waits(store, clock, "b", "r")
    waits(store, clock, "c", "r")
    (row,) = closes(store, holder, "r")
    store.mark_sent(row, RESEND)
    clock.now += RESEND
    assert "b" in names(store.release_due())
    assert stations(store) == {"b": RELEASED, "c": RELEASED}
    second = runs(store, "c", "r")
    waits(store, clock, "d", "r")
    waits(store, clock, "b", "r")
    assert names(closes(store, second, "r")) == ["b"]


def test_who_waits_is_called_when_the_holder_goes_silent(store: Store, clock: Clock) -> None:
    runs(store, "a", "r")
    waits(store, clock, "b", "r")
    waits(store, clock, "c", "r")
    clock.now += LEASE - 2 * SECOND - 1
    assert names(store.release_due()) == []
    clock.now += 1
    assert names(store.release_due()) == ["b"]
    runs(store, "b", "r")
    clock.now += LEASE
    assert names([row for row in store.release_due() if row.submission != "b"]) == ["c"]


def test_only_who_is_next_is_looked_at_while_a_lease_is_renewed(store: Store, clock: Clock) -> None:
    runs(store, "a", "r")
    for name in "bcdef":
        waits(store, clock, name, "r")
    due = {row.submission: row.wake_at for row in store.rows()}
    assert due.pop("b") < clock.now + LEASE
    assert min(due.values()) > clock.now + LONG_STOP_US - 10 * SECOND


def test_a_renewal_keeps_the_lease(store: Store, clock: Clock) -> None:
    job = runs(store, "a", "r", "s")
    waits(store, clock, "b", "r")
    pulse = Pulse(submission="a", nonce=job.nonce, claim=None, lease_us=LEASE, resources=("r", "s"))
    for _ in range(3):
        clock.now += LEASE - 2 * SECOND
        assert store.renew([pulse]) == set()
        assert names(store.release_due()) == []
    waits(store, clock, "c", "s")


def test_all_or_nothing(store: Store, clock: Clock) -> None:
    holder = runs(store, "a", "s")
    waits(store, clock, "b", "r", "s")
    # Nobody has r, but b came for it first; t is anybody's.
    waits(store, clock, "c", "r")
    assert opens(store, "d", "t").verdict is Verdict.RUN
    assert names(closes(store, holder, "s")) == ["b"]
    second = runs(store, "b", "r", "s")
    assert names(closes(store, second, "r", "s")) == ["c"]


def test_two_who_name_the_same_resources_in_another_order_do_not_wait_for_each_other(
    store: Store, clock: Clock
) -> None:
    first = runs(store, "a", "r", "s")
    waits(store, clock, "b", "s", "r")
    waits(store, clock, "c", "r", "s")
    for name in "bc":
        assert names(closes(store, first, "r", "s")) == [name]
        first = runs(store, name, "r", "s")
    closes(store, first, "r", "s")


def test_a_job_that_needs_two_is_not_starved_by_those_that_need_one(store: Store, clock: Clock) -> None:
    one, other = runs(store, "r0", "r"), runs(store, "s0", "s")
    waits(store, clock, "both", "r", "s")
    waits(store, clock, "r1", "r")
    waits(store, clock, "s1", "s")
    assert names(closes(store, one, "r")) == ["both"]
    waits(store, clock, "both", "r", "s")
    waits(store, clock, "r2", "r")
    assert names(closes(store, other, "s")) == ["both"]
    both = runs(store, "both", "r", "s")
    assert sorted(names(closes(store, both, "r", "s"))) == ["r1", "s1"]


def test_fences_rise_from_holder_to_holder(store: Store, clock: Clock) -> None:
    seen: list[int] = []
    for name in ("a", "b", "c", "d"):
        answer = opens(store, name, "r")
        assert answer.facts.job is not None
        seen.append(fences(answer)["r"])
        if name != "b":
            closes(store, answer.facts.job, "r")
        else:
            clock.now += LEASE
    assert seen == sorted(set(seen))
    assert seen[0] >= 1_700_000_000 * SECOND


def test_a_fence_does_not_go_back_when_the_clock_does(store: Store, clock: Clock) -> None:
    first = opens(store, "a", "r")
    assert first.facts.job is not None
    closes(store, first.facts.job, "r")
    clock.now -= 3600 * SECOND
    assert fences(opens(store, "b", "r"))["r"] > fences(first)["r"]


def test_a_lease_that_is_forgotten_begins_above_its_last_fence(store: Store, clock: Clock) -> None:
    first = opens(store, "a", "r")
    assert first.facts.job is not None
    closes(store, first.facts.job, "r", keep_us=SECOND)
    clock.now += 86_400 * SECOND + LEASE
    store.prune()
    assert store.lease("r") is None
    assert fences(opens(store, "b", "r"))["r"] > fences(first)["r"]


def test_who_lost_a_lease_has_lost_the_job(store: Store, clock: Clock) -> None:
    zombie = runs(store, "a", "r", "s")
    clock.now += LEASE
    runs(store, "b", "r")
    assert not beats(store, zombie, "r", "s")
    assert claims(store, zombie)[0] is False
    assert [attempt.outcome for attempt in store.attempts("a")] == [Outcome.LOST]
    accepted, _ = store.close(
        zombie,
        callers.builders.ending(
            delivery=callers.builders.delivery("a"), nonce=zombie.nonce, claim=None, resources=("r", "s")
        ),
    )
    assert not accepted
    # What it still had is free; what another one has stays with that.
    assert opens(store, "c", "s").verdict is Verdict.RUN
    waits(store, clock, "d", "r")
    assert stations(store) == {"a": PARKED, "d": PARKED}


def test_a_lease_that_lapsed_and_that_nobody_took_may_go_on(store: Store, clock: Clock) -> None:
    late = runs(store, "a", "r")
    clock.now += 2 * LEASE
    closes(store, late, "r")
    assert stored(store, "a").status is Outcome.SUCCEEDED
    assert store.lease("r").nonce == ""


def test_the_same_job_comes_again_and_takes_what_its_dead_attempt_had(store: Store, clock: Clock) -> None:
    runs(store, "a", "r", nonce="dies")
    clock.now += LEASE
    again = runs(store, "a", "r", nonce="again")
    assert again.attempts == 2
    assert (store.lease("r").nonce, again.strikes) == ("again", 1)


def test_news_of_a_death_frees_its_resources_at_once(store: Store, clock: Clock) -> None:
    runs(store, "a", "r", worker="w", pid=1)
    waits(store, clock, "b", "r")
    assert names(store.hear(news(submission="a"))) == ["b"]
    runs(store, "b", "r")
    assert [holding.end for holding in store.holdings("r")] == [LeaseEnd.DIED]


def test_news_of_another_delivery_leaves_a_living_attempt_its_resources(store: Store, clock: Clock) -> None:
    job = given_up(store, clock, "a", "r")
    store.hear(news(submission="a", worker="another", reason=Reason.REVOKED))
    assert stored(store, "a").status is Outcome.REVOKED
    waits(store, clock, "b", "r")
    assert not beats(store, job, "r")
    assert names(closes(store, job, "r", outcome=Outcome.REFUSED)) == ["b"]


def test_an_end_that_another_delivery_brings_leaves_a_living_attempt_its_resources(store: Store, clock: Clock) -> None:
    given_up(store, clock, "a", "r")
    assert opens(store, "a", "r", nonce="later", expires_at=clock.now).reason is Reason.EXPIRED
    waits(store, clock, "b", "r")


def test_a_job_that_lost_one_lease_leaves_the_others_when_it_is_over(store: Store, clock: Clock) -> None:
    runs(store, "a", "r", "s")
    clock.now += LEASE
    runs(store, "b", "s")
    store.hear(news(submission="a", worker="another", reason=Reason.REVOKED))
    assert [lease.resource for lease in store.leases()] == ["s"]


@pytest.mark.parametrize("how", ["closes", "dies"])
def test_a_later_delivery_of_the_same_job_keeps_its_place_when_the_lost_attempt_ends(
    store: Store, clock: Clock, how: str
) -> None:
    job = given_up(store, clock, "a", "r")
    waits(store, clock, "a", "r", generation=1)
    if how == "closes":
        closes(store, job, "r", outcome=Outcome.REQUEUED)
    else:
        store.hear(news(submission="a", reason=Reason.REVOKED))
    waits(store, clock, "b", "r")


def test_a_revoked_job_leaves_the_line(store: Store, clock: Clock) -> None:
    holder = runs(store, "a", "r")
    waits(store, clock, "b", "r")
    waits(store, clock, "c", "r")
    (row,) = closes(store, holder, "r")
    store.mark_sent(row, RESEND)
    assert names(store.hear(news(submission="b", reason=Reason.REVOKED, worker="x", pid=9))) == ["c"]


def test_who_finds_at_its_turn_that_its_key_is_done_lets_the_next_go(store: Store, clock: Clock) -> None:
    holder = runs(store, "a", "r")
    waits(store, clock, "b", "r", claim="key")
    waits(store, clock, "c", "r")
    (row,) = closes(store, holder, "r")
    store.mark_sent(row, RESEND)
    closes(store, runs(store, "same", claim="key"), claim="key")
    assert opens(store, "b", "r", claim="key").verdict is Verdict.FIRST_RESULT
    assert stations(store)["c"] is RELEASED


def test_one_that_backs_off_looks_again_by_time_and_later_each_time(store: Store, clock: Clock) -> None:
    runs(store, "a", "r")
    pauses, nonce = [], 0
    for nonce in range(12):
        answer = opens(store, "b", "r", backs_off=True, nonce=f"b{nonce}")
        assert (answer.verdict, answer.reason) == (Verdict.PARKED, Reason.LEASE_HELD)
        row = store.row("b")
        assert row is not None
        pauses.append(row.wake_at - clock.now)
        store.renew([Pulse(submission="a", nonce="a.0", claim=None, lease_us=2 * BACKOFF_LIMIT_US, resources=("r",))])
        clock.now = row.wake_at
        assert names(store.release_due()) == ["b"]
    assert pauses[0] <= SECOND
    assert BACKOFF_LIMIT_US / 2 <= pauses[-1] <= BACKOFF_LIMIT_US
    # It stands in no line, so nobody waits for it.
    closes(store, stored(store, "a"), "r")
    assert opens(store, "c", "r").verdict is Verdict.RUN


def test_a_refused_job_takes_no_lease(store: Store, clock: Clock) -> None:
    closes(store, runs(store, "a", claim="key", fingerprint="1:a"), claim="key")
    assert opens(store, "b", "r", claim="key", fingerprint="1:b").verdict is Verdict.REFUSED
    assert store.lease("r") is None


def test_a_repeated_question_gets_the_same_answer(store: Store) -> None:
    first = opens(store, "a", "r", nonce="n")
    again = opens(store, "a", "r", nonce="n")
    assert again.verdict is Verdict.RUN
    assert fences(again) == fences(first)


def test_the_newest_holders_are_remembered_and_no_more(store: Store, clock: Clock) -> None:
    for number in range(HOLDINGS + 5):
        clock.now += SECOND
        closes(store, runs(store, f"job-{number}", "r"), "r")
    found = store.holdings("r")
    assert names(found) == [f"job-{number}" for number in range(HOLDINGS + 4, 4, -1)]
    assert {holding.end for holding in found} == {LeaseEnd.RELEASED}


def test_leases_that_somebody_has_are_listed_the_oldest_first(store: Store, clock: Clock) -> None:
    jobs = {}
    for name in "abc":
        clock.now += SECOND
        jobs[name] = runs(store, name, f"r{name}")
    closes(store, jobs["b"], "rb")
    assert [lease.resource for lease in store.leases()] == ["ra", "rc"]
    waits(store, clock, "d", "rc")
    waits(store, clock, "e", "rc")
    assert names(store.line("rc")) == ["d", "e"]
