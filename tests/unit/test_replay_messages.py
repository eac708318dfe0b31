"""A replay's message, made of what was kept: judged by what a worker would see; and hostile things that were kept."""

from __future__ import annotations

import base64
import contextlib
import inspect
import pickle
import types
from datetime import datetime, timezone
from decimal import Decimal

import pytest
from celery import signature
from celery.app.task import Context
from hypothesis import given
from hypothesis import strategies as st
from kombu import serialization as codecs

from celery_replay import dead_letters, headers, parking
from celery_replay.headers import Stamp
from celery_replay.policy import parameters_of
from celery_replay.replay import message as messages
from celery_replay.replay.binding import compare
from celery_replay.replay.message import PayloadUnreadable
from celery_replay.serialization import pack, unpack

STAMP = Stamp(submission="new", trace_id="t", correlation_id="c", original="old", accepts_unknown=1)
TASK = {"parameters": [["order_id", "POSITIONAL_OR_KEYWORD", False]], "protection": "step"}


def kept(args=(5,), kwargs=None, serializer="json", **fields):
    content = codecs.registry.name_to_type[serializer]
    context = Context(
        id="old-id",
        task="shop.pay",
        root_id="root",
        parent_id="parent",
        retries=3,
        expires="2020-01-01T00:00:00+00:00",
        group="g",
        group_index=2,
        reply_to="answers",
        correlation_id="old-id",
        content_type=content,
        delivery_info={"exchange": "", "routing_key": "slow"},
        properties={"expiration": "5", "app_id": "shop"},
        priority=7,
        tenant="x",
        **fields,
    )
    return parking.keep(context, args, kwargs or {}, serializer, TASK)


CANVAS = {
    "callbacks": [signature("shop.after")],
    "errbacks": [signature("shop.failed")],
    "chain": [signature("shop.next")],
    "chord": signature("shop.body"),
}


def sent(message):
    plain = unpack(message)
    body = codecs.loads(
        base64.b64decode(plain["body"]),
        plain["content_type"],
        plain["content_encoding"],
        accept={plain["content_type"]},
    )
    return plain, body


def test_a_replay_is_a_new_task_with_its_lineage_and_the_old_route():
    plain, (args, kwargs, embed) = sent(messages.compose(kept(), STAMP, "new-id"))
    assert (args, kwargs) == ([5], {})
    assert not any(embed.values())
    fields = plain["headers"]
    assert [fields[name] for name in ("id", "root_id", "parent_id", "retries", "expires", "group")] == [
        "new-id", "new-id", None, 0, None, None,
    ]  # fmt: skip
    assert (plain["routing_key"], fields["tenant"], plain["correlation_id"]) == ("slow", "x", "new-id")
    assert (plain["properties"], plain["reply_to"]) == ({"app_id": "shop"}, None)
    assert headers.find(fields) == STAMP


@pytest.mark.parametrize("serializer", ["json", "pickle"])
def test_the_canvas_is_sent_on_only_where_that_is_asked_for_and_never_the_chord(serializer):
    message = kept(serializer=serializer, **CANVAS)
    _, (_, _, bare) = sent(messages.compose(message, STAMP, "new-id"))
    _, (_, _, whole) = sent(messages.compose(message, STAMP, "new-id", with_canvas=True))
    assert not any(bare.values())
    assert [link["task"] for link in whole["callbacks"]] == ["shop.after"]
    # Without its group's id nobody counts a part for the chord that a pickled body still has.
    assert serializer == "pickle" or whole["chord"] is None


def test_a_pickled_payload_is_never_decoded():
    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("unpickled",)

    message = pack({**unpack(kept(serializer="pickle")), "body": base64.b64encode(pickle.dumps(Bomb())).decode()})
    with pytest.raises(PayloadUnreadable, match="only JSON is decoded"):
        messages.read(message)
    with pytest.raises(PayloadUnreadable):
        messages.edit(message, [], {})
    assert unpack(messages.compose(message, STAMP, "new-id"))["body"] == unpack(message)["body"]


def test_a_mended_payload_keeps_the_canvas_and_everything_else():
    message = kept(**CANVAS)
    edited = messages.edit(message, [6], {"gross": Decimal("1.10"), "at": datetime(2026, 1, 2, tzinfo=timezone.utc)})
    payload = messages.read(edited)
    assert payload.args == (6,)
    assert payload.kwargs == {"gross": Decimal("1.10"), "at": datetime(2026, 1, 2, tzinfo=timezone.utc)}
    assert payload.canvas.keys() == CANVAS.keys()
    assert {name for name, value in unpack(edited).items() if unpack(message)[name] != value} == {"body", "headers"}
    assert unpack(edited)["headers"]["argsrepr"] == "(6,)"


def test_a_payload_that_is_no_json_is_not_written():
    with pytest.raises(TypeError):
        messages.edit(kept(), [object()], {})


def test_what_a_message_says_of_its_task_is_found_again():
    assert dead_letters.declared(kept()) == TASK
    assert dead_letters.declared(b"") == dead_letters.declared(b"garbage") == dead_letters.declared(pack([1])) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
JUNK = (
    st.binary()
    | JSON.map(pack)
    | st.fixed_dictionaries(
        {"headers": st.dictionaries(st.text(), JSON) | JSON},
        optional={
            "content_type": st.just("application/json") | JSON,
            "content_encoding": st.sampled_from(["utf-8", "binary", "rot13"]) | JSON,
            "properties": JSON | st.just({}),
            "body": st.binary().map(lambda raw: base64.b64encode(raw).decode()) | JSON,
            "bare": JSON,
            "task": JSON,
        },
    ).map(pack)
)


@given(JUNK)
def test_whatever_was_kept_is_read_or_refused(message):
    for look in (messages.read, lambda m: messages.edit(m, [], {}), lambda m: messages.compose(m, STAMP, "id")):
        with contextlib.suppress(PayloadUnreadable):
            assert look(message)


def policy(function):
    return types.SimpleNamespace(signature=inspect.signature(function))


def signed(function):
    return parameters_of(inspect.signature(function))


def was(a, b=1, *rest, c=2, **more): ...
def same_but_more(a, b=1, *rest, c=2, new=3, **more): ...
def moved(b, a=1, *rest, c=2, **more): ...
def fewer(a): ...


@pytest.mark.parametrize(
    ("today", "args", "kwargs", "problem"),
    [
        (was, (1, 2), {"c": 3}, ""),
        (same_but_more, (1, 2, 3), {"c": 3, "x": 4}, ""),
        (moved, (1, 2), {}, "other values for a, b"),
        (moved, (), {"a": 1, "b": 2}, ""),
        (fewer, (1, 2), {}, "too many positional arguments"),
        (same_but_more, (1,), {"new": 4}, "other values for more, new"),
    ],
)
def test_a_payload_fits_where_each_parameter_gets_what_it_got(today, args, kwargs, problem):
    found = compare(signed(was), policy(today), args, kwargs)
    assert problem in found.problem
    assert bool(found.problem) is bool(problem)


@given(JSON)
def test_parameters_that_were_recorded_by_anybody_never_break_the_comparison(recorded):
    assert compare(recorded, policy(was), (1,), {}).now == {"a": 1}
