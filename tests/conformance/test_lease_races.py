"""Many at once for the same resources: never two have one, and nobody is left waiting."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest

from celery_replay.admission import Ask
from celery_replay.clock import SECOND
from celery_replay.states import Outcome, RowStatus, Verdict
from celery_replay.stores.base import Store
from tests.conformance.conftest import SHARED
from tests.django_store.builders import ask, chunk, ending
from tests.support.together import at_once

pytestmark = pytest.mark.parametrize("store_kind", SHARED, indirect=True)


@pytest.fixture
def clock() -> None:
    """Go by the store's own clock."""


def close(store: Store, of: Ask, job: Any, outcome: Outcome = Outcome.SUCCEEDED) -> Any:
    return store.close(job, ending(of, outcome, result="1", resources=of.resources), [chunk(of)])


@pytest.mark.parametrize("round_", range(3))
def test_of_fifty_that_want_a_resource_nobody_ever_had_one_gets_it(store: Store, round_: int) -> None:
    answers = at_once(50, lambda _: store.open(ask(resources=("r",))).verdict)
    assert Counter(answers) == {Verdict.RUN: 1, Verdict.PARKED: 49}


def test_a_waiter_that_comes_while_the_holder_closes_is_called_or_gets_it(store: Store) -> None:
    for number in range(60):
        owner, other = (ask(resources=(f"r{number}", f"s{number}")) for _ in range(2))
        job = store.open(owner).facts.job

        def closes(owner: Any = owner, job: Any = job) -> Any:
            return close(store, owner, job)

        def comes(other: Any = other) -> Any:
            return store.open(other)

        (accepted, freed), answer = at_once(2, lambda n, both=(closes, comes): both[n]())
        assert accepted
        called = [row.submission for row in freed]
        assert called == ([other.delivery.submission] if answer.verdict is Verdict.PARKED else [])


def test_whatever_they_name_and_in_whatever_order_all_get_their_turn(store: Store) -> None:
    """Each wants some of four resources. Whoever is called comes again; nobody may meet another one inside."""
    shuffled = random.Random(7)
    asks = [ask(resources=tuple(sorted(shuffled.sample("abcd", shuffled.randint(1, 3))))) for _ in range(40)]
    inside: Counter[str] = Counter()
    met: list[str] = []
    guard = threading.Lock()
    todo, by_name = list(asks), {of.delivery.submission: of for of in asks}

    def visit(of: Ask) -> list[Ask]:
        again = ask(of.delivery.submission, resources=of.resources)
        answer = store.open(again)
        if answer.verdict is not Verdict.RUN:
            assert answer.verdict is Verdict.PARKED
            return []
        with guard:
            inside.update(of.resources)
            met.extend(name for name, count in inside.items() if count > 1)
        with guard:
            inside.subtract(of.resources)
        accepted, freed = close(store, again, answer.facts.job)
        assert accepted
        for row in freed:
            store.mark_sent(row, 90 * SECOND)
        return [by_name[row.submission] for row in freed]

    def work(number: int) -> None:
        while True:
            with guard:
                of = todo.pop() if todo else None
            if of is None:
                return
            again = visit(of)
            with guard:
                todo.extend(again)

    for _ in range(20):
        at_once(4, work)
    assert met == []
    waiting = [row for row in store.rows(1000) if row.status is not RowStatus.TAKEN]
    assert waiting == []
    assert all(store.job(name) is not None for name in by_name)


def test_takeovers_of_a_lapsed_lease_leave_one_holder(store: Store) -> None:
    for number in range(10):
        dead = ask(resources=(f"r{number}",), lease_us=1)
        job = store.open(dead).facts.job
        answers = at_once(8, lambda _, number=number: store.open(ask(resources=(f"r{number}",))).verdict)
        assert Counter(answers)[Verdict.RUN] == 1
        assert close(store, dead, job)[0] is False
