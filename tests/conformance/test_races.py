"""Many at once: one runs, nobody is left waiting."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

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


@pytest.mark.parametrize("round_", range(3))
def test_of_fifty_copies_of_a_delivery_one_runs(store: Store, round_: int) -> None:
    answers = at_once(50, lambda _: store.open(ask("s")).verdict)
    assert Counter(answers)[Verdict.RUN] == 1
    assert set(answers) <= {Verdict.RUN, Verdict.PARKED, Verdict.IGNORE}


@pytest.mark.parametrize("round_", range(3))
def test_of_fifty_submissions_of_a_key_one_runs_and_all_end(store: Store, round_: int) -> None:
    asks = [ask(f"s{n}", "k") for n in range(50)]

    def work(number: int) -> Verdict:
        admission = store.open(asks[number])
        if admission.verdict is Verdict.RUN:
            store.close(admission.facts.job, ending(asks[number], result="1"))
        return admission.verdict

    answers = Counter(at_once(50, work))
    assert answers[Verdict.RUN] == 1
    assert set(answers) <= {Verdict.RUN, Verdict.PARKED, Verdict.FIRST_RESULT}
    store.release_due(1000)
    assert {row.status for row in store.rows(1000)} <= {RowStatus.RELEASED}


@pytest.mark.parametrize("round_", range(4))
def test_no_waiter_is_left_behind_by_a_close(store: Store, round_: int) -> None:
    """A copy of the key comes while its owner closes: it is freed by CLOSE, or sees the end itself."""
    for number in range(50):
        owner, other = ask(f"a{number}", f"k{number}"), ask(f"b{number}", f"k{number}")
        job = store.open(owner).facts.job

        def close(owner: Any = owner, job: Any = job) -> Any:
            return store.close(job, ending(owner, result="1"), [chunk(owner)])[1]

        def come(other: Any = other) -> Any:
            return store.open(other)

        freed, admission = at_once(2, lambda n, both=(close, come): both[n]())
        if admission.verdict is Verdict.PARKED:
            assert [row.submission for row in freed] == [other.delivery.submission]
        else:
            assert admission.verdict is Verdict.FIRST_RESULT


def test_takeovers_of_a_dead_owner_leave_one_owner(store: Store) -> None:
    for number in range(10):
        store.open(ask(f"dead{number}", f"k{number}", lease_us=1))
        answers = at_once(8, lambda n, number=number: store.open(ask(f"s{number}-{n}", f"k{number}")).verdict)
        assert Counter(answers)[Verdict.RUN] == 1


def test_a_row_is_taken_or_marked_sent_but_not_both(store: Store) -> None:
    for number in range(30):
        owner, waiter = ask(f"a{number}", f"k{number}"), ask(f"b{number}", f"k{number}")
        job = store.open(owner).facts.job
        store.open(waiter)
        _, freed = store.close(job, ending(owner, Outcome.FAILED))
        acts: tuple[Callable[[], Any], ...] = (
            lambda row=freed[0]: store.mark_sent(row, 100 * SECOND),
            lambda waiter=waiter: store.open(waiter),
        )
        at_once(2, lambda n, acts=acts: acts[n]())
        row = store.row(waiter.delivery.submission)
        assert row is not None
        assert row.status is RowStatus.TAKEN


def test_one_of_many_stewards_leads(store: Store) -> None:
    leaders = at_once(20, lambda n: store.lead(f"steward-{n}", 60 * SECOND))
    assert sum(leaders) == 1


def test_units_that_lock_in_opposite_order_both_end(store: Store) -> None:
    a, b = ask("a"), ask("b")
    store.open(a)
    store.open(b)
    names = ["a", "b"]

    def work(number: int) -> None:
        for _ in range(10):
            store.flush(names if number % 2 else names[::-1])

    at_once(4, work)


def _open_and_close(store: Store, gate: Any, answers: Any, number: int) -> None:
    gate.wait()
    for n in range(20):
        of = ask(f"{number}-{n}", f"k{n}")
        admission = store.open(of)
        answers.put((n, str(admission.verdict)))
        if admission.verdict is Verdict.RUN:
            store.close(admission.facts.job, ending(of, result="1"))
    answers.close()
    answers.join_thread()
    store.close_connections()
    os._exit(0)


def test_of_many_processes_one_runs_each_key(store: Store) -> None:
    fork = multiprocessing.get_context("fork")
    # The parent's connection is in use before the fork, as in a worker that publishes.
    store.open(ask("before"))
    gate, answers = fork.Barrier(4), fork.Queue()
    children = [fork.Process(target=_open_and_close, args=(store, gate, answers, n)) for n in range(4)]
    for child in children:
        child.start()
    found = [answers.get(timeout=60) for _ in range(80)]
    for child in children:
        child.join(60)
    runs = Counter(n for n, verdict in found if verdict == "run")
    assert runs == dict.fromkeys(range(20), 1)
    assert {verdict for _, verdict in found} <= {"run", "parked", "first_result"}
    assert store.job("before") is not None


@pytest.mark.parametrize("written_by", ["close", "flush"])
def test_a_large_value_that_one_trace_gives_up_stays_for_another_that_comes(store: Store, written_by: str) -> None:
    value = (("large", b"x"),)
    for number in range(60):
        old, new = ask(f"old{number}"), ask(f"new{number}")
        store.open(old)
        store.flush(chunks=[chunk(old, blobs=value)])
        job = store.open(new).facts.job

        def write(new: Any = new, job: Any = job) -> None:
            if written_by == "close":
                store.close(job, ending(new, result="1"), [chunk(new, blobs=value)])
            else:
                store.flush(chunks=[chunk(new, blobs=value)])

        def give_up(old: Any = old) -> None:
            store._atomically(lambda unit: unit.drop_blobs(old.trace_id, ["large"]))

        at_once(2, lambda n, both=(write, give_up): both[n]())
        assert store.blob("large") == b"x"
        store._atomically(lambda unit, new=new: unit.drop_blobs(new.trace_id, ["large"]))
        assert store.blob("large") is None
