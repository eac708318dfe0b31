from __future__ import annotations

from celery_replay.cli.fields import moment
from celery_replay.cli.output import cell
from celery_replay.clock import SECOND
from celery_replay.serialization import pack
from celery_replay.states import Outcome
from celery_replay.trace import Recorder
from tests.conformance.callers import closes, runs


def tells(shop, nonce, *events, job="task"):
    recorder = Recorder("trace", nonce, {"job": job, "worker": "w/1"})
    for name, fields in events:
        recorder.record(name, **fields)
    shop.store.flush(chunks=recorder.take())


def failing(shop):
    job = runs(shop.store, "a", nonce="n")
    tells(
        shop,
        "n",
        ("started", {}),
        ("step_failed", {"status": "fail", "step": "charge"}),
        ("failed", {"status": "fail", "attributes": {"error": "ValueError", "message": "boom"}}),
        ("dead_lettered", {}),
    )
    return job


def test_the_newest_jobs_are_listed(shop):
    runs(shop.store, "old", claim=None)
    shop.clock.now += SECOND
    closes(shop.store, runs(shop.store, "new", claim=None), claim=None)
    title, *rest = shop.types("trace list").stdout.splitlines()
    assert title.split() == ["id", "task", "status", "attempts", "started", "at", "key"]
    assert [line.split()[:3] for line in rest] == [["new", "shop.ship", "succeeded"], ["old", "shop.ship", "open"]]


def test_jobs_are_filtered_by_task_status_key_and_time(shop):
    runs(shop.store, "a", key="ship:1", claim=None)
    shop.clock.now += SECOND
    closes(shop.store, runs(shop.store, "b", claim=None), claim=None)

    def names(filters):
        return [job["id"] for job in shop.reads(f"trace list {filters}")]

    assert names("--status succeeded") == ["b"]
    assert names("--key ship:1 --task shop.ship") == ["a"]
    assert names("--before 2023-11-14T22:13:21Z") == ["a"]
    assert names("--since 2023-11-14T22:13:21") == ["b"]


def test_an_empty_store_has_nothing_to_list(shop):
    result = shop.types("trace list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert (shop.types("trace list --json").exit_code, shop.reads("trace list")) == (1, [])


def test_a_trace_marks_where_the_job_failed_and_says_why(shop):
    closes(shop.store, failing(shop), Outcome.FAILED)
    *_, marked, after, verdict, letter = shop.types("trace show a").stdout.splitlines()
    assert "✗ failed" in marked
    assert marked.endswith("◀ failed here")
    assert "dead_lettered" in after
    assert verdict == "failed in attempt #1, after step_failed in charge: ValueError: boom"
    assert letter == "its dead letter is open; see: replay dlq show a"


def test_a_job_that_ended_well_after_a_failure_has_no_mark(shop):
    closes(shop.store, failing(shop))
    assert "failed here" not in shop.types("trace show a").stdout
    assert not any(event["failed_here"] for event in shop.reads("trace show a"))


def test_the_mark_is_on_the_last_attempt_though_an_older_one_spoke_later(shop):
    closes(shop.store, failing(shop), Outcome.FAILED)
    tells(shop, "zombie", ("stale_write_rejected", {"status": "fail"}))
    (marked,) = [event for event in shop.reads("trace show a") if event["failed_here"]]
    assert (marked["name"], marked["attempt"]) == ("failed", "n")


def test_a_failure_of_another_job_of_the_trace_is_not_this_ones(shop):
    closes(shop.store, runs(shop.store, "a", nonce="n"), Outcome.REVOKED)
    tells(shop, "other", ("failed", {"status": "fail"}), job="another task")
    assert "failed here" not in shop.types("trace show a").stdout


def test_of_a_job_whose_worker_is_silent_the_trace_says_since_when(shop):
    runs(shop.store, "a", nonce="n")
    assert "silent since" not in shop.types("trace show a").stdout
    shop.clock.now += 3600 * SECOND
    last = shop.types("trace show a").stdout.splitlines()[-1]
    job = shop.store.job("a")
    assert last.startswith(f"its worker has been silent since {cell(moment(job.lease_until))}; if its message")
    assert last.endswith(f"it is filed at {cell(moment(job.reap_at))}")


def test_events_in_json_have_iso_times(shop):
    closes(shop.store, runs(shop.store, "a", nonce="n"))
    recorder = Recorder("trace", "n", {"job": "task"})
    recorder.record("started", at=shop.clock.now)
    shop.store.flush(chunks=recorder.take())
    (event,) = shop.reads("trace show a")
    assert (event["name"], event["at"]) == ("started", "2023-11-14T22:13:20.000000Z")


def test_an_unknown_job_ends_with_one(shop):
    assert shop.types("trace show nobody").exit_code == 1


def test_values_show_what_other_services_answered_without_secrets(shop):
    job = runs(shop.store, "a", nonce="n")
    recorder = Recorder("trace", "n", {"job": "task"})
    body = pack({"call": "digest", "output": '{"status": 200, "password": "hunter2"}'})
    recorder.record("step_done", step="buy", output_ref="ref", blobs={"ref": body})
    recorder.record("looked", domain=True, attributes={"rows": ["row"] * 1_000, "token": ["hunter2"] * 1_000})
    shop.store.flush(chunks=recorder.take())
    closes(shop.store, job)
    step, looked = shop.reads("trace show a --values")
    assert step["values"] == {"output": {"status": 200, "password": "[redacted]"}}
    assert looked["values"]["rows"] == ["row"] * 1_000
    drawn = shop.types("trace show a --values").stdout
    assert 'output = {"status": 200' in drawn
    assert "hunter2" not in drawn
    shop.store._tables.blobs.clear()
    assert next(event["values"] for event in shop.reads("trace show a --values")) == {"output": "(gone)"}
    assert "values" not in shop.reads("trace show a")[0]
