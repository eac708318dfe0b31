"""Publisher and worker compute a key and a fingerprint each: both have to agree, whatever lies between them."""

from __future__ import annotations

import inspect
import uuid
from datetime import date, datetime, time, timezone
from decimal import Decimal
from enum import Enum
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kombu.utils import json as wire

from celery_replay.exceptions import ConfigurationError
from celery_replay.policy import TaskPolicy, _defaults, _key_function
from celery_replay.serialization import canonical_json, fingerprint


class Colour(str, Enum):
    RED = "red"


CHANGED_BY_JSON = {
    "int keys": {1: 2, 10: 3},
    "tuple": (1, 2),
    "nested": {"a": [{"b": (1, {2: None})}]},
    "uuid": uuid.UUID("7d444840-9dc0-11d1-b245-5ffdce74fad2"),
    "decimal": Decimal("1.10"),
    "date": date(2026, 3, 29),
    "time": time(1, 30),
    "aware datetime": datetime(2026, 3, 29, 1, 30, 0, 120, tzinfo=timezone.utc),
    "datetime of a zone": datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    "naive datetime": datetime(2026, 3, 29, 1, 30),  # noqa: DTZ001 - users do
    "enum of text": Colour.RED,
    "bytes": b"\xff\x00",
    "bool and None keys": {True: 1, None: 2},
    "float": 0.1,
    "big": 10**30,
    "empty": {},
    "text": "naïve ✓ \x00",
}

few_examples = settings(max_examples=50, deadline=None)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.uuids() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=10,
)


def pay(order_id, currency="EUR", *notes, group=None, **more):
    return order_id


def policy_for(key, function=pay):
    signature = inspect.signature(function)
    return TaskPolicy(
        operation="shop.pay",
        signature=signature,
        key=_key_function("shop.pay", key, signature),
        defaults=_defaults(signature),
        lease_us=1,
        keep_us=1,
    )


def over_the_wire(value):
    return wire.loads(wire.dumps(value))


def every_value(test):
    return pytest.mark.parametrize("value", CHANGED_BY_JSON.values(), ids=CHANGED_BY_JSON)(test)


@every_value
def test_a_fingerprint_is_the_same_before_and_after_the_wire(value):
    assert fingerprint({"order": value}) == fingerprint(over_the_wire({"order": value}))


@every_value
@pytest.mark.parametrize("template", ["pay:{order_id}", "{order_id}", "{order_id!s:.200}"])
def test_a_key_is_the_same_before_and_after_the_wire(value, template):
    policy = policy_for(template)

    assert policy.identify((value,), {}) == policy.identify(over_the_wire((value,)), {})


@few_examples
@given(json_like)
def test_any_payload_has_one_fingerprint_on_both_sides(value):
    assert fingerprint(value) == fingerprint(over_the_wire(value))


@few_examples
@given(st.dictionaries(st.text(max_size=5), st.integers() | st.lists(st.integers()), min_size=2, max_size=8))
def test_the_order_of_a_mapping_does_not_matter(mapping):
    assert fingerprint(dict(reversed(mapping.items()))) == fingerprint(mapping)


def fingerprint_of(run, *args, **kwargs):
    return policy_for("{order_id}", run).identify(args, kwargs)[1]


def test_a_parameter_that_is_added_with_a_default_makes_no_other_payload():
    before = fingerprint_of(lambda order_id: None, 5)

    assert fingerprint_of(lambda order_id, express=False: None, 5) == before
    assert fingerprint_of(lambda order_id, express=False: None, 5, express=False) == before
    assert fingerprint_of(lambda order_id, *lines, note=None, **more: None, 5) == before
    assert fingerprint_of(lambda order_id, express=False: None, 5, express=True) != before
    assert fingerprint_of(lambda order_id, express=False: None, 5, 0) != before
    assert fingerprint_of(lambda order_id, *lines: None, 5, 1) != before


