"""OPEN, CLOSE and a step's claim in one script do what the rules do step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from celery_replay.clock import SECOND
from celery_replay.facts import Change, Facts
from celery_replay.records import Job, Letter, Row
from celery_replay.states import AckMode, LetterState, Outcome, RowStatus, StepState, Verdict
from celery_replay.stores.base import Store
from celery_replay.stores.memory import MemoryStore
from celery_replay.stores.redis import RedisStore
from celery_replay.stores.units import save
from tests.conformance.world import Clock
from tests.django_store.builders import ask, chunk, delivery, ending, step
from tests.rules import builders
from tests.support import redis_stores

NOW = builders.NOW
JOBS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "running": {},
    "silent": {"lease_until": NOW - 1, "unsettled": True},
    "retrying": {"status": Outcome.RETRY_SCHEDULED, "lease_until": None, "reserved_until": builders.LATER},
    "succeeded": {"status": Outcome.SUCCEEDED, "lease_until": None, "result": "1", "canvas_until": builders.LATER},
    "announced": {"status": Outcome.SUCCEEDED, "lease_until": None, "canvas_advanced": True},
    "failed": {"status": Outcome.FAILED, "lease_until": None, "failure": "{}"},
    "lost": {"status": Outcome.LOST, "lease_until": None, "strikes": 1},
    "interrupted": {"status": Outcome.INTERRUPTED, "lease_until": None},
}
ROWS: dict[str, RowStatus | None] = {"no row": None, "parked": RowStatus.PARKED, "sent": RowStatus.SENT}
LETTERS = {"no letter": None, "a letter": LetterState.OPEN, "a resolved one": LetterState.RESOLVED}


class LongWay(RedisStore):
    """Takes no shortcuts."""

    _admit_new = Store._admit_new
    _close_own = Store._close_own
    _claim_new = Store._claim_new


@pytest.fixture(scope="module")
def url(redis_url: str) -> Iterator[str]:
    yield redis_url
    redis_stores.close_stores(redis_url)


def facts(mine: str, holder: str, row: str, letter: str, keyed: bool) -> Facts:
    claim = "key" if keyed else None
    return Facts(
        job=_job("s", mine, None if holder != "none" else claim),
        holder=_job("other", holder, claim) if keyed else None,
        row=_row(ROWS[row]),
        letter=_letter(LETTERS[letter]),
    )


def _job(submission: str, kind: str, claim: str | None) -> Job | None:
    changes = JOBS[kind]
    return (
        None
        if changes is None
        else builders.job(submission, **{"nonce": f"of {submission}", "claim": claim, "keep_until": NOW * 2, **changes})
    )


def _row(status: RowStatus | None) -> Row | None:
    return None if status is None else builders.row("s", status=status)


def _letter(state: LetterState | None) -> Letter | None:
    return None if state is None else builders.letter("s", state=state)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("mine", JOBS)
def test_whatever_is_known_the_answer_is_that_of_the_rules(url: str, mine: str, keyed: bool) -> None:
    for holder, row, letter in product(JOBS if keyed else ["none"], ROWS, LETTERS):
        clock = Clock(NOW)
        before = facts(mine, holder, row, letter, keyed)
        stores = MemoryStore(clock), redis_stores.make_redis_store(url, clock)
        of = builders.ask("s", nonce="fresh", claim="key" if keyed else None)
        answers = []
        for store in stores:
            store._atomically(partial(save, before=Facts(), change=Change(facts=before)))
            answers.append([store.open(of), *_records(store, of)])
        stores[1].close_connections()
        assert answers[0] == answers[1], (holder, row, letter)


before = st.sampled_from(["nothing", "parked", "held", "failed", "own", "succeeded"])
between = st.sets(st.sampled_from(["waiter", "copy", "step", "other step", "reaped", "renewed", "taken over"]))
options = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["", "k", "tab\there\\n\nline"]),
        "ack": st.sampled_from(AckMode),
        "is_step": st.booleans(),
        "generation": st.integers(0, 1),
        "published_at": st.sampled_from([None, NOW - SECOND]),
        "expires_at": st.sampled_from([None, None, None, NOW + SECOND]),
        "original": st.sampled_from([None, None, None, "other"]),
        "trace_id": st.sampled_from(["s", "another"]),
    }
)
ends = st.fixed_dictionaries(
    {
        "outcome": st.sampled_from(
            [
                Outcome.SUCCEEDED,
                Outcome.RETRY_SCHEDULED,
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
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_the_short_way_leaves_what_the_long_way_and_memory_leave(
    url: str, before: str, between: set[str], options: Any, ends: Any, chunks: int, settled: bool
) -> None:
    found = []
    for kind in (RedisStore, LongWay, MemoryStore):
        clock = Clock(NOW)
        prefix = {"prefix": f"short-{next(redis_stores._numbers)}"}
        store: Any = MemoryStore(clock) if kind is MemoryStore else kind(url, now=clock, **prefix)
        found.append(_play(store, clock, before, between, options, ends, chunks, settled))
        store.close_connections()
    short, long, memory = found
    assert short == long
    assert short == memory


def _play(
    store: Store, clock: Clock, before: str, between: set[str], options: Any, ends: Any, chunks: int, settled: bool
) -> list[Any]:
    _prepare(store, before)
    clock.now += SECOND // 2
    of = ask("s", nonce="nonce", **options)
    admission = store.open(of)
    answers: list[Any] = [admission.verdict, admission.facts.job, admission.incomplete]
    job = admission.facts.job
    if admission.verdict is Verdict.RUN and job is not None:
        clock.now += SECOND
        _disturb(store, clock, between, of, job)
        steps = (step(of, "a", StepState.SETTLED, output="1"),) if settled else ()
        events = [chunk(of, n, blobs=((f"b{n}", b"x"),)) for n in range(chunks)]
        accepted, rows = store.close(job, ending(of, steps=steps, **ends), events)
        answers += [accepted, list(rows)]
    return answers + _records(store, of)


def _prepare(store: Store, before: str) -> None:
    if before == "nothing":
        return
    first = ask("s" if before == "own" else "other", "k", nonce="first")
    job = store.open(first).facts.job
    if before == "parked":
        store.open(ask("s", "k", nonce="earlier"))
    if before in ("failed", "succeeded"):
        store.close(job, ending(first, Outcome(before)), [chunk(first)])


def _disturb(store: Store, clock: Clock, between: set[str], of: Any, job: Any) -> None:
    if "waiter" in between:
        store.open(ask("waiter", of.key, nonce="waiter"))
        clock.now += 1
    if "copy" in between:
        store.open(ask("s", of.key, of.delivery.generation, nonce="copy"))
    if "step" in between:
        store.claim_step(job, step(of, "a"), delivery("s"))
    if "other step" in between:
        store.claim_step(job, step(of, "b"), delivery("s"))
        store.claim_step(job, step(of, "b"), delivery("s"))
    if "reaped" in between:
        clock.now += 1000 * SECOND
        store.reap()
    if "taken over" in between:
        clock.now += 1000 * SECOND
        store.open(ask("s", of.key, of.delivery.generation, nonce="copy"))


def _records(store: Store, of: Any) -> list[Any]:
    names = ("s", "other", "waiter")
    looks = (store.job, store.row, store.letter, store.attempts)
    chunks = sorted((replace(c, blobs=()) for c in store.chunks(of.trace_id)), key=lambda c: c.first)
    steps = sorted(store.steps(of.identity), key=attrgetter("key"))
    found: list[Any] = [chunks, steps, store.blob("b0"), store.owners(["key", "claim-k"])]
    groups = store.groups(unresolved=False)
    happened = [replace(entry, entry_id="") for entry in store.history(submission="s")]
    found += [list(groups), store.trend([group.group_id for group in groups], 0), happened, list(store.find_jobs())]
    return found + [look(name) for name in names for look in looks]
