"""Kept messages, for reading: what is secret by its place is known by the name of its parameter."""

from __future__ import annotations

import base64
import json

import pytest
from celery import Celery

from celery_replay import ReplayTask, payloads
from celery_replay.redaction import REDACTED
from celery_replay.runtime import runtime_of
from celery_replay.serialization import pack


@pytest.fixture
def runtime():
    with Celery("shop", task_cls=ReplayTask, set_as_current=False, broker="memory://") as app:
        app.conf.replay_store = "memory://"

        @app.task(name="shop.pay", shared=False, bind=True)
        def pay(self, order_id, card_token, *tokens, note=""): ...

        yield runtime_of(app)


def kept(args=(), kwargs=None, canvas=None, **changes):
    body = json.dumps([args, kwargs or {}, canvas or {}]).encode()
    message = {
        "v": 1,
        "headers": {
            "id": "t",
            "argsrepr": "('hunter2',)",
            "headers": {"kwargsrepr": "hunter2"},
            "x-api-key": "hunter2",
        },
        "body": base64.b64encode(body).decode(),
        "content_type": "application/json",
        "exchange": "",
        "routing_key": "celery",
        "properties": {"priority": 3},
    }
    return pack({**message, **changes})


def call(*args, immutable=False, **kwargs):
    return {"task": "shop.pay", "args": args, "kwargs": kwargs, "options": {}, "immutable": immutable}


@pytest.mark.parametrize(
    ("args", "kwargs", "shown"),
    [
        ([5, "hunter2"], {}, {"order_id": 5, "card_token": REDACTED}),
        ([5], {"card_token": "hunter2", "note": "n"}, {"order_id": 5, "card_token": REDACTED, "note": "n"}),
        ([5, "hunter2", "hunter2"], {}, {"order_id": 5, "card_token": REDACTED, "tokens": REDACTED}),
        ([5, "hunter2"], {"card_token": "hunter2"}, {"order_id": 5, "card_token": REDACTED, "**card_token": REDACTED}),
    ],
)
def test_arguments_are_shown_by_their_names_also_where_they_do_not_fit(runtime, args, kwargs, shown):
    assert payloads.message(kept(args, kwargs), "shop.pay", runtime).arguments == shown


@pytest.mark.parametrize("known", [True, False])
def test_a_message_that_says_what_its_parameters_were_needs_no_task(runtime, known):
    task = {"parameters": [["pin", "POSITIONAL_OR_KEYWORD", False], ["n", "POSITIONAL_OR_KEYWORD", True]]}
    message = kept(["hunter2", 5], task=task)

    assert payloads.message(message, "shop.pay", runtime if known else None).arguments == {"pin": REDACTED, "n": 5}


def test_a_mended_message_has_the_names_of_today(runtime):
    message = kept(["x", "hunter2"], task={"parameters": [["a", "POSITIONAL_OR_KEYWORD", False]]})

    read = payloads.message(message, "shop.pay", runtime, mended=True)
    assert read.arguments == {"order_id": "x", "card_token": REDACTED}
    assert payloads.message(message, "shop.pay", None, mended=True).arguments == {"a": "x", "*args": ["hunter2"]}


def test_arguments_without_names_are_shown_as_they_came(runtime):
    assert payloads.message(kept([5], {"note": "n"}), "shop.gone", runtime).arguments == {
        "args": [5],
        "kwargs": {"note": "n"},
    }


def test_headers_that_repeat_the_arguments_as_text_are_left_out(runtime):
    read = payloads.message(kept(), "shop.pay", runtime)

    assert read.headers == {"id": "t", "headers": {}, "x-api-key": REDACTED}
    assert read.route == {"exchange": "", "routing_key": "celery", "priority": None, "properties": {"priority": 3}}


def test_calls_of_the_canvas_are_known_by_their_parameters_too(runtime):
    canvas = {"callbacks": [call(5, "hunter2", immutable=True)], "chain": None, "chord": call(note="n", card_token="x")}
    read = payloads.message(kept(canvas=canvas), "shop.pay", runtime)

    assert read.canvas["callbacks"][0]["arguments"] == {"order_id": 5, "card_token": REDACTED}
    assert read.canvas["chord"]["kwargs"] == {"note": "n", "card_token": REDACTED}
    assert "chain" not in read.canvas


@pytest.mark.parametrize("embedded", ["callbacks", "errbacks", "chain"])
def test_a_secret_that_comes_behind_what_celery_puts_before_it_is_redacted(runtime, embedded):
    read = payloads.message(kept(canvas={embedded: [call("hunter2")]}), "shop.pay", runtime)

    assert "hunter2" not in str(read.canvas)


def test_a_call_among_the_arguments_is_a_call_too(runtime):
    read = payloads.message(kept([{"tasks": [call(5, "hunter2", immutable=True)]}]), "shop.group", runtime)

    assert "hunter2" not in str(read.arguments)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"what", payloads.NOT_OURS),
        (b"z\x00", payloads.NOT_OURS),
        (pack([]), payloads.NOT_OURS),
        (kept(headers=5), payloads.NOT_OURS),
        (kept(content_type="application/x-python-serialize"), payloads.NOT_JSON),
        (kept(body=base64.b64encode(b"{}").decode()), payloads.NOT_CELERYS),
        (kept(body=base64.b64encode(b"[" * 500).decode()), payloads.NOT_CELERYS),
        (kept(task={"parameters": 5}), payloads.NOT_CELERYS),
        (kept(task=5), payloads.NOT_CELERYS),
        (kept(["x" * 2_000]), payloads.TOO_LARGE),
    ],
)
def test_what_can_not_be_read_says_why(runtime, message, why):
    read = payloads.message(message, "shop.pay", runtime, most=1_000)

    assert (read.unreadable, read.arguments) == (why, {})


def test_a_value_is_read_redacted_and_only_json_is():
    assert payloads.value('{"n": 12345678901234567890, "token": "x"}') == {"n": 12345678901234567890, "token": REDACTED}
    with pytest.raises(ValueError, match="Expecting value"):
        payloads.value("no json")
