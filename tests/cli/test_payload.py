"""Stored messages are looked at, and never run."""

from __future__ import annotations

import pickle

import pytest

from celery_replay.cli.payload import decoded, payload
from celery_replay.payloads import NOT_JSON
from celery_replay.runtime import runtime_of
from celery_replay.serialization import pack
from tests.cli.conftest import kept

DEEP = b"[" * 5000 + b"]" * 5000
NESTED = b"[[" + b"[" * 150 + b"]" * 150 + b"], {}, {}]"


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("it was unpickled",)


@pytest.fixture
def runtime(shop):
    return runtime_of(shop.app)


def test_a_pickle_is_described_and_not_opened(runtime):
    body = pickle.dumps(Bomb())
    shown = payload(runtime, "shop.ship", kept(body, "application/x-python-serialize"))
    assert shown is not None
    assert (shown["content_type"], shown["bytes"]) == ("application/x-python-serialize", len(body))
    assert shown["unreadable"] == NOT_JSON


@pytest.mark.parametrize("body", [b"no json", b"{}", b"[]", b"5", b"\xff", DEEP, NESTED, b"[" + b"9" * 5000 + b"]"])
def test_a_body_that_celery_did_not_write_is_unreadable(runtime, body):
    shown = payload(runtime, "shop.ship", kept(body))
    assert shown is not None
    assert "arguments" not in shown
    assert shown["unreadable"]


@pytest.mark.parametrize("message", [b"a.0", b"j[]", b"j5", b"zzz", b"j{}", pack({"body": 5}), kept(b"", headers=5)])
def test_what_is_no_kept_message_is_unreadable(runtime, message):
    shown = payload(runtime, "shop.ship", message)
    assert shown is not None
    assert (shown["content_type"], shown["bytes"]) == (None, len(message))


def test_no_message_is_none(runtime):
    assert payload(runtime, "shop.ship", b"") is None


def test_arguments_of_a_task_that_is_not_known_here_are_shown_as_they_came(runtime):
    shown = payload(runtime, "shop.gone", kept(b'[[1], {"a": 2}, {}]'))
    assert shown is not None
    assert shown["arguments"] == {"args": [1], "kwargs": {"a": 2}}


def test_stored_text_that_is_no_json_is_shown_as_text():
    assert (decoded(None), decoded("no"), decoded('{"a": 1}')) == (None, "no", {"a": 1})
