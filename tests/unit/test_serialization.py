from __future__ import annotations

import json
import math
import uuid
import zlib
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_replay.exceptions import ResultUnavailable
from celery_replay.serialization import (
    FINGERPRINT_TAG,
    _fast_json,
    canonical_json,
    digest,
    fingerprint,
    pack,
    result_json,
    result_value,
    safe_text,
    unpack,
)

PAYLOAD = {
    "order_id": 5,
    "lines": [("sku-1", 2), {"sku": "sku-2", 3: None}],
    "at": datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc),
    "day": date(2026, 3, 29),
    "total": Decimal("10.50"),
    "group": uuid.UUID("7d444840-9dc0-11d1-b245-5ffdce74fad2"),
    "name": "Zoë",
    "express": True,
}


class Hostile:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


# Fingerprints: stored for as long as keys are remembered, and compared with those of other versions.


def test_fingerprints_are_made_as_their_tag_says():
    assert FINGERPRINT_TAG == "b1", "fingerprints are made in another way: pin new values beside the old ones"
    assert fingerprint(PAYLOAD) == "b1:3cbcd06fcb583f2c6547f4b66e5edd61"
    assert fingerprint({}) == "b1:2afb9b83f9314e5d029766197f539792"


def test_canonical_data_stays_as_it_is():
    assert canonical_json(PAYLOAD) == (
        '{"at":"2026-03-29T01:30:00+00:00","day":"2026-03-29","express":true,'
        '"group":"7d444840-9dc0-11d1-b245-5ffdce74fad2","lines":[["sku-1",2],{"3":null,"sku":"sku-2"}],'
        '"name":"Zoë","order_id":5,"total":"10.50"}'
    )


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    XL = 3


class Point(NamedTuple):
    x: int
    y: float


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.floats(-1e-3, 1e-3)
    | st.text()
    | st.characters(codec="utf-16").filter(str)
    | st.sampled_from(["\ud800", "\x7f\x00\x1f", "<a b at 0xffe1>", 'a"b\\c', "-1e-5", ":1e5", Colour.RED, Size.XL])
    | st.builds(Point, st.integers(), st.floats())
    | st.dates()
    | st.datetimes()
    | st.uuids()
    | st.decimals()
    | st.binary(max_size=5)
    | st.sets(st.integers(), max_size=3),
    lambda some: (
        st.lists(some, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 20), some, max_size=4)
        | st.tuples(some, some)
    ),
    max_leaves=12,
)


@given(values)
def test_the_fast_encoder_writes_the_same_bytes_or_nothing(value):
    fast = _fast_json([value])

    assert fast is None or fast == canonical_json([value]).encode("utf-8", "surrogatepass")


def test_the_fast_encoder_is_used():
    assert _fast_json(PAYLOAD | {"lines": [5, 0.5, "ö"]}) is not None


@pytest.mark.parametrize("value", [[1e-5], {"a": -1e-7}, {5: 5}, "\ud800", 1 << 64])
def test_what_the_fast_encoder_would_write_otherwise_is_left_to_the_slow_one(value):
    assert _fast_json(value) is None


def test_digests_stay_as_they_are():
    assert digest("shop.pay", "order:5") == "7fec31cd745a2feabd83de57ccdf3230"


def test_a_digest_keeps_its_parts_apart():
    assert digest("ab", "c") != digest("a", "bc")


def test_a_lone_surrogate_has_a_digest():
    assert digest("\ud800") != digest("\ud801")


# Text that any database takes


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("nul\x00byte", "nul\\x00byte"),
        ("lone \ud800 surrogate", "lone \\ud800 surrogate"),
        ("\U0001f600 ✓", "\U0001f600 ✓"),
        (5, "5"),
        (None, "None"),
        (ValueError("nul\x00"), "nul\\x00"),
        (Hostile(), "<Hostile that can't be shown: RuntimeError>"),
    ],
)
def test_text_is_made_safe(value, shown):
    assert safe_text(value) == shown


