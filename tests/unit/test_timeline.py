"""The timeline that the command line and the demo draw."""

from __future__ import annotations

import io
import json

from celery_replay.cli import timeline
from celery_replay.records import AttemptRecord, Event, Job
from celery_replay.states import Outcome
from celery_replay.stores.memory import MemoryStore
from celery_replay.trace import Recorder

JOB = Job(
    submission="s", operation="shop.ship", task_id="t1", trace_id="tr", correlation_id="c", key="ship:1",
    status=Outcome.SUCCEEDED,
)  # fmt: skip


def _attempt(nonce: str, note: str = "") -> AttemptRecord:
    return AttemptRecord(
        nonce=nonce, submission="s", trace_id="tr", operation="shop.ship", generation=0, outcome=Outcome.UNKNOWN,
        fence=1, worker="w1", pid=7, started_at=2_000_000, ended_at=9_000_000, note=note,
    )  # fmt: skip


def test_what_a_killed_attempt_could_not_write_is_told_from_its_record() -> None:
    events = [Event(name="published", at=1_000_000, attempt="a")]
    lines = list(timeline.draw(JOB, events, [_attempt("a", "taken over")]))
    assert lines[0] == "shop.ship  t1  succeeded  key ship:1"
    assert "+    1.000s  #1  · started" in lines
    assert lines[-1].startswith("+    8.000s  #1  ✗ unknown")
    assert "note=taken over" in lines[-1]


def test_attempts_are_numbered_in_the_order_in_which_they_began() -> None:
    # The second attempt tells of the publishing, since the first one died with what it had to tell.
    events = [Event(name="published", at=1, attempt="b"), Event(name="started", at=9_500_000, attempt="b")]
    _, *lines = timeline.draw(JOB, events, [_attempt("a", "taken over")])
    assert [(line[13:15], line.split()[-1]) for line in lines if "started" in line] == [
        ("#1", "started"),
        ("#2", "started"),
    ]
    assert lines[0] == "+    0.000s      · published"


def test_what_a_workers_parent_tells_is_of_no_attempt() -> None:
    events = [
        Event(name="started", at=1, attempt="a"),
        Event(name="worker_lost", at=2, status="fail", attempt="parent"),
        Event(name="started", at=3, attempt="b"),
    ]
    _, *lines = timeline.draw(JOB, events)
    assert [line[13:15] for line in lines] == ["#1", "  ", "#2"]


def test_copies_of_one_message_tell_of_one_publishing() -> None:
    events = [Event(name="published", at=5, attempt=nonce) for nonce in ("a", "b")]
    events.append(Event(name="published", at=9, attempt="c"))
    assert sum("published" in line for line in timeline.draw(JOB, events)) == 2


def test_plain_text_has_no_escape_codes_and_colour_has() -> None:
    event = Event(name="failed", at=5, status="fail", attempt="a")
    assert "\x1b" not in "".join(timeline.draw(JOB, [event]))
    assert "\x1b[31m✗ failed\x1b[0m" in "".join(timeline.draw(JOB, [event], colour=True))


def test_json_has_one_event_on_each_line() -> None:
    store, recorder, out = (
        MemoryStore(),
        Recorder("tr", "n", {"job": "t1", "worker": "w/7", "key": "ship:1"}),
        io.StringIO(),
    )
    recorder.record("started")
    recorder.record("paid", domain=True, attributes={"amount": 3})
    store.flush(chunks=recorder.take())
    timeline.show(store, JOB, as_json=True, out=out)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["name"], first["worker_id"], first["idempotency_key"]) == ("started", "w/7", "ship:1")
    assert (second["domain"], second["attributes"]) == (True, {"amount": 3})
