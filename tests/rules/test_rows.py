"""The parking lot: what is due, what was sent, in which round."""

from __future__ import annotations

import pytest

from celery_replay.facts import PUBLISHING_US, Facts, park
from celery_replay.lifecycle import due, sent
from celery_replay.records import Row
from celery_replay.states import Outcome, Reason, RowStatus
from tests.rules.builders import EARLIER, LATER, NOW, delivery, facts, job, lapsed, row

OVER: dict[str, Facts] = {
    "nothing is known": facts(),
    "the attempt ended": facts(holder=job("other", Outcome.FAILED)),
    "the key is done": facts(holder=job("other", Outcome.SUCCEEDED, canvas_until=LATER)),
    "the attempt lapsed": facts(holder=lapsed("other")),
    "the own attempt lapsed": facts(lapsed()),
    "the owner is known to be dead": facts(holder=job("other", lease_until=None)),
    "the reservation lapsed": facts(holder=job("other", Outcome.RETRY_SCHEDULED, reserved_until=EARLIER)),
    "the reservation is its own": facts(job(status=Outcome.RETRY_SCHEDULED)),
    "the canvas advanced": facts(job(status=Outcome.SUCCEEDED, canvas_advanced=True)),
    "the canvas lease lapsed": facts(job(status=Outcome.FAILED, canvas_until=EARLIER)),
}
STILL_THERE: dict[str, Facts] = {
    "another attempt lives": facts(holder=job("other")),
    "the own attempt lives": facts(job()),
    "another's retry is awaited": facts(holder=job("other", Outcome.RETRY_SCHEDULED)),
    "the canvas is on its way": facts(job(status=Outcome.SUCCEEDED, canvas_until=LATER)),
}
WAITING = [RowStatus.PARKED, RowStatus.TAKEN]


def _with(stored: Facts, parked: Row) -> Facts:
    return facts(stored.job, stored.holder, parked)


def _row(stored: Facts) -> Row:
    assert stored.row is not None
    return stored.row


@pytest.mark.parametrize("status", WAITING)
@pytest.mark.parametrize("name", OVER)
def test_a_row_is_released_once_its_obstacle_has_ended_or_lapsed(name: str, status: RowStatus) -> None:
    after = _row(due(_with(OVER[name], row(status=status)), NOW))
    assert (after.status, after.revision) == (RowStatus.RELEASED, 4)


@pytest.mark.parametrize("status", WAITING)
@pytest.mark.parametrize("name", STILL_THERE)
def test_a_row_is_looked_at_again_when_its_obstacle_may_have_lapsed(name: str, status: RowStatus) -> None:
    after = _row(due(_with(STILL_THERE[name], row(status=status)), NOW))
    assert (after.status, after.wake_at, after.revision) == (status, LATER, 3)


@pytest.mark.parametrize("name", [*OVER, *STILL_THERE])
def test_a_sent_row_that_nobody_admitted_by_its_deadline_is_due_again(name: str) -> None:
    stored = {**OVER, **STILL_THERE}[name]
    assert _row(due(_with(stored, row(status=RowStatus.SENT)), NOW)).status is RowStatus.RELEASED


@pytest.mark.parametrize("status", RowStatus)
def test_nothing_is_due_before_its_time(status: RowStatus) -> None:
    stored = facts(row=row(status=status, wake_at=LATER))
    assert due(stored, NOW) == stored


def test_a_row_that_could_not_be_published_comes_again_later_and_is_counted() -> None:
    again = _row(due(facts(row=row(status=RowStatus.RELEASED, wake_at=EARLIER, revision=3, releases=1)), NOW))
    assert (again.status, again.revision, again.releases) == (RowStatus.RELEASED, 3, 2)
    assert again.wake_at == NOW + PUBLISHING_US


def test_a_row_is_marked_as_sent_and_has_a_deadline() -> None:
    released = row(status=RowStatus.RELEASED)
    after = _row(sent(facts(row=released), released, 90, NOW))
    assert (after.status, after.wake_at) == (RowStatus.SENT, NOW + 90)


@pytest.mark.parametrize(
    "stored",
    [
        None,
        row(status=RowStatus.PARKED),
        row(status=RowStatus.TAKEN),
        row(status=RowStatus.SENT),
        row(status=RowStatus.RELEASED, revision=4),
        row(status=RowStatus.RELEASED, parked_at=NOW),
    ],
)
def test_a_mark_that_comes_late_does_not_hit_another_round(stored: Row | None) -> None:
    before = facts(row=stored)
    assert sent(before, row(status=RowStatus.RELEASED), 90, NOW) == before


def _park(stored: Facts, generation: int = 0) -> Facts:
    return park(stored, delivery(generation=generation), "key", Reason.IN_FLIGHT, NOW, LATER)


@pytest.mark.parametrize("status", [RowStatus.PARKED, RowStatus.RELEASED, RowStatus.SENT])
def test_a_row_that_carries_the_delivery_already_stays_as_it_is(status: RowStatus) -> None:
    stored = facts(row=row(status=status))
    assert _park(stored) == stored


@pytest.mark.parametrize(
    "before", [row(status=RowStatus.TAKEN, generation=0), row(status=RowStatus.SENT, generation=0)]
)
def test_parking_a_later_delivery_starts_a_new_round(before: Row) -> None:
    after = _row(_park(facts(row=before), generation=1))
    assert (after.status, after.generation, after.revision, after.message) == (RowStatus.PARKED, 1, 4, b"s.1")


def test_parking_leaves_word_with_whom_it_waits_for() -> None:
    for after in (_park(facts(job())), _park(facts(None, job("other")))):
        waits_for = after.holder or after.job
        assert waits_for is not None
        assert waits_for.waiters
    assert _park(facts(job(status=Outcome.OPEN))).row is not None
