"""OPEN and CLOSE in one statement do what the rules do step by step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from celery_replay.admission import Ask
from celery_replay.clock import SECOND
from celery_replay.facts import attempt_of
from celery_replay.states import AckMode, Effect, Outcome, StepState, Verdict
from celery_replay.stores.base import Store
from django_celery_replay.connections import Link
from django_celery_replay.models import LetterTrend
from django_celery_replay.store import DjangoStore
from django_celery_replay.tables import (
    ATTEMPTS,
    CHUNKS,
    GROUPS,
    HISTORY,
    HOLDINGS,
    JOBS,
    LEASES,
    LETTERS,
    ROWS,
    STEPS,
    UNCOUNTED,
    WAITERS,
)
from tests.django_store.builders import ask, chunk, delivery, ending, step
from tests.support.django_stores import database_alias

NOW = 1_800_000_000 * SECOND
LASTING: list[DjangoStore] = []


@pytest.fixture(scope="module", autouse=True)
def _close_what_lasts() -> Iterator[None]:
    yield
    for store in LASTING:
        store.close_connections()


class LongWay(DjangoStore):
    """Takes no shortcuts."""

    _admit_new = Store._admit_new
    _close_own = Store._close_own
    _claim_new = Store._claim_new


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


before = st.sampled_from(["nothing", "parked", "held", "failed", "own", "succeeded", "leased", "leased before"])
between = st.sets(
    st.sampled_from(
        ["waiter", "copy", "step", "other step", "reaped", "renewed", "taken over", "lease waiter", "lapse"]
    )
)
options = st.fixed_dictionaries(
    {
        "resources": st.sampled_from([(), (), ("r",), ("r", "s")]),
        "key": st.sampled_from(["", "k"]),
        "ack": st.sampled_from(AckMode),
        "is_step": st.booleans(),
        "generation": st.integers(0, 1),
        "published_at": st.sampled_from([None, NOW - SECOND]),
        "expires_at": st.sampled_from([None, None, None, NOW + SECOND]),
        "original": st.sampled_from([None, None, None, "other"]),
    }
)
ends = st.fixed_dictionaries(
    {
        "outcome": st.sampled_from(
            [
                Outcome.SUCCEEDED,
                Outcome.SUCCEEDED,
                Outcome.RETRY_SCHEDULED,
                Outcome.FAILED,
                Outcome.FAILED,
                Outcome.ROLLED_BACK,
                Outcome.IGNORED,
                Outcome.INTERRUPTED,
                Outcome.REQUEUED,
                Outcome.SUPERSEDED,
            ]
        ),
        "canvas": st.booleans(),
        "result": st.sampled_from([None, "null", '"\x00\ud800"']),
        "unsettled": st.booleans(),
        "reserve_us": st.sampled_from([0, 7 * SECOND]),
    }
)


@given(before=before, between=between, options=options, ends=ends, chunks=st.integers(0, 3), settled=st.booleans())
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_the_short_way_leaves_what_the_long_way_leaves(
    postgres_dsn: str, before: str, between: set[str], options: Any, ends: Any, chunks: int, settled: bool
) -> None:
    alias = database_alias(postgres_dsn)
    found = []
    for kind in (DjangoStore, LongWay):
        store, clock = _lasting(kind, alias)
        clock[0] = NOW
        store._run(_empty)
        found.append(_play(store, clock, before, between, options, ends, chunks, settled))
    short, long = found
    assert short == long


@cache
def _lasting(kind: type[DjangoStore], alias: str) -> tuple[DjangoStore, list[int]]:
    clock = [NOW]
    store = kind(alias, now=partial(clock.__getitem__, 0))
    LASTING.append(store)
    return store, clock


def _empty(link: Link) -> None:
    tables = (
        JOBS, ROWS, LETTERS, ATTEMPTS, STEPS, CHUNKS, GROUPS, UNCOUNTED, HISTORY, LEASES, HOLDINGS, WAITERS
    )  # fmt: skip
    for name in (*(table.name for table in tables), LetterTrend._meta.db_table):
        link.change(f"DELETE FROM {name}")


def _play(
    store: DjangoStore,
    clock: list[int],
    before: str,
    between: set[str],
    options: Any,
    ends: Any,
    chunks: int,
    settled: bool,
) -> list[Any]:
    _prepare(store, before)
    clock[0] += SECOND // 2
    of = ask("s", nonce="nonce", **options)
    admission = store.open(of)
    answers: list[Any] = [admission.verdict, admission.facts.job, admission.incomplete]
    answers += [(place.lease.resource, place.lease.fence, place.lease.until) for place in admission.facts.places]
    job = admission.facts.job
    if admission.verdict is Verdict.RUN and job is not None:
        clock[0] += SECOND
        _disturb(store, clock, between, of, job)
        steps = (step(of, "a", StepState.SETTLED, output="1"),) if settled else ()
        events = [chunk(of, n, blobs=((f"b{n}", b"x"),)) for n in range(chunks)]
        accepted, rows = store.close(job, ending(of, steps=steps, resources=of.resources, **ends), events)
        answers += [accepted, list(rows)]
    return answers + _records(store, of)


def _prepare(store: DjangoStore, before: str) -> None:
    if before == "nothing":
        return
    resources = ("s",) if "leased" in before else ()
    first = ask("s" if before == "own" else "other", "k", nonce="first", resources=resources)
    job = store.open(first).facts.job
    if before == "leased before":
        store.close(job, ending(first, Outcome.FAILED, resources=resources))
    if before == "parked":
        store.open(ask("s", "k", nonce="earlier"))
    if before in ("failed", "succeeded"):
        store.close(job, ending(first, Outcome(before)))


def _disturb(store: DjangoStore, clock: list[int], between: set[str], of: Any, job: Any) -> None:
    if "waiter" in between:
        store.open(ask("waiter", of.key, nonce="waiter"))
    if "lease waiter" in between:
        store.open(ask("waiter", nonce="waiter", resources=("r",)))
    if "lapse" in between:
        clock[0] += 1000 * SECOND
        store.open(ask("thief", nonce="thief", resources=("s",)))
    if "copy" in between:
        store.open(ask("s", of.key, of.delivery.generation, nonce="copy"))
    if "step" in between:
        store.claim_step(job, step(of, "a"), delivery("s"))
    if "other step" in between:
        store.claim_step(job, step(of, "b"), delivery("s"))
        store.claim_step(job, step(of, "b"), delivery("s"))
    if "reaped" in between:
        clock[0] += 1000 * SECOND
        store.reap()
    if "taken over" in between:
        clock[0] += 1000 * SECOND
        store.open(ask("s", of.key, of.delivery.generation, nonce="copy", resources=of.resources))


def _records(store: DjangoStore, of: Any) -> list[Any]:
    names = ("s", "other", "waiter", "r")
    looks = (store.job, store.row, store.letter, store.attempts, store.lease, store.holdings, store.line)
    found: list[Any] = [list(store.chunks(of.trace_id)), list(store.steps(of.identity)), store.blob("b0")]
    groups = store.groups(unresolved=False)
    happened = [replace(entry, entry_id="") for entry in store.history(submission="s")]
    found += [groups, store.trend([group.group_id for group in groups], 0), happened]
    return found + [look(name) for name in names for look in looks]
