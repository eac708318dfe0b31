from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_replay.records import Chunk, Job
from celery_replay.redaction import REDACTED
from celery_replay.serialization import unpack
from celery_replay.states import Capture
from celery_replay.trace import (
    ATTRIBUTES_LIMIT,
    BUFFER_LIMIT,
    INLINE_LIMIT,
    VALUE_LIMIT,
    Recorder,
    events_of,
    stripped,
    timeline,
)

ABOUT = {"job": "task-1", "n": 0, "worker": "w@host/7", "key": "order:5"}
NOW = 1_700_000_000_000_000


def recorder(nonce="n1"):
    return Recorder("t1", nonce, ABOUT)


def taken(recorder):
    return [event for chunk in recorder.take() for event in events_of(chunk)]


def shown(value, name="value"):
    """Return how a recorded attribute reads, and the blobs that it left."""
    one = recorder()
    one.record("seen", attributes={name: value})
    (chunk,) = one.take()
    (event,) = events_of(chunk)
    return next(iter(event.attributes.values())), dict(chunk.blobs)


class Hostile:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


class Items(Mapping):
    def __getitem__(self, key):
        raise RuntimeError("no")

    def __iter__(self):
        raise RuntimeError("no")

    def __len__(self):
        return 1


# What an event says


def test_an_event_comes_back_with_all_that_was_said():
    one = recorder()
    one.about["fence"] = 9

    one.record(
        "charged",
        at=NOW,
        domain=True,
        status="fail",
        side_effect=True,
        attributes={"amount": 5},
        step="charge",
        resource_version="7",
        input_ref="i",
        output_ref="o",
    )

    (event,) = taken(one)
    assert (event.name, event.at, event.sequence, event.status) == ("charged", NOW, 1, "fail")
    assert (event.domain, event.side_effect, event.step) == (True, True, "charge")
    assert (event.resource_version, event.input_ref, event.output_ref) == ("7", "i", "o")
    assert (event.trace_id, event.attempt, event.job_id) == ("t1", "n1", "task-1")
    assert (event.worker_id, event.idempotency_key, event.fence) == ("w@host/7", "order:5", 9)
    assert event.attributes == {"amount": 5}


def test_events_are_numbered_without_a_gap_over_many_chunks():
    one = recorder()
    chunks = []
    for _ in range(3):
        for _ in range(4):
            one.record("seen")
        chunks += one.take()

    assert [chunk.first for chunk in chunks] == [1, 5, 9]
    assert [event.sequence for chunk in chunks for event in events_of(chunk)] == list(range(1, 13))


def test_without_events_there_is_no_chunk():
    assert recorder().take() == []


def test_a_typical_attempt_takes_few_bytes(capsys):
    one = recorder()
    one.record("published", at=NOW)
    one.record("received", at=NOW + 900)
    one.record("started", attributes={"code": "abc123", "celery": "5.7.0", "acks_late": True, "max_retries": 3})
    one.record("step_done", step="charge", side_effect=True)
    one.record("payment_checked", domain=True, attributes={"status": "paid", "amount": 1050})
    one.record("succeeded")
    (chunk,) = one.take()

    with capsys.disabled():
        print(f"\n{chunk.count} events take {len(chunk.body)} bytes", end=" ")  # noqa: T201

    assert len(chunk.body) < 500


# Attributes


@pytest.mark.parametrize("value", [None, 0, 5, -1.5, True, False, "", "text", [], {}, {"a": [1, None, "x"]}])
def test_small_values_are_kept_as_they_are(value):
    assert shown(value) == (value, {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, 2), [1, 2]),
        ({1: 2}, {"1": 2}),
        ({3}, "{3}"),
        (ValueError("x"), "x"),
        ("nul\x00", "nul\\x00"),
        ("lone \ud800", "lone \\ud800"),
        (b"bytes", "b'bytes'"),
        ({"password": "hunter2", "user": "ann"}, {"password": REDACTED, "user": "ann"}),
        ("redis://:hunter2@cache", f"redis://:{REDACTED}@cache"),
    ],
)
def test_other_values_are_kept_as_data(value, text):
    assert shown(value) == (text, {})


def test_an_attribute_with_a_secret_name_is_not_written_down():
    assert shown("hunter2", "api_key") == (REDACTED, {})


