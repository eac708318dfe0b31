"""What a task read from Django's caches is there in a dry run, and the project's caches stay as they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dry_run.test_django import ran  # noqa: F401 - a fixture

READ = [
    {"eur": {"__type__": "decimal", "__value__": "1.50"}, "of": [1, 2]},
    "by default",
    {"a": 1, "b": 2},
    True,
]


@pytest.mark.parametrize("how", [(), ("BUNDLE=1",)], ids=["from the trace", "from a file"])
def test_what_was_read_then_is_there(ran: Any, how: tuple[str, ...]) -> None:  # noqa: F811
    found = ran("read_caches", "READS=1", *how)
    assert found["ends"] == "succeeds", found
    assert found["result"][:4] == READ
    # What is secret, or no data, was not kept; it is told, and not guessed.
    assert found["result"][4:6] == [None, False]
    assert found["result"][6:] == ["anew", "anew", READ[0]]
    assert found["cache_unknown"] == [
        "[redacted] of default (found, but not kept)",
        "odd of default (found, but not kept)",
    ]
    assert not found["kept_secret"]


def test_the_trace_tells_each_read_once_with_its_key_unless_that_is_secret(ran: Any) -> None:  # noqa: F811
    assert ran("read_caches", "READS=1")["cache"] == [
        "price hit", "none miss", "a hit", "b hit", "flag hit", "[redacted] hit", "odd hit", "made miss", "made hit",
    ]  # fmt: skip


def test_a_read_of_which_nothing_is_recorded_finds_nothing_and_is_told(ran: Any) -> None:  # noqa: F811
    found = ran("read_more", "READS=1")
    assert (found["result"], found["cache_unknown"]) == ([READ[0], None], ["never asked of default"])


def test_what_the_run_writes_is_what_it_reads_and_nothing_else_is_changed(ran: Any) -> None:  # noqa: F811
    found = ran("change_caches", "READS=1")
    assert (found["ends"], found["result"]) == ("succeeds", [99, None, 3, False, 3])


def test_an_empty_cache_keeps_what_the_run_writes(ran: Any) -> None:  # noqa: F811
    found = ran("read_caches", "READS=1", 'VARY={"cache": "sandbox"}')
    assert found["result"] == [None, "by default", {}, False, None, False, "anew", "anew", None]
    assert found["cache_unknown"] == []


def test_a_cache_that_is_bypassed_never_has_anything(ran: Any) -> None:  # noqa: F811
    found = ran("read_caches", "READS=1", 'VARY={"cache": "bypass"}')
    assert found["result"] == [None, "by default", {}, False, None, False, "anew", None, None]
