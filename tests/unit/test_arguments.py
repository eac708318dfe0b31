"""Arguments by the names of their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Sized
from typing import Any

import pytest

from celery_replay.arguments import named, types
from celery_replay.policy import parameters_of
from celery_replay.redaction import REDACTED


def ship(order_id: int, password: str = "", *tokens: str, express: bool = False, **options: Any) -> None: ...


def charge(order_id: int, /, card_token: str) -> None: ...


def of(function: Any) -> Any:
    return parameters_of(inspect.signature(function))


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "found"),
    [
        (ship, (5,), {}, {"order_id": 5}),
        (ship, (5, "x"), {"express": True}, {"order_id": 5, "password": "x", "express": True}),
        (ship, (5, "x", "a", "b"), {"speed": 1}, {"order_id": 5, "password": "x", "tokens": ["a", "b"], "speed": 1}),
        (charge, (5, "x"), {}, {"order_id": 5, "card_token": "x"}),
        (charge, (), {"order_id": 5}, {"order_id": 5}),
        # What does not fit
        (charge, (5, "x", "y"), {}, {"order_id": 5, "card_token": "x", "*args": ["y"]}),
        (charge, (5,), {"order_id": 6, "note": "n"}, {"order_id": 5, "**order_id": 6, "note": "n"}),
        (charge, (), {}, {}),
    ],
)
def test_arguments_have_their_parameters_names_whether_or_not_they_fit(function, args, kwargs, found):
    assert named(of(function), args, kwargs) == found


def test_without_a_signature_they_are_as_they_came():
    assert named(None, (5,), {"a": 1}) == {"args": (5,), "kwargs": {"a": 1}}


def test_of_types_only_how_long_something_is_shows():
    given = {"n": 5, "note": "x" * 340, "rows": [1, 2], "raw": b"abc", "at": None, "by": {"a": 1}, "f": 1.5}

    assert types(given) == {
        "n": "int", "note": "str[340]", "rows": "list[2]", "raw": "bytes[3]", "at": "NoneType", "by": "dict[1]",
        "f": "float",
    }  # fmt: skip


def test_of_a_secret_not_even_the_length_shows():
    assert types({"password": "hunter2", "card_pin": 1234}) == {"password": REDACTED, "card_pin": REDACTED}


def test_an_object_is_not_asked_how_long_it_is():
    class Query(Sized):
        def __len__(self) -> int:
            raise AssertionError("this would ask the database")

    assert types({"orders": Query()}) == {"orders": "Query"}


def test_so_many_arguments_are_described_and_no_more():
    assert len(types({f"a{n}": n for n in range(1_000)})) == 50
