"""Any store: what people look up, page by page and at one glance."""

from __future__ import annotations

import pytest

from celery_replay.clock import SECOND
from celery_replay.records import Failure
from celery_replay.states import AckMode, LetterState, Outcome, Reason
from celery_replay.stores.base import Store
from tests.conformance.callers import claims, closes, opens, runs
from tests.conformance.world import Clock
from tests.rules.builders import delivery

HOUR = 3600 * SECOND


def starts(store: Store, name: str, operation: str = "shop.ship", outcome: Outcome | None = None) -> None:
    """Run a job without a key; end it where an outcome is given."""
    job = runs(store, name, claim=None, delivery=delivery(name))
    if outcome is not None:
        closes(store, job, outcome, claim=None)


def fails(store: Store, name: str, error: str = "ValueError", message: str = "no", **changes: Reason) -> None:
    failure = Failure(type=error, message=message, **changes)
    closes(store, runs(store, name, claim=None), Outcome.FAILED, claim=None, failure=failure)


def names(records: object) -> list[str]:
    return [record.submission for record in records]  # type: ignore[attr-defined]


def test_jobs_are_listed_newest_first(store: Store, clock: Clock) -> None:
    for name in "abc":
        starts(store, name)
        clock.now += SECOND
    assert names(store.find_jobs()) == ["c", "b", "a"]


def test_jobs_are_found_by_status(store: Store) -> None:
    starts(store, "open")
    starts(store, "done", outcome=Outcome.SUCCEEDED)
    assert names(store.find_jobs(status=Outcome.SUCCEEDED)) == ["done"]


def test_jobs_are_found_by_task(store: Store) -> None:
    starts(store, "a")
    assert (names(store.find_jobs(operation="shop.ship")), names(store.find_jobs(operation="shop"))) == (["a"], [])


def test_pages_show_every_job_once_though_many_began_at_the_same_time(store: Store, clock: Clock) -> None:
    for name in "abcde":
        starts(store, name)
    clock.now += SECOND
    starts(store, "f")
    seen, before = [], None
    while page := store.find_jobs(before=before, limit=2):
        seen += names(page)
        before = (page[-1].started_at, page[-1].submission)
    assert seen == ["f", "e", "d", "c", "b", "a"]


def test_a_time_alone_begins_a_page_before_it(store: Store, clock: Clock) -> None:
    starts(store, "old")
    clock.now += SECOND
    starts(store, "new")
    assert names(store.find_jobs(before=(clock.now, ""))) == ["old"]


def test_jobs_since_a_time_began_then_or_later(store: Store, clock: Clock) -> None:
    starts(store, "old")
    clock.now += SECOND
    starts(store, "then")
    assert names(store.find_jobs(since=clock.now)) == ["then"]


def test_letters_are_listed_newest_first_and_paged(store: Store, clock: Clock) -> None:
    for name in "abc":
        fails(store, name)
        clock.now += SECOND
    first = store.letters(2)
    second = store.letters(2, before=(first[-1].last_failed, first[-1].submission))
    assert (names(first), names(second)) == (["c", "b"], ["a"])


def test_letters_are_found_by_reason_and_state(store: Store) -> None:
    fails(store, "rejected", reason=Reason.REJECTED)
    fails(store, "failed")
    assert names(store.letters(reason=Reason.REJECTED)) == ["rejected"]
    assert list(store.letters(state=LetterState.RESOLVED)) == []
    assert names(store.letters(operation="shop.ship", state=LetterState.OPEN)) == ["rejected", "failed"]


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ("Timeout", ["type"]),
        ("card 50%", ["message"]),
        ("timeout", []),
        ("%", ["message"]),
        ("CARD", []),
        ("_", []),
        ("\\", []),
        ("'", []),
    ],
)
def test_letters_are_found_by_a_part_of_their_error_as_it_is_written(store: Store, part: str, found: list[str]) -> None:
    fails(store, "type", error="requests.ReadTimeout")
    fails(store, "message", message="card 50% charged")
    assert names(store.letters(error=part)) == found


def test_letters_since_a_time_failed_then_or_later(store: Store, clock: Clock) -> None:
    fails(store, "old")
    clock.now += SECOND
    fails(store, "then")
    assert names(store.letters(since=clock.now)) == ["then"]


def test_whom_parked_jobs_wait_for_is_found_by_key_and_by_submission(store: Store) -> None:
    runs(store, "holder", claim="key")
    starts(store, "alone")
    found = store.owners(["key", "alone", "nobody"])
    assert {identity: job.submission for identity, job in found.items() if identity != "holder"} == {
        "key": "holder",
        "alone": "alone",
    }
    assert store.owners([]) == {}


def test_pages_show_every_parked_job_once_though_many_came_at_the_same_time(store: Store, clock: Clock) -> None:
    runs(store, "owner")
    for moment in range(2):
        for number in range(3):
            opens(store, f"w{moment}{number}")
        clock.now += SECOND
    wanted = [f"w{moment}{number}" for moment in range(2) for number in range(3)]
    for size in (1, 2, 4):
        found: list[str] = []
        after = None
        while page := store.rows(size, after=after):
            found += names(page)
            after = page[-1].parked_at, page[-1].submission
        assert found == wanted
    assert names(store.every_row()) == wanted


def test_a_glance_at_an_empty_store_finds_nothing(store: Store, clock: Clock) -> None:
    glance = store.overview()
    assert (glance.open_letters, glance.parked, glance.parked_since, glance.leader) == (0, 0, None, None)
    assert glance.now == clock.now


def test_a_glance_counts_open_letters_and_no_resolved_ones(store: Store, clock: Clock) -> None:
    runs(store, "saved", ack=AckMode.EARLY)
    clock.now += HOUR
    store.reap()
    assert store.overview().open_letters == 1
    closes(store, runs(store, "saved", nonce="again"))
    assert store.overview().open_letters == 0


def test_a_glance_tells_since_when_jobs_are_parked(store: Store, clock: Clock) -> None:
    runs(store, "a")
    since = clock.now
    opens(store, "b")
    clock.now += SECOND
    opens(store, "c")
    assert (store.overview().parked, store.overview().parked_since) == (2, since)


def test_a_glance_never_counts_beyond_its_bound(store: Store) -> None:
    for name in "abc":
        fails(store, name)
        opens(store, f"{name} waits", claim="key")
    glance = store.overview(bound=1)
    assert (glance.open_letters, glance.parked, glance.bound) == (1, 1, 1)


def test_a_glance_names_the_steward_that_leads_until_its_lease_lapses(store: Store, clock: Clock) -> None:
    store.lead("one", 10)
    glance = store.overview()
    assert (glance.leader, glance.leads_until) == ("one", clock.now + 10)
    clock.now += 10
    assert store.overview().leader is None


def test_many_jobs_are_looked_up_at_once(store: Store) -> None:
    for number in range(3):
        starts(store, f"s{number}")
    wanted = [*(f"s{number}" for number in range(1_200)), "gone"]
    assert sorted(store.jobs_named(wanted)) == ["s0", "s1", "s2"]
    assert store.jobs_named([]) == {}


def test_the_steps_of_many_jobs_are_looked_up_at_once(store: Store, clock: Clock) -> None:
    for name in "ab":
        job = runs(store, name, claim=None)
        for key in ("first", "second"):
            clock.now += 1
            claims(store, job, key)
    found = store.steps_of(["a", "b", "none", *(f"s{number}" for number in range(1_200))])
    assert [step.key for step in found["a"]] == [step.key for step in found["b"]] == ["first", "second"]
    assert (found["none"], store.steps_of([])) == ([], {})
