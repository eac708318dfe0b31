from __future__ import annotations

import pytest

from celery_replay.clock import SECOND
from celery_replay.states import Reason
from tests.cli.conftest import kept
from tests.conformance.callers import closes, runs


def test_letters_are_listed_newest_first(shop):
    shop.fails("old")
    shop.clock.now += SECOND
    shop.fails("new")
    title, *rest = shop.types("dlq list").stdout.splitlines()
    assert title.split()[:5] == ["id", "task", "state", "reason", "error"]
    assert [line.split()[:4] for line in rest] == [
        ["new", "shop.ship", "open", "exception"],
        ["old", "shop.ship", "open", "exception"],
    ]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ("--task shop.ship", ["b", "a"]),
        ("--task shop.pay", []),
        ("--reason rejected", ["b"]),
        ("--error Timeout", ["b"]),
        ("--state open", ["b", "a"]),
        ("--state resolved", []),
        ("--since 2023-11-14T22:13:21Z", ["b"]),
        ("--before 2023-11-14T22:13:21+00:00", ["a"]),
        ("--limit 1", ["b"]),
        ("--since 30m", []),
    ],
)
def test_letters_are_filtered(shop, filters, found):
    shop.fails("a")
    shop.clock.now += SECOND
    shop.fails("b", type="ReadTimeout", reason=Reason.REJECTED)
    assert [letter["id"] for letter in shop.reads(f"dlq list {filters}")] == found
    assert shop.types(f"dlq list {filters}").exit_code == (0 if found else 1)


def test_a_page_tells_how_to_get_the_next_one(shop):
    for name in "abc":
        shop.fails(name)
    result = shop.types("dlq list --limit 2")
    hint = result.stderr.strip().removeprefix("more: add ")
    assert hint == "--before 2023-11-14T22:13:20.000000Z/b"
    last = shop.types(f"dlq list --limit 2 {hint}")
    assert [line.split()[0] for line in last.stdout.splitlines()[1:]] == ["a"]
    assert last.stderr == ""


@pytest.mark.parametrize("wrong", ["--state shut", "--reason none", "--since noon", "--before x/y", "--limit 0"])
def test_a_wrong_value_is_a_usage_error(shop, wrong):
    result = shop.types(f"dlq list {wrong}")
    assert result.exit_code == 2
    assert "Invalid value for" in result.stderr


def test_a_letter_is_shown_with_its_evidence(shop):
    shop.fails("a", kept(b'[[], {"order_id": 5, "password": "hunter2"}, {}]'), traceback="Traceback:\n  boom\n")
    output = shop.types("dlq show a").output
    assert "error type      builtins.ValueError" in output
    assert "traceback       Traceback:\n                  boom\n" in output
    assert '{"order_id": 5, "password": "[redacted]"}' in output
    assert "its trace: replay trace show a\n" in output
    assert "attempts that ended\n" in output


def test_a_letter_in_json_has_the_documented_fields(shop):
    shop.fails("a", kept(b"[[5], {}, {}]"), traceback="boom")
    (shown,) = shop.reads("dlq show task")
    assert (shown["id"], shown["reason"], shown["traceback"]) == ("a", "exception", "boom")
    assert shown["payload"]["arguments"] == {"order_id": 5, "password": "[redacted]"}
    assert [attempt["outcome"] for attempt in shown["attempts_ended"]] == ["failed"]


def test_a_job_without_a_letter_and_an_unknown_one_end_with_one(shop):
    closes(shop.store, runs(shop.store, "well"))
    result = shop.types("dlq show well")
    assert (result.exit_code, result.stderr) == (1, "job well has no dead letter\n")
    assert shop.types("dlq show nobody").exit_code == 1
