"""OPEN and CLOSE in one statement do what the rules do step by step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from hypothesis import given, settings

from celery_replay.admission import Ask
from celery_replay.facts import attempt_of
from celery_replay.states import Effect, Outcome, StepState, Verdict
from celery_replay.stores.memory import MemoryStore
from django_celery_replay.store import DjangoStore
from tests.conformance import shortcuts
from tests.conformance.world import Clock
from tests.django_store.builders import ask, chunk, ending, step
from tests.support.django_stores import database_alias, empty_tables

LASTING: list[DjangoStore] = []


@pytest.fixture(scope="module", autouse=True)
def _close_what_lasts() -> Iterator[None]:
    yield
    for store in LASTING:
        store.close_connections()


class LongWay(shortcuts.LongWay, DjangoStore):
    """Takes no shortcuts."""


@contextmanager
def round_trips(store: DjangoStore) -> Iterator[Callable[[], int]]:
    """Count how often a message to the server asks for an answer, as libpq writes it down."""
    link = store._pool.take()
    store._pool.give(link)
    pgconn = link.connection.connection.pgconn
    with tempfile.TemporaryFile("w+") as trace:

        def count() -> int:
            trace.seek(0)
            lines = [line.split("\t") for line in trace.read().splitlines()]
            return sum("F" in parts and ("Sync" in parts or "Query" in parts) for parts in lines)

        pgconn.trace(trace.fileno())
        try:
            yield count
        finally:
            pgconn.untrace()


def warm(store: DjangoStore) -> None:
    """Let the driver prepare its statements, which takes one more round trip once per connection."""
    for _ in range(5):
        run(store)


def run(store: DjangoStore, claims: bool = False, resources: tuple[str, ...] = ()) -> None:
    of = ask(key="" if not claims else "key", resources=resources)
    admission = store.open(of)
    assert admission.verdict is Verdict.RUN
    accepted, _ = store.close(admission.facts.job, ending(of, result="1", resources=resources), [chunk(of, 3)])
    assert accepted


def fail(store: DjangoStore, resources: tuple[str, ...] = ()) -> Ask:
    of = ask(resources=resources)
    job = store.open(of).facts.job
    assert store.close(job, ending(of, Outcome.FAILED, resources=resources), [chunk(of)]) == (True, ())
    return of


def test_a_job_costs_two_round_trips(postgres_store: DjangoStore) -> None:
    warm(postgres_store)
    with round_trips(postgres_store) as count:
        run(postgres_store)
        assert count() == 2


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("work", [run, fail])
def test_a_job_with_leases_costs_no_more(postgres_store: DjangoStore, number: int, work: Callable[..., object]) -> None:
    resources = tuple(f"order:{n}" for n in range(number))
    for _ in range(5):
        work(postgres_store, resources=resources)
    with round_trips(postgres_store) as count:
        work(postgres_store, resources=resources)
        assert count() == 2
    assert [holding.grant for holding in postgres_store.holdings("order:0")] == [6, 5, 4, 3, 2, 1]


def test_of_several_leases_a_shortcut_takes_all_or_none(postgres_store: DjangoStore) -> None:
    taken = ask(resources=("s",))
    postgres_store.open(taken)
    warm(postgres_store)
    found = postgres_store._admit_new(ask(resources=("r", "s", "t")))
    assert found is None
    assert [lease.resource for lease in postgres_store.leases()] == ["s"]


def test_a_letter_costs_one_round_trip_beyond_the_jobs_opening(postgres_store: DjangoStore) -> None:
    for _ in range(5):
        fail(postgres_store)
    with round_trips(postgres_store) as count:
        of = fail(postgres_store)
        assert count() == 2
    letter = postgres_store.letter(of.delivery.submission)
    assert letter is not None
    assert [(group.group_id, group.filed) for group in postgres_store.groups()] == [(letter.group_id, 6)]


def test_a_letter_tells_of_messages_and_steps_as_on_the_long_way(postgres_store: DjangoStore) -> None:
    of = ask()
    job = postgres_store.open(of).facts.job
    assert job is not None
    postgres_store.claim_step(job, step(of), of.delivery)
    settled = (step(of, state=StepState.SETTLED),)
    assert postgres_store.close(job, ending(of, Outcome.FAILED, steps=settled)) == (True, ())
    letter = postgres_store.letter(of.delivery.submission)
    assert letter is not None
    assert (letter.effect, letter.message) == (Effect.PROVEN, of.delivery.message())


def test_a_side_effect_costs_one_round_trip(postgres_store: DjangoStore) -> None:
    of = ask()
    job = postgres_store.open(of).facts.job
    assert job is not None
    for key in "abcd":
        postgres_store.claim_step(job, step(of, key), of.delivery)
    with round_trips(postgres_store) as count:
        assert postgres_store.claim_step(job, step(of, "e"), of.delivery) == (True, None)
        assert count() == 1
    found = postgres_store.job(of.delivery.submission)
    assert found is not None
    assert found.unsettled


def test_a_claimed_step_is_found_by_the_next_owner(postgres_store: DjangoStore) -> None:
    first, second = ask("s", lease_us=1), ask("s")
    old = postgres_store.open(first).facts.job
    new = postgres_store.open(second).facts.job
    assert old is not None
    assert new is not None
    assert postgres_store.claim_step(old, step(first), first.delivery) == (False, None)
    assert postgres_store.claim_step(new, step(second), second.delivery) == (True, None)
    owned, earlier = postgres_store.claim_step(new, step(second), second.delivery)
    assert owned
    assert earlier is not None


def test_a_duplicate_costs_one_transaction(postgres_store: DjangoStore) -> None:
    run(postgres_store, claims=True)
    with round_trips(postgres_store) as count:
        assert postgres_store.open(ask(key="key")).verdict is Verdict.FIRST_RESULT
        assert count() <= 10


def test_many_finished_jobs_cost_a_handful_of_round_trips(postgres_store: DjangoStore) -> None:
    asks = [ask() for _ in range(50)]
    for of in asks:
        job = postgres_store.open(of).facts.job
        postgres_store.close(job, ending(of, canvas=True))
    with round_trips(postgres_store) as count:
        postgres_store.flush([of.delivery.submission for of in asks], [chunk(of, 9) for of in asks])
        assert count() <= 7
    jobs = [postgres_store.job(of.delivery.submission) for of in asks]
    assert all(job is not None and job.canvas_advanced for job in jobs)


def test_times_are_the_servers_on_the_short_way_too(postgres_store: DjangoStore) -> None:
    of = ask(published_at=5)
    admission = postgres_store.open(of)
    assert admission.facts.job == postgres_store.job(of.delivery.submission)
    assert postgres_store.close(admission.facts.job, ending(of, canvas=True, result="1")) == (True, ())
    job = postgres_store.job(of.delivery.submission)
    assert job is not None
    assert job.started_at < (job.closed_at or 0) < (job.canvas_until or 0)
    assert postgres_store.attempts(of.delivery.submission) == [attempt_of(job, Outcome.SUCCEEDED, job.closed_at or 0)]


@given(case=shortcuts.CASES)
@settings(shortcuts.EXAMPLES, max_examples=80)
def test_the_short_way_leaves_what_the_long_way_and_memory_leave(postgres_dsn: str, case: shortcuts.Case) -> None:
    alias = database_alias(postgres_dsn)
    found = []
    for kind in (DjangoStore, LongWay):
        store, clock = _lasting(kind, alias)
        empty_tables(alias)
        found.append(shortcuts.play(store, clock, case))
    short, long = found
    assert short == long
    clock = Clock()
    assert short == shortcuts.play(MemoryStore(clock), clock, case)


@cache
def _lasting(kind: type[DjangoStore], alias: str) -> tuple[DjangoStore, Clock]:
    clock = Clock()
    store = kind(alias, now=clock)
    LASTING.append(store)
    return store, clock
