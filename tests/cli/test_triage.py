from __future__ import annotations

import pytest

from celery_replay.states import LetterState
from tests.cli.conftest import kept


def states(shop, *names):
    return [shop.store.letter(name).state for name in names]


def history(shop, name):
    return [(entry.verb, entry.actor, entry.text) for entry in shop.store.history(submission=name)]


@pytest.fixture
def two(shop):
    for name in ("a", "b"):
        shop.fails(name, kept(b"[[5], {}, {}]"))
    return shop


@pytest.mark.parametrize(
    ("command", "verb", "state"),
    [
        ("investigate", "investigated", LetterState.INVESTIGATING),
        ("quarantine", "quarantined", LetterState.QUARANTINED),
        ("discard", "discarded", LetterState.DISCARDED),
    ],
)
def test_a_decision_is_applied_to_each_and_written_down(two, command, verb, state):
    result = two.types(f"dlq {command} a b --actor ann --because", "a known fault")
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [[verb, "a"], [verb, "b"]]
    assert states(two, "a", "b") == [state] * 2
    assert history(two, "a") == [(verb, "ann", "a known fault")]
    assert two.types("dlq reopen a").exit_code == 0
    assert states(two, "a", "b") == [LetterState.OPEN, state]


@pytest.mark.parametrize("command", ["quarantine", "discard"])
def test_what_takes_a_letter_away_needs_a_reason(two, command):
    assert "--because" in two.types(f"dlq {command} a").stderr
    assert two.types(f"dlq {command} a --because", "  ").exit_code == 2
    assert states(two, "a") == [LetterState.OPEN]


@pytest.mark.parametrize("command", ["quarantine", "discard"])
def test_what_takes_all_of_a_filter_away_asks_first(two, command):
    line = f"dlq {command} --task shop.ship --because x"
    result = two.types(line)
    assert result.exit_code == 2
    assert f"{command.capitalize()} 2 dead letters?" in result.stderr
    assert states(two, "a", "b") == [LetterState.OPEN] * 2
    assert two.types(f"{line} --yes").exit_code == 0
    assert LetterState.OPEN not in states(two, "a", "b")


def test_one_that_can_not_be_decided_so_is_told_and_the_others_are_done(two):
    two.types("dlq discard a --because x")
    result = two.types("dlq discard a b nobody --because x")
    assert result.exit_code == 4
    told = [line.split()[:2] for line in result.stdout.splitlines()]
    assert told == [["not_found", "nobody"], ["refused", "a"], ["discarded", "b"]]
    assert "must be open" in result.stdout


def test_names_that_all_lead_nowhere_end_with_one(shop):
    assert shop.types("dlq discard nobody --because x").exit_code == 1


def test_letters_under_investigation_are_left_alone_by_filters(two):
    two.types("dlq investigate a")
    two.types("dlq discard --task shop.ship --because x --yes")
    assert states(two, "a", "b") == [LetterState.INVESTIGATING, LetterState.DISCARDED]
    two.types("dlq discard --task shop.ship --state investigating --because x --yes")
    assert states(two, "a") == [LetterState.DISCARDED]


def test_of_many_the_newest_are_taken_and_that_there_are_more_is_told(two):
    two.clock.now += 1
    two.fails("c")
    result = two.types("dlq investigate --task shop.ship --limit 1")
    assert "more than 1 match" in result.stderr
    assert states(two, "a", "b", "c") == [LetterState.OPEN, LetterState.OPEN, LetterState.INVESTIGATING]


def test_a_letter_is_somebodys_until_it_is_nobodys(two):
    two.types("dlq assign a b ann")
    assert [letter["assignee"] for letter in two.reads("dlq list")] == ["ann", "ann"]
    two.types("dlq assign a", "")
    assert [letter["assignee"] for letter in two.reads("dlq list")] == ["ann", ""]


def test_notes_are_kept(two):
    two.types("dlq note a b --actor ann", "the bank knows of it")
    assert history(two, "b") == [("noted", "ann", "the bank knows of it")]
    assert two.types("dlq note", "to nobody").exit_code == 2


def test_whoever_uses_the_system_is_the_actor(two, monkeypatch):
    monkeypatch.setenv("LOGNAME", "carla")
    two.types("dlq note a", "looked at it")
    assert history(two, "a") == [("noted", "carla", "looked at it")]


def test_results_in_json_are_one_object_each(two):
    told = two.reads("dlq discard a nobody --because x")
    assert [(one["id"], one["verdict"]) for one in told] == [("nobody", "not_found"), ("a", "discarded")]
