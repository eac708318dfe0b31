"""A payload is mended without its secrets being seen, and without one of them getting lost or elsewhere."""

from __future__ import annotations

import base64
import datetime
import json
import uuid
from typing import Any

import pytest

from celery_replay.replay import message as messages
from celery_replay.replay.fitting import PayloadUnfit
from celery_replay.replay.mending import meant, plain, readable
from celery_replay.serialization import pack

R = "[redacted]"


def kept(args: list[Any], kwargs: dict[str, Any], *names: str) -> bytes:
    """Build a kept message whose task has these parameters."""
    embedded = {"callbacks": None, "errbacks": None, "chain": [{"task": "next"}], "chord": None}
    body = base64.b64encode(json.dumps([args, kwargs, embedded]).encode()).decode()
    parameters = [[name, "POSITIONAL_OR_KEYWORD", False] for name in names]
    return pack(
        {
            "v": 1,
            "task": {"parameters": parameters},
            "headers": {"task": "shop.ship"},
            "body": body,
            "content_type": "application/json",
            "content_encoding": "utf-8",
            "properties": {},
        }
    )


def mended(message: bytes, args: Any, kwargs: Any) -> tuple[Any, Any]:
    after = plain(messages.edit(message, *meant(message, json.dumps(args), json.dumps(kwargs))))
    return after.args, after.kwargs


def test_what_is_shown_has_no_secrets() -> None:
    form = readable(kept([7, "4242"], {"api_key": "sk-1", "note": "x"}, "order", "card_token"))
    assert (form.args, form.kwargs) == ([7, R], {"api_key": R, "note": "x"})


def test_secrets_that_are_left_as_they_were_stay_what_they_are() -> None:
    message = kept([7, "4242"], {"login": {"password": "hunter2", "user": "ann"}}, "order", "card_token")
    assert mended(message, [8, R], {"login": {"password": R, "user": "bob"}}) == (
        [8, "4242"],
        {"login": {"password": "hunter2", "user": "bob"}},
    )


def test_a_secret_is_replaced_by_what_is_written_for_it() -> None:
    assert mended(kept([], {"token": "old"}), [], {"token": "new"}) == ([], {"token": "new"})


def test_a_secret_goes_with_its_argument_from_its_position_to_its_name() -> None:
    assert mended(kept(["4242", 7], {}, "card_token", "order"), [], {"order": 7, "card_token": R}) == (
        [],
        {"order": 7, "card_token": "4242"},
    )


CARDS = [{"token": "t1", "id": 1}, {"token": "t2", "id": 2}, {"token": "t3", "id": 3}]


def shown(*cards: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**card, "token": R} for card in cards]


def test_secrets_stay_with_their_items_when_a_list_is_ordered_anew_or_gets_shorter() -> None:
    message = kept([CARDS], {})
    first, second, third = CARDS
    for wanted in ([third, first, second], [second], [first, third], [second, first]):
        assert mended(message, [shown(*wanted)], {})[0] == [wanted]


def test_an_item_that_is_changed_in_its_place_keeps_its_secret() -> None:
    items = shown(*CARDS)
    items[1]["id"] = 22
    assert mended(kept([CARDS], {}), [items], {})[0] == [[CARDS[0], {"token": "t2", "id": 22}, CARDS[2]]]


@pytest.mark.parametrize(
    "items",
    [
        [{"token": R, "id": 9}],
        [{"token": R, "id": 2}, {"token": R, "id": 11}, {"token": R, "id": 3}],
        [*shown(*CARDS), {"token": R, "id": 4}],
    ],
)
def test_a_secret_that_could_be_anothers_is_not_guessed(items: list[Any]) -> None:
    with pytest.raises(PayloadUnfit, match="leave it where it was"):
        mended(kept([CARDS], {}), [items], {})


def test_equal_items_with_different_secrets_are_not_told_apart_when_one_goes() -> None:
    message = kept([[{"token": "a"}, {"token": "b"}]], {})
    assert mended(message, [[{"token": R}, {"token": R}]], {})[0] == [[{"token": "a"}, {"token": "b"}]]
    with pytest.raises(PayloadUnfit):
        mended(message, [[{"token": R}]], {})


def test_a_redacted_value_can_not_be_written_elsewhere() -> None:
    for args, kwargs in (([R], {"token": R}), ([], {"other": R}), ([], {"token": R, R: 1}), ([], {"token": f"x{R}"})):
        with pytest.raises(PayloadUnfit):
            mended(kept([], {"token": "t"}), args, kwargs)


def test_numbers_are_not_taken_for_truths() -> None:
    assert mended(kept([1, True, 1], {}), [True, 1, 1.0], {}) == ([True, 1, 1.0], {})
    assert [type(value) for value in mended(kept([1], {}), [1.0], {})[0]] == [float]


def test_large_numbers_survive() -> None:
    assert mended(kept([2**70, 0.1], {}), [2**70, 0.2], {})[0] == [2**70, 0.2]


def test_dates_and_ids_of_celerys_json_survive() -> None:
    when, name = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc), uuid.uuid4()
    message = messages.edit(kept([], {}), [when, name], {})
    form = readable(message)
    args, _ = meant(message, json.dumps(form.args), '{"more": 1}')
    assert args == [when, name]


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ("[1", "{}", "args is no JSON"),
        ("{}", "{}", "args must be a JSON list"),
        ("[]", "[]", "kwargs must be a JSON object"),
        ("[NaN]", "{}", "NaN is no number of JSON"),
        ("[]", '{"a": 1, "a": 2}', '"a" stands there twice'),
        ("[" * 100_000 + "]" * 100_000, "{}", "nested too deeply"),
        ("", "{}", "args is no JSON"),
    ],
)
def test_what_is_no_payload_is_refused_with_the_reason(args: str, kwargs: str, said: str) -> None:
    with pytest.raises(PayloadUnfit, match=said):
        meant(kept([], {}), args, kwargs)


def test_a_payload_that_is_not_json_is_not_opened() -> None:
    message = pack({"headers": {}, "properties": {}, "body": "", "content_type": "application/x-python-serialize"})
    for work in (readable, lambda kept: meant(kept, "[]", "{}")):
        with pytest.raises(messages.PayloadUnreadable, match="only JSON"):
            work(message)
