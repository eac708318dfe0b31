"""What becomes of replays that were decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..states import LetterState, Verb, Word
from ..stores.base import Store

PERIOD_S = 0.5
"""Seconds between two looks."""


class End(Word):
    """How a replay ended, as far as its letter is concerned."""

    RESOLVED = "resolved"
    FAILED_AGAIN = "failed_again"
    """It failed, or was withdrawn before it began."""
    GONE = "gone"
    """Its letter is about another replay by now, or was deleted."""


_ENDS = {Verb.RESOLVED: End.RESOLVED, Verb.FAILED_AGAIN: End.FAILED_AGAIN}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of one replay."""

    submission: str
    """The letter's."""
    end: End
    said: str = ""


def look(store: Store, replays: Mapping[str, str], operation_id: str = "") -> list[Ended]:
    """Return the ends of those replays that have ended.

    Args:
        replays: the replay's submission, by that of its letter.
        operation_id: of which they are a part.
    """
    standing = store.standing(replays) if replays else {}
    return [
        _ended(store, submission, replay, operation_id)
        for submission, replay in replays.items()
        if standing.get(submission) != (LetterState.REPLAY_PENDING, replay)
    ]


def follow(
    store: Store, replays: Mapping[str, str], *, pause: Callable[[float], object] = time.sleep
) -> Iterator[Ended | None]:
    """Yield the ends of replays as they come, and None between two looks, until nothing is pending."""
    waiting = dict(replays)
    while True:
        for ended in look(store, waiting):
            del waiting[ended.submission]
            yield ended
        if not waiting:
            return
        yield None
        pause(PERIOD_S)


def _ended(store: Store, submission: str, replay: str, operation_id: str) -> Ended:
    letter = store.letter(submission)
    another = letter is None or letter.replay != replay
    if another and not operation_id:
        return Ended(submission=submission, end=End.GONE, said="its letter is about another replay by now")
    for entry in reversed(store.history(submission=submission, operation_id=operation_id, limit=20)):
        if entry.verb in _ENDS:
            return Ended(submission=submission, end=_ENDS[entry.verb], said=entry.text)
    said = "its letter is gone" if letter is None else f"its letter is {letter.state}"
    return Ended(submission=submission, end=End.GONE, said=said)
