"""The same calls get the same answers and leave the same records as in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery_replay.clock import SECOND
from celery_replay.losses import News
from celery_replay.states import AckMode, OnIncomplete, Outcome, Reason, StepState
from celery_replay.stores.base import Pulse, Store
from celery_replay.stores.memory import MemoryStore
from tests.conformance.conftest import SHARED
from tests.conformance.world import MakeStore
from tests.django_store.builders import FAILURE, ask, chunk, delivery, ending, step

pytestmark = pytest.mark.parametrize("store_kind", SHARED, indirect=True)


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000 * SECOND

    def __call__(self) -> int:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


class Twins:
    """Makes each call to both stores and compares."""

    def __init__(self, first: Store, second: Store, clock: Clock) -> None:
        self.stores = (first, second)
        self.clock = clock
        self.submissions: set[str] = set()
        self.scopes: set[str] = set()

    def call(self, what: Callable[[Store], Any]) -> Any:
        expected, got = (what(store) for store in self.stores)
        assert got == expected
        self.compare()
        return got

    def open(self, of: Any, chunks: Any = ()) -> Any:
        self.submissions.add(of.delivery.submission)
        self.scopes.add(of.identity)
        answer = self.call(lambda store: store.open(of))
        self.call(lambda store: store.flush(chunks=chunks))
        return answer

    def compare(self) -> None:
        for submission in sorted(self.submissions):
            for look in ("job", "row", "letter", "attempts"):
                expected, got = (getattr(store, look)(submission) for store in self.stores)
                assert got == expected, (look, submission)
            expected, got = (store.chunks(f"trace-{submission}") for store in self.stores)
            assert _bare(got) == _bare(expected)
        for scope in self.scopes:
            expected, got = (store.steps(scope) for store in self.stores)
            assert list(got) == list(expected)
        expected, got = (store.rows() for store in self.stores)
        assert list(got) == list(expected)
        expected, got = (store.letters() for store in self.stores)
        assert list(got) == list(expected)


def _bare(chunks: Any) -> Any:
    return sorted((c.nonce, c.first, c.count, c.body, c.recorded_at) for c in chunks)


@pytest.fixture
def twins(make_store: MakeStore) -> Twins:
    clock = Clock()
    return Twins(MemoryStore(clock), make_store(clock), clock)


def test_a_job_with_events_succeeds_and_its_canvas_is_sent_on(twins: Twins) -> None:
    first = ask("s1", "k", ack=AckMode.EARLY)
    admission = twins.open(first, [chunk(first, blobs=(("ref", b"large"),))])
    twins.clock.tick(1)
    twins.call(lambda s: s.close(admission.facts.job, ending(first, canvas=True, result="1"), [chunk(first, 3)]))
    twins.open(ask("s1", "k"))
    twins.call(lambda s: s.flush(["s1", "never heard of"], [chunk(first, 5), chunk(first, 7)]))
    twins.open(ask("s1", "k"))
    twins.call(lambda s: s.blob("ref"))
    twins.call(lambda s: s.find_jobs(key="k"))
    twins.call(lambda s: s.find_jobs(task_id="task-s1", trace_id="trace-s1"))


def test_a_duplicate_gets_the_first_result(twins: Twins) -> None:
    first = ask("s1", "k")
    twins.call(lambda s: s.close(twins_job(twins, first), ending(first, result="[0]")))
    twins.open(ask("s2", "k"))
    twins.open(ask("s3", "k", fingerprint="b1:x"))


def twins_job(twins: Twins, of: Any) -> Any:
    known = twins.stores[0].job(of.delivery.submission)
    return known if known is not None and known.nonce == of.nonce else twins.open(of).facts.job


def test_a_conflicting_payload_is_a_letter(twins: Twins) -> None:
    twins.open(ask("s1", "k", fingerprint="b1:x"))
    twins.clock.tick(61)
    twins.open(ask("s2", "k", fingerprint="b1:y"))


def test_waiters_are_parked_and_freed_in_their_order(twins: Twins) -> None:
    first = ask("s1", "k")
    job = twins.open(first).facts.job
    for name in ("s2", "s3", "s4"):
        twins.clock.tick(0.1)
        twins.open(ask(name, "k"))
    _, freed = twins.call(lambda s: s.close(job, ending(first, Outcome.FAILED)))
    assert [row.submission for row in freed] == ["s2"]
    twins.call(lambda s: s.mark_sent(freed[0], 10 * SECOND))
    second = ask("s2", "k")
    job = twins.open(second).facts.job
    _, freed = twins.call(lambda s: s.close(job, ending(second, result="1")))
    assert [row.submission for row in freed] == ["s3", "s4"]
    twins.clock.tick(20)
    twins.call(lambda s: s.release_due())
    twins.open(ask("s3", "k"))


def test_a_retry_keeps_the_key(twins: Twins) -> None:
    first = ask("s1", "k")
    job = twins.open(first).facts.job
    twins.call(lambda s: s.close(job, ending(first, Outcome.RETRY_SCHEDULED, reserve_us=100 * SECOND)))
    twins.open(ask("s2", "k"))
    twins.open(ask("s1", "k"))
    again = ask("s1", "k", generation=1)
    job = twins.open(again).facts.job
    twins.call(lambda s: s.close(job, ending(again)))


def test_a_takeover_refuses_the_old_owner(twins: Twins) -> None:
    first, second = ask("s1", "k", is_step=True), ask("s1", "k")
    job = twins.open(first).facts.job
    twins.clock.tick(61)
    assert twins.open(second).incomplete
    pulses = [Pulse(submission="s1", nonce=of.nonce, claim=of.claim, lease_us=60 * SECOND) for of in (first, second)]
    assert twins.call(lambda s: s.renew(pulses)) == {first.nonce}
    accepted, _ = twins.call(lambda s: s.close(job, ending(first)))
    assert not accepted


def test_another_submission_takes_the_key_of_a_dead_owner(twins: Twins) -> None:
    twins.open(ask("s1", "k", is_step=True))
    twins.clock.tick(61)
    twins.open(ask("s2", "k", on_incomplete=OnIncomplete.DEAD_LETTER))
    twins.open(ask("s3", "k2"))
    twins.clock.tick(61)
    twins.open(ask("s4", "k2"))
    twins.open(ask("s3", "k2"))


def test_the_reaper_files_what_went_silent(twins: Twins) -> None:
    early, late = ask("s1", ack=AckMode.EARLY), ask("s2")
    job = twins.open(early).facts.job
    twins.open(late)
    assert twins.call(lambda s: s.reap()) == 0
    twins.clock.tick(61)
    assert twins.call(lambda s: s.reap()) == 1
    twins.clock.tick(300)
    assert twins.call(lambda s: s.reap()) == 1
    twins.call(lambda s: s.close(job, ending(early, result="1")))


def test_news_of_a_dead_worker_end_its_job(twins: Twins) -> None:
    twins.open(ask("s1"))
    twins.open(ask("s2", ack=AckMode.EARLY))
    for name, reason, final in (("s1", Reason.WORKER_LOST, False), ("s2", Reason.HARD_TIME_LIMIT, True)):
        news = News(submission=name, generation=0, worker="worker@host", pid=7, reason=reason, final=final)
        twins.call(lambda s, news=news: s.hear(news))
        twins.call(lambda s, news=news: s.hear(news))


def test_a_failure_is_a_letter_that_a_later_success_resolves(twins: Twins) -> None:
    first = ask("s1", "k")
    job = twins.open(first).facts.job
    twins.call(lambda s: s.close(job, ending(first, Outcome.FAILED, canvas=True)))
    twins.clock.tick(40)
    twins.open(ask("s1", "k"))
    other = ask("s2", "k", refuse_failed=True)
    twins.open(other)
    twins.call(lambda s: s.amend("s1", FAILURE, "{}"))


def test_steps_are_written_ahead_and_settled(twins: Twins) -> None:
    first = ask("s1", "k")
    job = twins.open(first).facts.job
    written = step(first)
    twins.call(lambda s: s.claim_step(job, written, delivery("s1")))
    twins.call(lambda s: s.claim_step(job, step(first, "other"), delivery("s1")))
    twins.call(lambda s: s.flush(steps=[step(first, state=StepState.SETTLED, output='"done"')]))
    twins.call(lambda s: s.claim_step(job, written, delivery("s1")))
    twins.call(lambda s: s.close(job, ending(first, steps=(step(first, "other", StepState.SETTLED),))))


def test_the_leader_keeps_its_lease_until_it_lapses(twins: Twins) -> None:
    assert twins.call(lambda s: s.lead("a", 10 * SECOND))
    assert not twins.call(lambda s: s.lead("b", 10 * SECOND))
    assert twins.call(lambda s: s.lead("a", 10 * SECOND))
    twins.clock.tick(11)
    assert twins.call(lambda s: s.lead("b", 10 * SECOND))


def test_what_is_past_its_retention_is_pruned(twins: Twins) -> None:
    for number, outcome in enumerate((Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SUCCEEDED)):
        of = ask(f"s{number}", f"k{number}")
        job = twins.open(of, [chunk(of)]).facts.job
        twins.call(lambda s, of=of, job=job, outcome=outcome: s.close(job, ending(of, outcome)))
    twins.open(ask("s9"))
    assert twins.call(lambda s: s.prune()) == 0
    twins.clock.tick(3601)
    assert twins.call(lambda s: s.prune()) == 2
