from __future__ import annotations

import pytest

from celery_replay.clock import SECOND
from celery_replay.states import Outcome
from tests.cli.conftest import kept
from tests.conformance.callers import claims, closes, opens, runs

T0 = "2023-11-14T22:13:20.000000Z"


def test_duplicates_of_a_key_are_one_table_that_says_which_ran(shop):
    closes(shop.store, runs(shop.store, "first", key="ship:5"))
    shop.clock.now += SECOND
    opens(shop.store, "second", key="ship:5")
    first_line, *rest = shop.types("jobs find --key ship:5").stdout.splitlines()
    assert first_line.split()[:3] == ["id", "task", "status"]
    assert [line.split()[:4] for line in rest] == [
        ["second", "shop.ship", "deduplicated", "first"],
        ["first", "shop.ship", "succeeded", "2023-11-14"],
    ]


def test_jobs_are_found_by_task_id_and_trace(shop):
    runs(shop.store, "a", task_id="t-1", trace_id="tr-1")
    assert [job["id"] for job in shop.reads("jobs find --task-id t-1")] == ["a"]
    assert [job["id"] for job in shop.reads("jobs find --trace tr-1")] == ["a"]


def test_to_find_nothing_ends_with_one(shop):
    result = shop.types("jobs find --key nothing")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "nothing found\n")


def test_to_ask_for_nothing_is_a_usage_error(shop):
    result = shop.types("jobs find")
    assert result.exit_code == 2
    assert "--key, --task-id or --trace" in result.stderr


def test_a_job_is_shown_with_its_attempts_steps_and_letter(shop):
    job = runs(shop.store, "a", task_id="t-1")
    claims(shop.store, job, "label")
    closes(shop.store, job, Outcome.FAILED)
    output = shop.types("jobs show t-1").output
    assert "status                 failed" in output
    assert "attempts that ended\n" in output
    assert "\ndead letter\n" in output


def test_a_job_in_json_has_all_that_hangs_on_it(shop):
    job = runs(shop.store, "a", task_id="t-1")
    claims(shop.store, job, "label")
    opens(shop.store, "waits")
    (shown,) = shop.reads("jobs show a")
    (waits,) = shop.reads("jobs show waits") or [None]
    assert (shown["id"], shown["task"], shown["status"], shown["started_at"]) == ("a", "shop.ship", "open", T0)
    assert [step["key"] for step in shown["steps"]] == ["label"]
    assert (shown["dead_letter"], shown["parked"], shown["payload"]) == (None, None, None)
    assert waits is None


def test_an_unknown_job_ends_with_one(shop):
    result = shop.types("jobs show", "no\x1b[31mbody")
    assert result.exit_code == 1
    assert "no job no\\x1b[31mbody in the store" in result.stderr


def test_a_payloads_secrets_are_known_by_their_parameters_names(shop):
    shop.fails("a", kept(b'[[5, "hunter2"], {}, {}]'))
    output = shop.types("jobs show a").output
    assert 'arguments     {"order_id": 5, "password": "[redacted]"}' in output
    assert "hunter2" not in output


@pytest.mark.parametrize("line", ["jobs show a", "jobs show a --json", "dlq show a", "dlq show a --json"])
def test_what_celery_writes_down_of_arguments_is_not_shown(shop, line):
    shop.fails("a", kept(b"\x80\x04.", "application/x-python-serialize"))
    assert "hunter2" not in shop.types(line).output


def test_a_return_value_is_shown_without_its_secrets(shop):
    closes(shop.store, runs(shop.store, "a"), result='{"order": 5, "api_key": "hunter2"}')
    (shown,) = shop.reads("jobs show a")
    assert shown["result"] == {"order": 5, "api_key": "[redacted]"}
