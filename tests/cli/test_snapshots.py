from __future__ import annotations

import pytest

from celery_replay.snapshots.capture import take
from celery_replay.states import Outcome
from celery_replay.trace import Recorder
from tests.conformance.callers import closes, runs


@pytest.fixture
def captures(shop):
    """Run a job whose state was so before, and so after."""

    def run(name, *moments):
        job = runs(shop.store, name, claim=None, trace_id=name, task_id=f"task-{name}")
        recorder = Recorder(name, job.nonce, {"job": job.task_id})
        for label, state in moments:
            take(label, {"order": lambda state=state: state}, (), recorder)
        shop.store.flush(chunks=recorder.take())
        closes(shop.store, job, claim=None)

    return run


BEFORE = ("before", {"status": "paid", "total": 5, "password": "hunter2"})
AFTER = ("after", {"status": "shipped", "total": 5, "label": "7f", "password": "hunter3"})


def test_what_changed_is_shown_field_by_field(shop, captures):
    captures("a", BEFORE, AFTER)
    title, *lines = shop.types("snapshot diff a").stdout.splitlines()
    assert title.split() == ["state", "record", "field", "before", "after"]
    assert [line.split() for line in lines] == [
        ["order", "order", "label", "(absent)", "7f"],
        ["order", "order", "status", "paid", "shipped"],
    ]


def test_json_has_the_values_themselves(shop, captures):
    captures("a", ("before", {"n": 1}), ("after", {"n": 2}))
    assert shop.reads("snapshot diff a") == [
        {"state": "order", "record": "order", "field": "n", "before": 1, "after": 2}
    ]


def test_nothing_that_differs_is_one(shop, captures):
    captures("a", BEFORE, ("after", BEFORE[1]))
    result = shop.types("snapshot diff a")
    assert (result.exit_code, result.stderr) == (1, "nothing differs\n")


def test_two_jobs_are_compared_by_what_they_left(shop, captures):
    captures("a", BEFORE, ("after", {"n": 1}))
    captures("b", BEFORE, ("after", {"n": 2}))
    assert [row["after"] for row in shop.reads("snapshot diff a b")] == [2]


def test_two_attempts_are_compared_by_what_they_left(shop):
    for number, state in enumerate(({"n": 1}, {"n": 2})):
        job = runs(shop.store, "a", generation=number, claim=None, trace_id="a", task_id="task-a")
        recorder = Recorder("a", job.nonce, {"job": job.task_id})
        recorder.record("started")
        for label, seen in (("before", {"n": 0}), ("after", state)):
            take(label, {"order": lambda seen=seen: seen}, (), recorder)
        shop.store.flush(chunks=recorder.take())
        closes(shop.store, job, (Outcome.RETRY_SCHEDULED, Outcome.SUCCEEDED)[number], claim=None)
        shop.clock.now += 1_000_000
    compared = shop.reads("snapshot diff a --attempt 1 --with 2")
    assert [(row["before"], row["after"]) for row in compared] == [(1, 2)]
    assert [(row["before"], row["after"]) for row in shop.reads("snapshot diff a --attempt 1")] == [(0, 1)]
    assert [row["fields"] for row in shop.reads("snapshot show a --attempt 1")] == [{"n": 1}]
    assert [row["number"] for row in shop.reads("snapshot list a")] == [1, 1, 2, 2]
    assert shop.types("snapshot diff a --attempt 3").exit_code == 1


def test_moments_in_between_can_be_asked_for(shop, captures):
    captures("a", ("before", {"n": 1}), ("halfway", {"n": 2}), ("after", {"n": 3}))
    assert [row["before"] for row in shop.reads("snapshot diff a --from halfway")] == [2]
    assert [row["fields"] for row in shop.reads("snapshot show a --when halfway")] == [{"n": 2}]


def test_equal_states_have_equal_names(shop, captures):
    captures("a", BEFORE, ("after", BEFORE[1]))
    first, second = shop.reads("snapshot list a")
    assert (first["when"], second["when"]) == ("before", "after")
    assert first["snapshot"] == second["snapshot"]


def test_secrets_were_never_written_down(shop, captures):
    captures("a", BEFORE, AFTER)
    shown = shop.types("snapshot show a").stdout + shop.types("snapshot show a --json").stdout
    assert "hunter" not in shown
    assert b"hunter" not in b"".join(
        shop.store.blobs(one["snapshot"] for one in shop.reads("snapshot list a")).values()
    )


@pytest.mark.parametrize("line", ["snapshot show a --when never", "snapshot diff a", "snapshot list a"])
def test_a_job_without_snapshots_is_told(shop, captures, line):
    captures("a")
    result = shop.types(line)
    assert (result.exit_code, result.stdout) == (1, "")


def test_a_snapshot_whose_parts_are_gone_is_told(shop, captures):
    captures("a", BEFORE, AFTER)
    shop.store._tables.blobs.clear()
    result = shop.types("snapshot show a")
    assert (result.exit_code, "is gone; was its trace pruned?" in result.stderr) == (3, True)
