"""Any store: details go before their job, and nothing goes that is kept or that a dead letter needs."""

from __future__ import annotations

import pytest

from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.exceptions import TriageRefused
from celery_replay.snapshots.capture import take
from celery_replay.states import Outcome, Verb
from celery_replay.stores.base import Store
from celery_replay.stores.thinning import Going
from celery_replay.trace import Recorder, summarised, timeline
from tests.conformance.callers import closes, runs, stored
from tests.conformance.world import Clock
from tests.rules.builders import ending

DAY = 3600 * SECOND
KEEP = Decision(verb=Verb.KEPT, actor="bob", text="evidence")


def tells(store: Store, name: str, outcome: Outcome = Outcome.SUCCEEDED, trace: str = "", state: str = "") -> str:
    """Run a job that takes a snapshot; return this one's reference."""
    job = runs(store, name, claim=None, task_id=name, trace_id=trace or name)
    recorder = Recorder(trace or name, job.nonce, {"job": name})
    recorder.record("started")
    rows = {"row": {"text": (state or name) * 2_000}}
    take("after", {"rows": lambda: rows}, (), recorder)
    (chunk,) = recorder.take()
    store.flush(chunks=[chunk])
    closes(store, job, outcome, claim=None, canvas=False)
    store.count_up()
    return chunk.blobs[0][0]


def thins(store: Store) -> int:
    total, after = store.thin(DAY, summarised, limit=2)
    while after:
        count, after = store.thin(DAY, summarised, after, limit=2)
        total += count
    return total


def said(store: Store, trace: str) -> list[str]:
    return [event.name for event in timeline(store, trace)]


def test_details_of_what_succeeded_become_counts_and_the_job_stays(store: Store, clock: Clock) -> None:
    snapshots = [tells(store, name) for name in "abc"]
    assert thins(store) == 0
    clock.now += DAY
    young = tells(store, "young")
    assert thins(store) >= 3
    for name in "abc":
        (event,) = timeline(store, name)
        assert (event.name, event.attributes["counts"]) == ("summarised", {"snapshot_taken": 1, "started": 1})
        assert stored(store, name).status is Outcome.SUCCEEDED
        assert [attempt.outcome for attempt in store.attempts(name)] == [Outcome.SUCCEEDED]
    assert list(store.blobs([*snapshots, young])) == [young]
    assert thins(store) == 0
    assert said(store, "young") == ["started", "snapshot_taken"]


def test_a_value_that_another_trace_has_stays(store: Store, clock: Clock) -> None:
    shared = tells(store, "a", state="same")
    clock.now += DAY
    assert tells(store, "b", state="same") == shared
    assert thins(store) >= 1
    assert store.blob(shared) is not None


def test_what_failed_keeps_all(store: Store, clock: Clock) -> None:
    failed = tells(store, "a", Outcome.FAILED)
    clock.now += DAY
    assert thins(store) == 0
    assert store.blob(failed) is not None


def test_a_trace_with_a_job_that_failed_keeps_all(store: Store, clock: Clock) -> None:
    tells(store, "good", trace="both")
    tells(store, "bad", Outcome.FAILED, trace="both")
    clock.now += DAY
    assert thins(store) == 0
    assert said(store, "both").count("snapshot_taken") == 2


def test_what_comes_later_is_counted_too(store: Store, clock: Clock) -> None:
    tells(store, "a")
    clock.now += DAY
    thins(store)
    recorder = Recorder("a", "late", {"job": "a"})
    recorder.record("started")
    store.flush(chunks=recorder.take())
    store.count_up()
    thins(store)
    told = [event for event in timeline(store, "a") if event.name == "summarised"]
    assert [event.attributes["counts"] for event in told] == [{"snapshot_taken": 1, "started": 2}]


def test_a_kept_trace_keeps_all_until_it_is_let_go(store: Store, clock: Clock) -> None:
    snapshot = tells(store, "a")
    store.keep("a", KEEP)
    store.count_up()
    clock.now += 2 * ending().keep_us
    assert (thins(store), store.prune(), store.going(DAY, summarised)) == (0, 0, Going())
    assert store.blob(snapshot) is not None
    store.keep("a", Decision(verb=Verb.UNKEPT, actor="bob", text="closed"), clock.now + DAY)
    store.count_up()
    assert [entry.verb for entry in store.history(submission="a")] == [Verb.KEPT, Verb.UNKEPT]
    clock.now += DAY
    assert store.prune() == 1
    assert store.blob(snapshot) is None


def test_what_runs_or_is_not_there_can_not_be_kept(store: Store) -> None:
    runs(store, "a", claim=None)
    for name, why in (("a", "has not ended"), ("b", "no such job")):
        with pytest.raises(TriageRefused, match=why):
            store.keep(name, KEEP)


def test_it_can_be_told_what_would_go(store: Store, clock: Clock) -> None:
    tells(store, "a")
    assert store.going(DAY, summarised) == Going()
    clock.now += DAY
    found = store.going(DAY, summarised)
    assert (found.jobs, found.traces, found.thinned) == (0, 0, 1)
    assert found.bytes > 100
    assert store.going(0, summarised) == Going()
    clock.now += ending().keep_us
    found = store.going(DAY, summarised)
    assert (found.jobs, found.traces, found.thinned) == (1, 1, 0)
    assert store.prune() == 1
    assert store.going(DAY, summarised) == Going()
