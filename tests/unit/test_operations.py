"""What became of each letter of a command is told from its history."""

from __future__ import annotations

from celery_replay.records import HistoryEntry
from celery_replay.replay.operations import Standing, counts, members
from celery_replay.states import Verb


def entry(submission: str, verb: Verb, at: int = 0) -> HistoryEntry:
    return HistoryEntry(entry_id=f"{at}-{submission}", at=at, verb=verb, submission=submission, operation_id="op")


def test_each_letter_stands_where_its_last_entry_says() -> None:
    told = members(
        [
            *(entry(name, Verb.REPLAYED) for name in "abc"),
            entry("e", Verb.LEFT_OUT),
            entry("f", Verb.DISCARDED),
            entry("", Verb.NOTED),
            entry("b", Verb.RESOLVED, 1),
            entry("c", Verb.FAILED_AGAIN, 1),
        ]
    )
    assert {item.submission: item.standing for item in told} == {
        "a": Standing.PENDING,
        "b": Standing.RESOLVED,
        "c": Standing.FAILED_AGAIN,
        "e": Standing.LEFT_OUT,
        "f": Standing.DONE,
    }
    assert counts(told) == dict.fromkeys(Standing, 1)


def test_only_what_occurs_is_counted() -> None:
    assert counts(members([entry("a", Verb.REPLAYED), entry("b", Verb.REPLAYED)])) == {Standing.PENDING: 2}
