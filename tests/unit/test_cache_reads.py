"""A trace tells what an attempt read from caches: bounded, without secrets, and never at the cost of the job."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_replay.cache_reads import MOST, VALUE_LIMIT, CacheReads, reads_in
from celery_replay.records import Job
from celery_replay.states import Capture
from celery_replay.trace import Recorder, events_of, stripped


class Hostile:
    """Breaks whoever looks at it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


def noted(*reads: tuple[str, Any], capture: Capture = Capture.KEYS, known: tuple[str, ...] = ()) -> list[Any]:
    recorder = Recorder("trace", "nonce", {}, capture=capture, secrets=lambda: known)
    notes = CacheReads(recorder)
    for key, value in reads:
        notes.note("default", key, 1, value, hit=True)
    chunks = recorder.take()
    return [read for chunk in chunks for read in reads_in(events_of(chunk), dict(chunk.blobs))]


@pytest.mark.parametrize("value", [None, 0, "", {"a": (1, Decimal("1.50"))}, b"\x00\xff", {1, 2}, "x" * 1_000])
def test_data_comes_back_with_its_types(value: Any) -> None:
    (read,) = noted(("price", value))
    assert (read.key, read.version, read.hit, read.value) == ("price", 1, True, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("user:password:7", "plain words"),
        ("user:7", {"api_key": "plain words"}),
        ("user:8", "postgres://ann:plainwords@db/shop"),
        ("user:9", ["known-to-be-secret"]),
        ("object", object()),
        ("large", "x" * (VALUE_LIMIT + 1)),
        ("larger", list(range(10**6))),
        ("deep", [[[[[[{"a": [object()]}]]]]]]),
    ],
)
def test_what_is_secret_large_or_no_data_is_told_without_its_value(key: str, value: Any) -> None:
    (read,) = noted((key, value), known=("known-to-be-secret",))
    assert (read.hit, read.body) == (True, None)
    assert "password" not in read.key


def test_a_value_that_breaks_breaks_nothing() -> None:
    assert noted(("a", Hostile()), ("b", 1))[-1].key == "b"


def test_what_was_found_before_is_not_told_again() -> None:
    assert [read.value for read in noted(("a", 1), ("a", 1), ("a", 2), ("a", 2), ("b", 1))] == [1, 2, 1]


def test_a_body_that_reads_without_end_is_told_of_in_part() -> None:
    assert len(noted(*((f"key{number}", number) for number in range(MOST + 10)))) == MOST


def test_nothing_is_kept_where_nothing_is_to_be() -> None:
    assert noted(("a", 1), capture=Capture.NONE) == []


def test_a_huge_value_costs_next_to_nothing() -> None:
    huge = {str(number): ["x" * 100] * 10 for number in range(100_000)}
    begun = time.perf_counter()
    noted(*((f"key{number}", huge) for number in range(100)))
    assert time.perf_counter() - begun < 1


def test_what_is_erased_of_a_job_is_gone_from_its_reads_too() -> None:
    recorder = Recorder("trace", "nonce", {"job": "task"})
    CacheReads(recorder).note("default", "customer:ann", 1, {"name": "ann"}, hit=True)
    (chunk,) = recorder.take()
    (reference,) = dict(chunk.blobs)
    job = Job(submission="s", operation="o", task_id="task", trace_id="trace", correlation_id="trace")
    after, references = stripped(chunk, job)
    assert after is not None
    (event,) = events_of(after)
    assert (event.name, event.attributes, references) == ("cache_read", {"erased": True}, {reference})


@given(value=st.recursive(st.none() | st.integers() | st.text() | st.binary() | st.floats(), st.lists, max_leaves=20))
def test_whatever_is_found_is_told_and_what_comes_back_is_the_same(value: Any) -> None:
    (read,) = noted(("a", value))
    assert read.body is None or repr(read.value) == repr(value)