@pytest.mark.parametrize(
    "value",
    [
        Hostile(),
        [Hostile()],
        {Hostile(): 1},
        {"a": {Hostile(): 1}},
        {(1, 2): 3},
        Items(),
        10**5000,
        float("nan"),
        object(),
        print,
        type,
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_value_is_too_odd_to_be_recorded(value):
    one = recorder()
    one.record("before")
    one.record("odd", domain=True, attributes={"value": value})
    one.record("after")

    assert [event.name for event in taken(one)] == ["before", "odd", "after"]


def test_values_that_refer_to_themselves_or_are_too_deep_are_recorded():
    loop: list[object] = []
    loop.append(loop)
    deep: list[object] = []
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]
    one = recorder()

    one.record("odd", attributes={"loop": loop, "deep": deep})

    assert set(taken(one)[0].attributes) == {"loop", "deep"}


@pytest.mark.parametrize("name", [Hostile(), 5, "nul\x00", "x" * 10_000, None])
def test_neither_the_name_of_an_event_nor_that_of_an_attribute_can_break_it(name):
    one = recorder()

    one.record(name, domain=True, attributes={name: 1})

    (event,) = taken(one)
    assert len(event.name) <= 200
    assert event.name.encode()


def test_what_the_task_changes_afterwards_does_not_change_the_event():
    listed, tags, one = {"open": [1, 2]}, {1}, recorder()

    one.record("seen", attributes={"listed": listed, "tags": tags})
    listed["open"].clear()
    tags.clear()

    assert taken(one)[0].attributes == {"listed": {"open": [1, 2]}, "tags": "{1}"}


@pytest.mark.parametrize(
    "value",
    [
        ValueError("password=hunter2"),
        b"password=hunter2",
        {"at": ValueError("Bearer hunter2hunter2")},
        {"hunter2@": {"password": {"hunter2"}}}["hunter2@"],
        [("Cookie", "hunter2")],
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_secret_is_in_the_text_of_an_object(value):
    seen, _ = shown(value)

    assert "hunter2" not in str(seen)
    assert REDACTED in str(seen)


@pytest.mark.parametrize("value", [1234, 1.5, None, True, 10**30])
def test_a_number_under_a_secret_name_is_not_written_down_either(value):
    assert shown(value, "card_pin") == (REDACTED, {})


def test_values_that_are_known_to_be_secret_are_not_written_down():
    one = Recorder("t1", "n1", ABOUT, secrets=lambda: ("hunter2",))

    one.record("said", attributes={"note": "it is hunter2", "rows": ["hunter2"], "error": ValueError("hunter2")})

    assert "hunter2" not in str(taken(one)[0].attributes)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**63, 2**63),
        (-(10**40), -(10**40)),
        ([2**70, 0.1], [2**70, 0.1]),
        (Decimal("1.10"), "1.10"),
        ({"total": Decimal("12345678901234567890.123456789")}, {"total": "12345678901234567890.123456789"}),
    ],
)
def test_numbers_are_exact(value, text):
    assert shown(value) == (text, {})


# Capture levels


def test_at_none_a_domain_event_keeps_its_name_and_nothing_else():
    one = Recorder("t1", "n1", ABOUT, capture=Capture.NONE)

    one.record("diagnosed", domain=True, attributes={"patient": "ann", "large": "x" * 5_000})
    one.record("refused", attributes={"reason": "key_done"})

    (chunk,) = one.take()
    assert [event.attributes for event in events_of(chunk)] == [{}, {"reason": "key_done"}]
    assert chunk.blobs == ()


@pytest.mark.parametrize(("level", "said"), [("none", {}), ("keys", {"message": "no"}), ("full", {"message": "no"})])
def test_what_an_exception_says_is_kept_but_at_none(level, said):
    one = Recorder("t1", "n1", ABOUT, capture=Capture(level))

    assert one.said(ValueError("no")) == {"error": "ValueError", **said}


def test_a_known_secret_is_not_shown_by_half_where_a_message_is_cut():
    one = Recorder("t1", "n1", ABOUT, secrets=lambda: ("hunter2-hunter2",))

    assert "hunt" not in one.said(ValueError("x" * 485 + "hunter2-hunter2" + "y" * 1_000))["message"]


@pytest.mark.parametrize("level", ["none", "keys"])
def test_what_a_call_was_given_and_gave_is_kept_at_full_only(level):
    one = Recorder("t1", "n1", ABOUT, capture=Capture(level))

    assert one.given(lambda: pytest.fail("nobody needs them")) == {}
    assert one.returned({"a": 1}) == {}


