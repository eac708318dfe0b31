"""What a worker's parent says of an exception that it has seen."""

from __future__ import annotations

from celery_replay.parent import described


def test_its_own_words_are_redacted_and_bounded():
    assert described(ValueError("password=hunter2 " + "x" * 1_000)) == {
        "error_type": "builtins.ValueError",
        "error": "password=[redacted] " + "x" * 274 + "…[cut]",
    }


def test_of_a_task_that_lets_nothing_be_told_only_the_type_is():
    assert described(ValueError("ann has the flu"), says=False) == {"error_type": "builtins.ValueError", "error": ""}


def test_what_is_known_of_it_otherwise_is_told_of_every_task():
    told = described(ValueError("ann has the flu"), "it ran longer than its limit", says=False)

    assert told["error"] == "it ran longer than its limit"


def test_without_an_exception_nothing_is_said():
    assert described(None) == {}
