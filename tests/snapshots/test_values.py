from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_replay.exceptions import SnapshotUnreadable
from celery_replay.snapshots.values import Opaque, decoded, encoded

EAST = timezone(timedelta(hours=5, minutes=45))
KEYS = st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.decimals(allow_nan=False))
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.datetimes(),
    st.datetimes(timezones=st.just(timezone.utc)),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.uuids(),
)
HASHABLE = st.one_of(st.text(), st.integers(), st.uuids())
VALUES = st.recursive(
    ATOMS | st.frozensets(HASHABLE).map(set),
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(KEYS, inner), st.dictionaries(st.just("$"), inner)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_comes_back_with_its_type(value):
    found = decoded(encoded(value))
    assert found == value
    assert type(found) is type(value)


@given(VALUES)
def test_the_bytes_are_plain_json_and_the_same_again(value):
    body = encoded(value)
    assert b"\n" not in body
    assert encoded(decoded(body)) == body
    json.loads(body.decode("utf-8", "surrogatepass"), parse_constant=pytest.fail)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_has_not_come_back(value):
    assert repr(decoded(encoded([value]))) == repr([value])


def test_the_order_of_keys_and_members_does_not_count():
    assert encoded({"a": 1, "b": {3, 1, 2}}) == encoded({"b": {2, 3, 1}, "a": 1})


def test_the_same_instant_is_the_same_value():
    here = datetime(2026, 3, 29, 17, 45, tzinfo=EAST)
    assert encoded(here) == encoded(datetime(2026, 3, 29, 12, tzinfo=timezone.utc))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True), (1, "1"), (1, 1.0), (Decimal("1.20"), "1.20"), (b"a", "a"), ((1,), [1]), (None, ""),
        (date(2026, 1, 1), "2026-01-01"),
    ],
    ids=repr,
)  # fmt: skip
def test_values_of_different_types_differ(one, other):
    assert encoded(one) != encoded(other)


class Size(IntEnum):
    LARGE = 3


class Colour(Enum):
    RED = "red"


class Text(str):
    __slots__ = ()

    def __str__(self):
        return "another one"


def test_a_subclass_is_what_it_is_a_subclass_of():
    assert encoded([Size.LARGE, Colour.RED, Text("as it is")]) == encoded([3, "red", "as it is"])


class Hostile:
    def __str__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [object(), Hostile()])
def test_what_has_no_known_type_is_a_text_that_says_so(value):
    assert type(decoded(encoded(value))) is Opaque


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xff", b"{", b'{"$": "eval", "v": "1"}', b'{"$": "decimal", "v": "x"}', b'{"$": "uuid"}', b'{"$": []}',
        b'{"$": "timedelta", "v": [1e999]}', b'{"$": "datetime", "v": 1}',
        b'{"$": "dict", "v": [[{"$": "set", "v": []}, 1]]}',
        b"[" * 100_000, b'{"$": "bytes", "v": "a"}', b'{"$": "set", "v": [[]]}',
    ],
    ids=lambda body: repr(body[:40]),
)  # fmt: skip
def test_what_is_damaged_is_refused(body):
    with pytest.raises(SnapshotUnreadable):
        decoded(body)


def test_examples_of_every_type_are_as_they_always_were():
    """What was stored stays readable, and equal to what is stored now."""
    values = [
        True, 3, 1.5, "é", Decimal("1.20"), datetime(2026, 3, 29, 12, tzinfo=timezone.utc), date(2026, 3, 29),
        time(12, 30),
        timedelta(days=1, seconds=2), UUID(int=7), b"\x00", (1,), {1}, {1: 2}, {"$": 1},
    ]  # fmt: skip
    assert json.loads(encoded(values)) == [
        True, 3, 1.5, "é", {"$": "decimal", "v": "1.20"}, {"$": "datetime", "v": "2026-03-29T12:00:00+00:00"},
        {"$": "date", "v": "2026-03-29"}, {"$": "time", "v": "12:30:00"}, {"$": "timedelta", "v": [1, 2, 0]},
        {"$": "uuid", "v": "00000000000000000000000000000007"}, {"$": "bytes", "v": "AA=="}, {"$": "tuple", "v": [1]},
        {"$": "set", "v": [1]}, {"$": "dict", "v": [[1, 2]]}, {"$": "dict", "v": [["$", 1]]},
    ]  # fmt: skip