def test_at_full_small_payloads_are_in_the_event_as_they_were_at_the_time():
    one = Recorder("t1", "n1", ABOUT, capture=Capture.FULL)
    given = {"order_id": 5, "password": "hunter2", "tags": ["a"]}

    kept = one.given(lambda: given)
    given["tags"].clear()
    one.record("done", attributes={**kept, **one.returned(["label"])})

    (event,) = taken(one)
    assert event.attributes["arguments"] == {"order_id": 5, "password": REDACTED, "tags": ["a"]}
    assert event.attributes["result"] == ["label"]
    assert (event.input_ref, event.output_ref) == (None, None)


def test_at_full_large_payloads_are_in_blobs_that_the_event_refers_to():
    one = Recorder("t1", "n1", ABOUT, capture=Capture.FULL)
    given, returned = {"rows": ["x" * 2_000], "token": "hunter2"}, ["y" * 2_000]

    one.record("done", attributes={**one.given(lambda: given), **one.returned(returned)})

    (chunk,) = one.take()
    (event,) = events_of(chunk)
    blobs = dict(chunk.blobs)
    assert unpack(blobs[event.input_ref]) == {"rows": ["x" * 2_000], "token": REDACTED}
    assert unpack(blobs[event.output_ref]) == returned
    assert event.attributes["arguments"]["blob"] == event.input_ref


def test_an_attribute_of_the_same_name_in_a_domain_event_is_no_reference():
    one = recorder()

    one.record("seen", domain=True, attributes={"arguments": "x" * 2_000, "result": {"blob": "mine", "bytes": 5}})

    (event,) = taken(one)
    assert (event.input_ref, event.output_ref) == (None, None)


# Large values


@pytest.mark.parametrize("value", ["x" * 5_000, ["y" * 600, "y" * 600], {"rows": list(range(1_000))}])
def test_a_large_value_goes_to_a_blob_and_the_event_keeps_a_reference(value):
    reference, blobs = shown(value)

    assert set(reference) == {"blob", "bytes"}
    assert unpack(blobs[reference["blob"]]) == value
    assert reference["bytes"] == len(blobs[reference["blob"]])


def test_a_value_of_just_the_limit_stays_in_the_event():
    assert shown("x" * INLINE_LIMIT) == ("x" * INLINE_LIMIT, {})
    assert shown("x" * (INLINE_LIMIT + 1))[1]


@pytest.mark.parametrize("value", ["x" * 5_000_000, ["y" * 5_000_000], {"rows": ["z" * 100] * 50_000}])
def test_a_value_that_is_too_large_is_cut_and_says_so(value):
    reference, blobs = shown(value)

    kept = unpack(blobs[reference["blob"]])
    assert reference["cut"] is True
    assert len(kept) == VALUE_LIMIT
    assert kept.endswith("…[cut]")


def test_a_secret_does_not_show_where_a_value_was_cut():
    at = VALUE_LIMIT - 12
    _, blobs = shown("x" * (at - 1) + " AKIAIOSFODNN7EXAMPLE " + "y" * 1_000)

    assert all("AKIA" not in unpack(body) for body in blobs.values())


def test_an_event_has_so_many_attributes_and_says_how_many_more_there_were():
    one = recorder()

    one.record("seen", attributes={f"a{n}": n for n in range(150)})

    (event,) = taken(one)
    assert len(event.attributes) == ATTRIBUTES_LIMIT + 1
    assert event.attributes["…"] == "[cut] 50 more"


def test_equal_values_have_one_blob():
    one = recorder()
    for _ in range(3):
        one.record("seen", attributes={"rows": "x" * 5_000})

    (chunk,) = one.take()

    assert len(dict(chunk.blobs)) == 1


def test_secrets_do_not_get_into_blobs():
    _, blobs = shown({"rows": ["x" * 5_000], "password": "hunter2"})

    assert all("hunter2" not in str(unpack(body)) for body in blobs.values())