@pytest.mark.parametrize("default", [(), (1, 2), {"a": (1,)}, Decimal("1.5"), 0.1, "x", None, Colour.RED], ids=repr)
def test_a_default_that_is_passed_is_the_default_before_and_after_the_wire(default):
    def pay(order_id, option=default): ...

    assert {
        fingerprint_of(pay, 5),
        fingerprint_of(pay, 5, default),
        fingerprint_of(pay, 5, over_the_wire(default)),
    } == {fingerprint_of(lambda order_id: None, 5)}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((5, "EUR"), {}),
        ((5,), {}),
        ((5,), {"currency": "EUR"}),
        ((), {"order_id": 5}),
        ((), {"currency": "EUR", "order_id": 5}),
        ((), {"group": None, "order_id": 5}),
        ([5], {}),
    ],
)
def test_however_arguments_are_passed_key_and_fingerprint_are_the_same(args, kwargs):
    policy = policy_for("pay:{order_id}:{currency}:{group}")

    assert policy.identify(args, kwargs) == ("pay:5:EUR:null", policy.identify((5,), {})[1])


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((6,), {}), ((5, "USD"), {}), ((5,), {"group": 1}), ((5, "EUR", "note"), {}), ((5,), {"more": 1}), (("5",), {})],
)
def test_another_payload_has_another_fingerprint(args, kwargs):
    policy = policy_for("pay")

    assert policy.identify(args, kwargs)[1] != policy.identify((5,), {})[1]


@pytest.mark.parametrize(
    ("template", "argument", "key"),
    [
        ("{order_id}", 5, "5"),
        ("{order_id}", True, "true"),
        ("{order_id}", None, "null"),
        ("{order_id}", 'a"b', 'a"b'),
        ("{order_id[id]}", {"id": 5}, "5"),
        ("{order_id[0]}", [7], "7"),
        ("{order_id[lines][0][sku]}", {"lines": [{"sku": "x"}]}, "x"),
        ("{order_id.year}", date(2026, 1, 2), "2026"),
        ("{order_id:%Y-%m}", date(2026, 1, 2), "2026-01"),
        ("{order_id:>5}", 5, "    5"),
        ("{{{order_id}}}", 5, "{5}"),
        ("{more[line]}", 5, "9"),
        ("{notes[0]}", 5, "n"),
        ("fixed", 5, "fixed"),
    ],
)
def test_a_template_reaches_into_its_arguments(template, argument, key):
    assert policy_for(template).identify((argument, "EUR", "n"), {"line": 9})[0] == key


def test_a_callable_key_gets_the_arguments_by_name_with_defaults():
    seen = {}

    policy_for(lambda **arguments: seen.update(arguments) or "k").identify((5,), {"line": 9})

    assert seen == {"order_id": 5, "currency": "EUR", "notes": (), "group": None, "line": 9}


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_callable_may_say_that_a_call_has_no_key(nothing):
    policy = policy_for(lambda **_: nothing)

    key, _ = policy.identify((5,), {})

    assert (key, policy.claim(key)) == ("", None)


class Opaque:
    """Has no text of its own."""


@pytest.mark.parametrize("key", ["pay:{order_id}", "{order_id}", lambda order_id, **_: f"pay:{order_id}"])
@pytest.mark.parametrize("argument", [Opaque(), [Opaque()], {"a": Opaque()}, Opaque().__init__])
def test_a_key_from_an_objects_address_is_refused_by_name(key, argument):
    with pytest.raises(
        ConfigurationError, match=r"task shop.pay: idempotency_key gave .*Opaque.* one of its attributes"
    ):
        policy_for(key).identify((argument,), {})


def test_what_merely_looks_like_an_address_may_be_in_a_key():
    assert policy_for("pay:{order_id}").identify(("at 0x52908400098527886E0F7030069857D2E4169EE7",), {})[0]


def test_objects_without_text_of_their_own_do_not_make_a_payload_another_one():
    assert fingerprint([Opaque()]) == fingerprint([Opaque()])


def test_arguments_that_do_not_fit_have_no_key():
    assert policy_for("pay:{order_id}").identify((), {}) == ("", None)


def test_a_task_without_a_key_computes_nothing():
    assert policy_for(None).identify((5,), {}) == ("", None)


def test_a_claim_is_scoped_by_its_operation():
    ours, theirs = policy_for("k"), TaskPolicy(operation="blog.pay", signature=None, lease_us=1, keep_us=1)

    assert ours.claim("k") != theirs.claim("k")


def test_sets_are_canonical_in_any_order():
    assert canonical_json({"tags": {"b", "a", "c"}}) == '{"tags":["a","b","c"]}'
