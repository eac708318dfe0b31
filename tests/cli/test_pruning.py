from __future__ import annotations

from celery_replay.clock import SECOND
from celery_replay.records import Chunk
from celery_replay.runtime import reset, use_store
from celery_replay.snapshots.capture import take
from celery_replay.stores.places import Folder
from celery_replay.trace import Recorder
from tests.conformance.callers import closes, runs


def test_what_is_past_its_retention_is_counted_and_goes(shop):
    for name in "abc":
        closes(shop.store, runs(shop.store, name, claim=None), claim=None)
    said = "0 jobs are past their retention, with 0 traces\n0 bytes of events and large values\n"
    assert shop.types("prune --dry-run").stdout == said
    shop.fails("letter")
    shop.clock.now += 400 * 86_400 * SECOND
    assert shop.reads("prune --dry-run") == [
        {
            "past_retention": 3, "traces": 0, "thinned": 0, "bytes": 0, "objects": 0, "counted_up_to": 100_000,
            "pruned": 0,
        }
    ]  # fmt: skip
    assert shop.types("prune").stdout == "3 jobs deleted\n"
    assert [job.submission for job in shop.store.find_jobs()] == ["letter"]


def captures(shop, name):
    job = runs(shop.store, name, claim=None, trace_id=name, task_id=name)
    recorder = Recorder(name, job.nonce, {"job": name})
    take("after", {"order": lambda: {"text": name * 2_000}}, (), recorder)
    shop.store.flush(chunks=recorder.take())
    closes(shop.store, job, claim=None, canvas=False)


def test_details_go_before_their_jobs_and_kept_ones_do_not(shop):
    reset(shop.app)
    shop.app.conf.replay_detail_retention = 3_600
    use_store(shop.app, shop.store)
    for name in ("one", "two"):
        captures(shop, name)
    assert shop.types("trace keep two --because evidence").stdout == "kept until somebody says otherwise\n"
    shop.clock.now += 7_200 * SECOND
    (told,) = shop.reads("prune --dry-run")
    assert (told["past_retention"], told["thinned"], told["bytes"] > 0) == (0, 1, True)
    assert shop.types("prune").stdout == "0 jobs deleted\n1 traces reduced to counts\n"
    assert [event["name"] for event in shop.reads("trace show one")] == ["summarised"]
    assert [event["name"] for event in shop.reads("trace show two")] == ["snapshot_taken"]
    assert shop.types("trace unkeep two --because closed").stdout.startswith("kept until 2")
    assert shop.types("prune").stdout == "0 jobs deleted\n1 traces reduced to counts\n"


def test_objects_elsewhere_go_with_the_last_that_refers_to_them(shop, tmp_path):
    shop.store.elsewhere = Folder(tmp_path / "kept")
    job = runs(shop.store, "a", claim=None, trace_id="a")
    blobs = (("ref", b"j" + b"x" * 1_000),)
    shop.store.flush(chunks=[Chunk(trace_id="a", nonce="n", first=1, count=1, body=b"j[]", blobs=blobs)])
    closes(shop.store, job, claim=None, canvas=False)
    shop.store.place_blobs()
    shop.clock.now += 400 * 86_400 * SECOND
    shop.types("prune")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
