from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_replay import headers
from celery_replay.headers import HEADER, Stamp

FULL = Stamp(
    submission="s1",
    trace_id="t1",
    correlation_id="c1",
    causation_id="p1",
    first_request_at=1_700_000_000_000_000,
    published_at=1_700_000_000_000_001,
    key="order:5",
    fingerprint="b1:abc",
)
LEAN = Stamp(submission="s1", trace_id="t1", correlation_id="t1")

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
ours = st.dictionaries(st.sampled_from([*"vstcpfakh", "x"]), anything)
fields_of_celery = st.fixed_dictionaries(
    {},
    optional={
        HEADER: ours | anything,
        "headers": st.dictionaries(st.just(HEADER), ours) | anything,
        "id": anything,
        "root_id": anything,
        "retries": anything,
        "replaced_task_nesting": anything,
    },
)


@pytest.mark.parametrize("stamp", [FULL, LEAN])
def test_a_stamp_is_read_as_it_was_written(stamp):
    assert headers.read(stamp.as_header()) == stamp


def test_the_names_on_the_wire_stay_as_they_are():
    assert FULL.as_header() == {
        "v": 1,
        "s": "s1",
        "t": "t1",
        "c": "c1",
        "p": "p1",
        "f": 1_700_000_000_000_000,
        "a": 1_700_000_000_000_001,
        "k": "order:5",
        "h": "b1:abc",
    }


def test_fields_without_a_value_take_no_room():
    assert LEAN.as_header() == {"v": 1, "s": "s1", "t": "t1", "c": "t1"}


def test_fields_of_a_newer_version_are_carried_on():
    newer = {**FULL.as_header(), "v": 9, "z": {"deep": [1]}}

    carried = headers.read(newer).as_header()

    assert carried["z"] == {"deep": [1]}
    assert carried["s"] == "s1"


def test_a_stamp_without_correlation_correlates_with_itself():
    assert headers.read({"s": "s1", "t": "t1"}).correlation_id == "t1"


@pytest.mark.parametrize(
    "table",
    [None, "text", 5, [], {}, {"s": "s1"}, {"t": "t1"}, {"s": 1, "t": "t1"}, {"s": "", "t": "t1"}, {"s": "s", "t": []}],
)
def test_a_table_that_is_not_ours_is_not_read(table):
    assert headers.read(table) is None


@pytest.mark.parametrize("submission", ["x" * 201, "nul\x00", "surrogate\ud800", "line\nbreak", "größe"])
def test_a_submission_that_no_publisher_of_ours_mints_is_not_read(submission):
    assert headers.read({"s": submission, "t": "t1"}) is None


@pytest.mark.parametrize(
    ("field", "name", "value"),
    [
        ("a", "published_at", "yesterday"),
        ("a", "published_at", 1.5),
        ("a", "published_at", -5),
        ("a", "published_at", 10**40),
        ("f", "first_request_at", True),
        ("k", "key", 5),
        ("k", "key", ["order"]),
        ("h", "fingerprint", {}),
        ("p", "causation_id", 5),
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_left_out(field, name, value):
    assert getattr(headers.read({**FULL.as_header(), field: value}), name) is None


@settings(max_examples=50, deadline=None)
@given(anything | ours)
def test_no_table_raises(table):
    stamp = headers.read(table)

    assert stamp is None or headers.read(stamp.as_header()) == stamp


@settings(max_examples=50, deadline=None)
@given(fields_of_celery)
def test_no_message_raises(fields):
    stamp = headers.identify("shop.pay", fields)

    assert stamp.submission
    assert headers.generation_of(fields) >= 0


def test_the_stamp_is_found_on_the_upper_level():
    assert headers.find({HEADER: FULL.as_header(), "headers": {"tenant": "x"}}) == FULL


def test_the_stamp_is_found_in_the_nested_table():
    assert headers.find({"headers": {HEADER: FULL.as_header()}}) == FULL


@pytest.mark.parametrize("nested", [None, "text", [], {}])
def test_a_message_without_a_stamp_has_none(nested):
    assert headers.find({"id": "x", "headers": nested}) is None


def test_a_stamp_is_written_on_both_levels_where_both_exist():
    table = {"id": "x", "headers": {"tenant": "x"}}

    headers.write(table, FULL)

    assert table[HEADER] == table["headers"][HEADER] == FULL.as_header()


def test_a_nested_table_is_not_made_where_there_is_none():
    table = {"id": "x"}

    headers.write(table, FULL)

    assert table == {"id": "x", HEADER: FULL.as_header()}


def test_a_message_without_a_stamp_is_named_by_what_celery_keeps_over_retries():
    first = headers.identify("shop.pay", {"id": "x", "retries": 0, "root_id": "r"})
    retry = headers.identify("shop.pay", {"id": "x", "retries": 1, "root_id": "r"})

    assert first == retry
    assert first.correlation_id == "r"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("shop.ship", {"id": "x"}),
        ("shop.pay", {"id": "y"}),
        ("shop.pay", {"id": "x", "replaced_task_nesting": 1}),
    ],
)
def test_another_task_or_id_or_a_replacement_is_another_submission(name, fields):
    assert headers.identify(name, fields).submission != headers.identify("shop.pay", {"id": "x"}).submission


def test_generations_rise_with_retries_and_a_replacement_comes_after_all_of_them():
    steps = [
        {"id": "x"},
        {"retries": 1},
        {"retries": 500_000},
        {"retries": 10**9},
        {"replaced_task_nesting": 1},
        {"replaced_task_nesting": 1, "retries": 1},
        {"replaced_task_nesting": 2},
    ]

    generations = [headers.generation_of(fields) for fields in steps]

    assert generations == sorted(set(generations))
