"""Which rule matches, and what follows: asked of the command line."""

from __future__ import annotations

import pytest

from celery_replay import FailurePolicy, Retry, rule


def pay(order_id: int) -> None:
    """Do nothing."""


@pytest.fixture
def shop(shop):
    policy = FailurePolicy(rules=[rule("permanent", "acme.Declined")], dependency=Retry(max_attempts=8))
    shop.app.task(pay, name="shop.pay", shared=False, failures=policy)
    return shop


def test_an_error_is_explained_by_its_class(shop):
    (told,) = shop.reads("failures explain builtins.ConnectionRefusedError --task shop.pay")
    assert (told["category"], told["rule"]) == ("dependency", "network: away")
    assert (told["tried_again"], told["said"]) == (True, "attempt 1 of 8")


def test_after_its_last_attempt_it_is_not_tried_again(shop):
    (told,) = shop.reads("failures explain builtins.ConnectionRefusedError --task shop.pay --attempt 8")
    assert (told["tried_again"], told["said"]) == (False, "attempt 8 of 8")


def test_a_class_that_is_not_installed_is_explained_by_its_name(shop):
    (told,) = shop.reads("failures explain acme.Declined --task shop.pay")
    assert (told["category"], told["rule"]) == ("permanent", "acme.Declined")


@pytest.mark.parametrize("name", ["requests.exceptions.HTTPError", "httpx.HTTPStatusError", "urllib.error.HTTPError"])
def test_an_answer_over_http_is_explained_by_its_status(shop, name):
    (told,) = shop.reads(f"failures explain {name} --status 429")
    assert (told["category"], told["because"]) == ("throttled", "has HTTP status 429")


def test_a_task_that_declares_nothing_leaves_retries_to_celery(shop):
    (told,) = shop.reads("failures explain builtins.TimeoutError --task shop.ship")
    assert told["tried_again"] is False
    assert "declares no failures=" in told["said"]


def test_of_a_letter_is_told_what_was_decided_then(shop):
    shop.fails("a")
    (told,) = shop.reads("failures explain a")
    assert (told["task"], told["error"], told["category"]) == ("shop.ship", "builtins.ValueError", "unclassified")


def test_rules_are_listed_in_their_order_the_tasks_own_first(shop):
    listed = shop.reads("failures rules --task shop.pay")
    assert (listed[0]["rule"], listed[0]["of"]) == ("acme.Declined", "the task")
    assert [one["of"] for one in listed[1:]] == ["celery-replay"] * (len(listed) - 1)
    assert "HTTP status" in [one["rule"] for one in listed]


def test_what_is_no_error_is_a_usage_error(shop):
    result = shop.types("failures explain nonsense")
    assert result.exit_code == 2
    assert "neither a dead letter" in result.stderr


def test_a_task_that_is_not_there_is_named(shop):
    result = shop.types("failures rules --task no.such")
    assert (result.exit_code, result.stderr) == (1, "there is no task no.such in this project\n")