# Taking and putting back


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["record", "take", "put back"]), max_size=40))
def test_whatever_is_put_back_nothing_is_lost_and_the_order_stays(moves):
    one, recorded, kept = recorder(), 0, []
    for move in moves:
        if move == "record":
            recorded += 1
            one.record(f"event {recorded}", attributes={"n": recorded, "large": "x" * 2_000})
        elif move == "take":
            kept += one.take()
        elif kept:
            one.put_back(kept.pop())
    kept += one.take()

    events = [event for chunk in kept for event in events_of(chunk)]
    assert [event.attributes["n"] for event in sorted(events, key=lambda e: e.sequence)] == [*range(1, recorded + 1)]
    assert [event.sequence for event in events] == sorted(event.sequence for event in events)
    assert all(event.attributes["large"]["blob"] in dict(chunk.blobs) for chunk in kept for event in events_of(chunk))


def test_a_chunk_that_was_put_back_comes_again_as_it_was():
    one = recorder()
    one.record("seen", at=NOW, status="fail", domain=True, side_effect=True, step="pay", attributes={"a": "x" * 2_000})
    one.record("lean", at=NOW + 5)
    (chunk,) = one.take()

    one.put_back(chunk)

    assert one.take() == [chunk]


def test_a_buffer_that_is_full_counts_what_it_drops():
    one = recorder()
    for _ in range(BUFFER_LIMIT + 7):
        one.record("seen", at=NOW)

    (chunk,) = one.take()

    assert (chunk.count, unpack(chunk.body)["dropped"]) == (BUFFER_LIMIT, 7)


def test_the_count_of_what_was_dropped_survives_being_put_back():
    one = recorder()
    for _ in range(BUFFER_LIMIT + 7):
        one.record("seen", at=NOW)
    one.put_back(one.take()[0])

    (chunk,) = one.take()

    assert unpack(chunk.body)["dropped"] == 7


def test_threads_that_record_at_once_lose_nothing():
    one, chunks = recorder(), []
    barrier = threading.Barrier(5)

    def write(number):
        barrier.wait()
        for step in range(200):
            one.record("seen", attributes={"who": number, "step": step})

    def read():
        barrier.wait()
        for _ in range(50):
            chunks.extend(one.take())

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chunks.extend(one.take())

    events = [event for chunk in chunks for event in events_of(chunk)]
    assert sorted(event.sequence for event in events) == list(range(1, 801))
    for number in range(4):
        own = [event.attributes["step"] for event in events if event.attributes["who"] == number]
        assert own == list(range(200))


# Timelines


class Shelf:
    def __init__(self, *chunks: Chunk) -> None:
        self.kept = chunks

    def chunks(self, trace_id):
        return [chunk for chunk in self.kept if chunk.trace_id == trace_id]


def test_a_timeline_is_in_the_order_of_the_times_over_all_attempts():
    first, second = recorder("n1"), recorder("n2")
    first.record("a", at=NOW)
    second.record("b", at=NOW + 1)
    first.record("c", at=NOW + 2)
    second.record("d", at=NOW + 3)

    events = timeline(Shelf(*second.take(), *first.take()), "t1")

    assert [(event.name, event.attempt) for event in events] == [("a", "n1"), ("b", "n2"), ("c", "n1"), ("d", "n2")]


def test_events_of_one_moment_are_in_the_order_in_which_they_were_recorded():
    one = recorder()
    for name in "zyx":
        one.record(name, at=NOW)

    assert [event.name for event in timeline(Shelf(*one.take()), "t1")] == ["z", "y", "x"]


def test_a_timeline_has_no_events_of_other_traces():
    other = Recorder("t2", "n9", ABOUT)
    other.record("elsewhere")

    assert timeline(Shelf(*other.take()), "t1") == []


def test_of_an_erased_chunk_every_value_that_was_put_aside_is_known():
    one = Recorder("t1", "n1", ABOUT, capture=Capture.FULL)
    one.record("started", attributes=one.given(lambda: {"rows": ["x" * 2_000]}))
    one.record("seen", domain=True, attributes={"huge": "y" * 2_000_000, "mine": {"blob": "b", "bytes": "many"}})
    one.record("succeeded", attributes=one.returned(["z" * 2_000]))
    (chunk,) = one.take()
    job = Job(submission="s", operation="o", task_id="task-1", trace_id="t1", correlation_id="t1")

    after, references = stripped(chunk, job)

    assert references == dict(chunk.blobs).keys()
    assert len(references) == 3
    assert [event.attributes for event in events_of(after)] == [{"erased": True}] * 3
    assert all((event.input_ref, event.output_ref) == (None, None) for event in events_of(after))
