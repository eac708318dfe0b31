"""Redaction takes a time that grows with what it is given, and no faster, whatever that is."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

from celery_replay.redaction import is_secret, redact, redact_text

LARGE = 1 << 20
SMALL = LARGE // 8
MOST = 20
"""Times as long for eight times as much; a square would make it 64."""

HOSTILE: dict[str, str] = {
    "names": "token",
    "names with a value": "token=",
    "names with dashes": "token-",
    "assignments": "a=",
    "colons": "a:",
    "addresses": "://",
    "addresses with users": "://a:",
    "schemes": "basic ",
    "schemes with words": "bearer aaaaaaa ",
    "schemes with tokens": "token aaaaaaaaaaaaaaaaaaaaaa ",
    "web tokens": "eyJ",
    "parts of web tokens": "eyJaaaaaaaaa.",
    "keys": "sk-",
    "dots": "SG.aaaaaaaaaaaaaaaaaaaa",
    "open quotes": "password='",
    "escaped quotes": 'password=\\"',
    "deeper quotes": "password=\\\\\\'a",
    "pairs": "'token', \"",
    "pairs in brackets": "('token', 'x', ",
    "open brackets": "password=[",
    "open calls": "password=f(\n",
    "open tags": "password=<",
    "nested data": "'password':{'a':",
    "options": "--token ",
    "dashes": "--",
    "prose": "a token: b ",
    "headers": "cookie: a ",
    "private keys": "-----BEGIN PRIVATE KEY-----",
    "beginnings of keys": "-----BEGIN ",
    "azure": "AccountKey=",
    "capitals": "aB",
    "letters": "a",
    "equals": "=",
    "spaces": " ",
    "quotes": "'",
    "backslashes": "\\",
    "brackets": "[",
    "underscores": "_",
}


def seconds(work: Callable[[Any], object], given: Any) -> float:
    # The collector's work depends on all that the other tests left in memory.
    gc.disable()
    try:
        started = time.process_time()
        work(given)
        return time.process_time() - started
    finally:
        gc.enable()


def holds(work: Callable[[Any], object], small: Any, large: Any) -> bool:
    """Does the large one take at most so many times as long?"""
    return seconds(work, large) < MOST * min(seconds(work, small) for _ in range(3)) + 0.02


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_the_time_for_a_text_grows_as_its_length(piece: str) -> None:
    for start in ("", 'token="'):
        small, large = (start + piece * (size // len(piece)) + "=x" for size in (SMALL, LARGE))
        assert holds(redact_text, small, large)


@pytest.mark.parametrize("piece", ["token", "sig1", "aB", "_", "a-", "sess"])
def test_the_time_for_a_name_grows_as_its_length_at_most(piece: str) -> None:
    small, large = (piece * (size // len(piece)) for size in (SMALL, LARGE))

    assert holds(is_secret, small, large)
    assert holds(lambda name: redact({name: 1}), small, large)


def test_the_time_for_data_grows_as_its_size() -> None:
    def rows(count: int) -> list[dict[str, object]]:
        return [{"name": "ann", "token": f"t{n}", "pair": ["a", n]} for n in range(count)]

    assert holds(redact, rows(1_000), rows(8_000))
