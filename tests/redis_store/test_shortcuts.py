"""OPEN, CLOSE and a step's claim in one script do what the rules do step by step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings

from celery_replay.facts import Change, Facts
from celery_replay.records import Job, Letter, Row
from celery_replay.states import LetterState, Outcome, RowStatus
from celery_replay.stores.memory import MemoryStore
from celery_replay.stores.redis import RedisStore
from celery_replay.stores.units import save
from tests.conformance import shortcuts
from tests.conformance.world import Clock
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


class LongWay(shortcuts.LongWay, RedisStore):
    """Takes no shortcuts."""


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
            answers.append([store.open(of), *shortcuts.records(store, of)])
        stores[1].close_connections()
        assert answers[0] == answers[1], (holder, row, letter)


@given(case=shortcuts.CASES)
@settings(shortcuts.EXAMPLES, max_examples=150)
def test_the_short_way_leaves_what_the_long_way_and_memory_leave(url: str, case: shortcuts.Case) -> None:
    found = []
    for kind in (RedisStore, LongWay, MemoryStore):
        clock = Clock(NOW)
        prefix = {"prefix": f"short-{next(redis_stores._numbers)}"}
        store: Any = MemoryStore(clock) if kind is MemoryStore else kind(url, now=clock, **prefix)
        found.append(shortcuts.play(store, clock, case))
        store.close_connections()
    short, long, memory = found
    assert short == long
    assert short == memory