def test_a_number_that_python_refuses_to_print_is_named():
    assert safe_text(10**5000) == "<int that can't be shown: ValueError>"


def test_ten_megabytes_are_cut_and_marked():
    text = safe_text("x" * 10_000_000)

    assert len(text) == 20_000
    assert text.endswith("x…[cut]")


def test_text_of_just_the_limit_is_kept_whole():
    assert safe_text("x" * 100, 100) == "x" * 100
    assert safe_text("x" * 101, 100) == "x" * 94 + "…[cut]"


def test_a_cut_never_leaves_what_can_not_be_encoded():
    for length in range(1, 40):
        safe_text("\ud83d\x00" * length, 20).encode()


# Packed data


@pytest.mark.parametrize(
    "data",
    [None, 0, "", [], {}, {"a": [1, 2.5, None, True, "\x00\ud800"]}, ["x" * 255], ["x" * 100_000], list(range(1000))],
)
def test_what_is_packed_is_unpacked(data):
    assert unpack(pack(data)) == data


@pytest.mark.parametrize(
    "value",
    [math.inf, -math.inf, 1e-7, 1e22, -0.0, 1 << 70, "\ud800", "\x00", "null", None, {"a": None}, {"a": [None, 1e400]}],
)
def test_what_other_encoders_refuse_or_change_is_packed_as_it_is(value):
    assert unpack(pack({"value": value})) == {"value": value}


def test_a_number_that_is_none_is_packed_as_such():
    assert math.isnan(unpack(pack({"value": math.nan}))["value"])


def test_what_is_no_json_is_packed_as_its_text():
    moment, name = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc), uuid.UUID(int=5)
    assert unpack(pack({"at": moment, "name": name, 5: b"x"})) == {"at": str(moment), "name": str(name), "5": "b'x'"}


def test_small_data_stays_readable():
    assert pack({"a": 1}) == b'j{"a":1}'


def test_large_data_is_compressed():
    assert len(pack(["x" * 100_000])) < 1_000


def test_objects_are_packed_as_text():
    assert unpack(pack({"a": Decimal("1.5"), "b": Hostile()})) == {
        "a": "1.5",
        "b": "<Hostile that can't be shown: RuntimeError>",
    }


@pytest.mark.parametrize("body", [b"", b"x", b"z", b"znot zlib", b"j", b"j{"])
def test_what_was_not_packed_here_is_an_error_and_nothing_else(body):
    with pytest.raises((ValueError, zlib.error)):
        unpack(body)


# Results


@pytest.mark.parametrize("value", [0, "", [], {}, False, None, 0.0, b"", "0", "null", [None], {"a": None}])
def test_a_falsy_result_comes_back_as_itself(value):
    copy = result_value(result_json(value))

    assert (copy, type(copy)) == (value, type(value))


@pytest.mark.parametrize(
    "value", [PAYLOAD["at"], PAYLOAD["day"], PAYLOAD["total"], PAYLOAD["group"], b"\xff", {"deep": [Decimal("1.10")]}]
)
def test_a_result_keeps_its_types(value):
    copy = result_value(result_json(value))

    assert (copy, type(copy), str(copy)) == (value, type(value), str(value))


@pytest.mark.parametrize("value", [object(), {1, 2}, {(1, 2): 3}, print, [Hostile()], ValueError("x")])
def test_a_result_that_is_not_json_has_no_encoding(value):
    assert result_json(value) is None


def test_a_result_that_refers_to_itself_has_no_encoding():
    loop: list[object] = []
    loop.append(loop)

    assert result_json(loop) is None


def test_a_result_of_a_type_that_is_unknown_here_is_a_named_error():
    text = json.dumps({"__type__": "money", "__value__": 5})

    with pytest.raises(ResultUnavailable, match="can't be decoded"):
        result_value(text)
