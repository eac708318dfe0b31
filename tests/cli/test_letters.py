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
        ("--effect unknown", ["b", "a"]),
        ("--effect absent", []),
        ("--operation nothing", []),
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


@pytest.mark.parametrize(
    "wrong", ["--state shut", "--reason none", "--effect some", "--since noon", "--before x/y", "--limit 0"]
)
def test_a_wrong_value_is_a_usage_error(shop, wrong):
    result = shop.types(f"dlq list {wrong}")
    assert result.exit_code == 2
    assert "Invalid value for" in result.stderr


def test_a_letter_is_shown_with_all_that_is_known(shop):
    shop.fails("a", kept(b'[[], {"order_id": 5, "password": "hunter2"}, {}]'), traceback="Traceback:\n  boom\n")
    output = shop.types("dlq show a").output
    assert "error type      builtins.ValueError" in output
    assert "traceback       Traceback:\n                  boom\n" in output
    assert '{"order_id": 5, "password": "[redacted]"}' in output
    assert "its trace: replay trace show a\n" in output
    assert "attempts that ended\n" in output


def test_a_letter_answers_whether_a_replay_is_safe_whether_it_must_be_mended_and_what_is_half_done(shop):
    shop.fails("a", kept(b"[[5], {}, {}]"))
    output = shop.types("dlq show a").output
    assert "safe to replay        no\n" in output
    assert "payload to be mended  no sign of it\n" in output
    assert "half done             nothing that is known of\n" in output
    assert "replay                left_out (effect_unknown): the task declares no side effects" in output


def test_of_a_letter_that_is_settled_nothing_is_asked(shop):
    shop.fails("a", kept(b"[[5], {}, {}]"))
    shop.types("dlq discard a --actor ann --because moved")
    output = shop.types("dlq show a").output
    assert "nothing is to be decided: it is discarded\n" in output
    assert "half done" not in output


def test_a_mended_payload_is_shown_beside_the_original(shop):
    shop.fails("a", kept(b"[[5], {}, {}]"))
    shop.types("dlq edit a --set order_id=7 --actor ann --because typo")
    (shown,) = shop.reads("dlq show a")
    assert (shown["payload"]["arguments"]["order_id"], shown["mended_payload"]["arguments"]["order_id"]) == (5, 7)
    assert [(entry["verb"], entry["actor"], entry["said"]) for entry in shown["history"]] == [("edited", "ann", "typo")]
    assert "mended payload" in shop.types("dlq show a").stdout


@pytest.mark.parametrize("as_json", ["", " --json"])
def test_a_payload_is_revealed_to_whoever_says_why_and_the_history_tells_of_it(shop, as_json):
    shop.fails("a", kept(b'[[5], {"password": "hunter2 \\u001b[31m"}, {}]'), message="password=hunter2")
    refused = shop.types(f"dlq show a --reveal{as_json}")
    assert (refused.exit_code, "hunter2" in refused.output) == (2, False)
    shown = shop.types(f"dlq show a --reveal --actor ann{as_json} --because", "case 7").stdout
    assert shown.count("hunter2") == 1
    assert "\x1b" not in shown
    (entry,) = shop.store.history(submission="a")
    assert (entry.verb, entry.actor, entry.text) == ("revealed", "ann", "case 7")
    assert "revealed" in shown


def test_what_can_not_be_revealed_leaves_no_entry(shop):
    shop.fails("a", kept(b"\x80\x04", "application/x-python-serialize"))
    assert "only JSON" in shop.types("dlq show a --reveal --because x").stderr
    assert list(shop.store.history(submission="a")) == []


def test_a_letter_in_json_has_the_documented_fields(shop):
    shop.fails("a", kept(b"[[5], {}, {}]"), traceback="boom")
    (shown,) = shop.reads("dlq show task")
    assert (shown["id"], shown["reason"], shown["traceback"]) == ("a", "exception", "boom")
    assert shown["payload"]["arguments"] == {"order_id": 5}
    assert [attempt["outcome"] for attempt in shown["attempts_ended"]] == ["failed"]


def test_a_job_without_a_letter_and_an_unknown_one_end_with_one(shop):
    closes(shop.store, runs(shop.store, "well"))
    result = shop.types("dlq show well")
    assert (result.exit_code, result.stderr) == (1, "job well has no dead letter\n")
    assert shop.types("dlq show nobody").exit_code == 1
