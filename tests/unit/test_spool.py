from __future__ import annotations

import json
import logging
import stat

import pytest

from celery_replay.clock import SECOND, new_id
from celery_replay.facts import Delivery
from celery_replay.lifecycle import Ending
from celery_replay.records import Chunk, Failure, StepRecord
from celery_replay.spool import Spool
from celery_replay.states import Category, Outcome, Reason, StepState

MESSAGE = b"z\x00\xffbody"


def ending(outcome=Outcome.SUCCEEDED, **fields):
    delivery = Delivery(submission="s1", operation="shop.pay", generation=3, message=lambda: MESSAGE)
    given = {"nonce": "n1", "claim": None, "canvas": True, "canvas_us": 30 * SECOND, "keep_us": 60 * SECOND, **fields}
    return Ending(delivery=delivery, outcome=outcome, **given)


FULL = ending(
    Outcome.FAILED,
    claim="c1",
    reserve_us=5,
    result='{"a": [1]}',
    result_lost=True,
    failure=Failure(
        type="x.Y", message="naïve \\x00", traceback="tb", category=Category.UNKNOWN_OUTCOME, reason=Reason.REJECTED
    ),
    failure_json="{}",
    unsettled=True,
    steps=(
        StepRecord(scope="c1", key="pay:1", name="pay", state=StepState.SETTLED, nonce="n1", output="5", claimed_at=7),
        StepRecord(scope="c1", key="pay:2", name="pay", state=StepState.CLAIMED, nonce="n1"),
    ),
    code_version="abc",
)
CHUNKS = [
    Chunk(trace_id="t1", nonce="n1", first=1, count=2, body=b"\x00\xff", blobs=(("r1", b"\xfe"),), recorded_at=9),
    Chunk(trace_id="t1", nonce="n1", first=3, count=1, body=b"j{}"),
]


@pytest.fixture
def spool(tmp_path):
    return Spool(str(tmp_path / "deep" / "spool"))


def plain(one):
    """Make an ending comparable: its delivery's message is a function."""
    fields = {name: getattr(one, name) for name in Ending.__dataclass_fields__ if name != "delivery"}
    delivery = one.delivery
    return fields, (delivery.submission, delivery.operation, delivery.generation, delivery.message())


@pytest.mark.parametrize(("one", "chunks"), [(ending(), []), (FULL, CHUNKS)], ids=["lean", "full"])
def test_an_ending_comes_back_as_it_was(spool, one, chunks):
    written = spool.put(one, chunks)

    ((path, kept, kept_chunks),) = spool.waiting()

    assert path == written
    assert plain(kept) == plain(one)
    assert kept_chunks == chunks


def test_words_come_back_as_words(spool):
    spool.put(FULL, [])

    ((_, kept, _),) = spool.waiting()

    assert [type(kept.outcome), type(kept.failure.category), type(kept.failure.reason), type(kept.steps[0].state)] == [
        Outcome,
        Category,
        Reason,
        StepState,
    ]


def test_endings_come_back_in_the_order_in_which_they_were_written(spool, monkeypatch):
    for number in range(20):
        monkeypatch.setattr("celery_replay.spool.new_id", lambda now=number: new_id(lambda: now * 1_000))
        spool.put(ending(nonce=f"n{number}"), [])

    assert [one.nonce for _, one, _ in spool.waiting()] == [f"n{number}" for number in range(20)]


def test_an_ending_waits_until_its_file_is_gone(spool):
    path = spool.put(ending(), [])

    assert len(list(spool.waiting())) == len(list(spool.waiting())) == 1
    path.unlink()
    assert list(spool.waiting()) == []


def test_nobody_else_may_read_it(spool):
    path = spool.put(ending(), [])

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_folder_that_is_not_there_holds_nothing(tmp_path):
    assert list(Spool(str(tmp_path / "nowhere")).waiting()) == []


def test_a_draft_that_was_never_finished_is_not_read(spool):
    path = spool.put(ending(), [])
    path.with_suffix(".tmp").write_text('{"v": 1, "ending"')

    assert len(list(spool.waiting())) == 1


def good():
    return {
        "v": 1,
        "ending": {
            **{
                name: getattr(ending(), name)
                for name in Ending.__dataclass_fields__
                if name not in ("delivery", "steps")
            },
            "delivery": {"submission": "s", "operation": "o", "generation": 0, "message": ""},
            "steps": [],
        },
        "chunks": [],
    }


def changed(**ending_fields):
    data = good()
    data["ending"].update(ending_fields)
    return json.dumps(data)


HOSTILE = {
    "empty": "",
    "torn": changed()[:50],
    "not an object": "[]",
    "a number": "5",
    "no ending": "{}",
    "ending is text": '{"ending": "x", "chunks": []}',
    "ending is a list": '{"ending": [], "chunks": []}',
    "delivery is text": changed(delivery="x"),
    "message is no base64": changed(delivery={"submission": "s", "operation": "o", "generation": 0, "message": "é"}),
    "unknown outcome": changed(outcome="vanished"),
    "unknown field": changed(surprise=1),
    "failure is text": changed(failure="x"),
    "steps are numbers": changed(steps=[5]),
    "chunks are numbers": json.dumps({**good(), "chunks": [5]}),
    "too deep": "[" * 100_000,
    "not text": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_can_not_be_read_is_set_aside_and_hinders_nobody(spool, body, caplog):
    good_one = spool.put(ending(), [])
    bad = good_one.with_name("0.json")
    bad.write_bytes(body if isinstance(body, bytes) else body.encode())

    with caplog.at_level(logging.ERROR):
        read = [path for path, _, _ in spool.waiting()]

    assert read == [good_one]
    assert not bad.exists()
    assert bad.with_suffix(".bad").exists()
    assert [record.message for record in caplog.records] == ["replay.spool_unreadable"]


def test_the_file_of_these_tests_is_a_good_one_unless_it_is_changed(spool):
    spool.folder.mkdir(parents=True)
    (spool.folder / "0.json").write_text(changed())

    assert len(list(spool.waiting())) == 1


def test_a_file_of_the_first_format_is_still_read(spool):
    spool.folder.mkdir(parents=True)
    (spool.folder / "0.json").write_text(
        '{"v": 1, "ending": {"nonce": "n1", "claim": null, "outcome": "retry_scheduled", "canvas": false, '
        '"canvas_us": 1, "keep_us": 2, "reserve_us": 3, "result": null, "result_lost": false, "failure": null, '
        '"failure_json": null, "unsettled": false, "steps": [], "code_version": "", "delivery": {"submission": "s1", '
        '"operation": "shop.pay", "generation": 1, "message": "agE="}}, "chunks": [{"trace_id": "t", "nonce": "n1", '
        '"first": 1, "count": 1, "body": "ag==", "blobs": [["r", "/w=="]], "recorded_at": 4}]}'
    )

    ((_, kept, chunks),) = spool.waiting()

    assert (kept.outcome, kept.delivery.message()) == (Outcome.RETRY_SCHEDULED, b"j\x01")
    assert chunks[0].blobs == (("r", b"\xff"),)
