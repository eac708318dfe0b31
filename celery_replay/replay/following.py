"""What becomes of replays that were decided: they end, or are called off before they are sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..dead_letters import Decision
from ..exceptions import TriageRefused
from ..records import Letter
from ..states import LetterState, Verb, Word
from ..stores.base import Store

PERIOD_S = 0.5
"""Seconds between two looks."""


class End(Word):
    """How a replay ended, as far as its letter is concerned."""

    RESOLVED = "resolved"
    FAILED_AGAIN = "failed_again"
    """It failed, or was withdrawn before it began."""
    STOPPED = "stopped"
    """It was called off before it was sent."""
    GONE = "gone"
    """Its letter is about another replay by now, or was deleted."""


_ENDS = {Verb.RESOLVED: End.RESOLVED, Verb.FAILED_AGAIN: End.FAILED_AGAIN, Verb.STOPPED: End.STOPPED}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of one replay."""

    submission: str
    """The letter's."""
    end: End
    said: str = ""


def follow(
    store: Store, replays: Mapping[str, str], *, pause: Callable[[float], object] = time.sleep
) -> Iterator[Ended | None]:
    """Yield the ends of replays as they come, and None between two looks, until nothing is pending.

    Args:
        replays: the replay's submission, by that of its letter.
    """
    waiting = dict(replays)
    while True:
        standing = store.standing(waiting)
        for submission, replay in [*waiting.items()]:
            if standing.get(submission) != (LetterState.REPLAY_PENDING, replay):
                del waiting[submission]
                yield _ended(store, submission, replay)
        if not waiting:
            return
        yield None
        pause(PERIOD_S)


def stop(store: Store, operation_id: str, actor: str, text: str) -> Iterator[tuple[Letter, str]]:
    """Call off what was not sent yet of an operation's replays.

    Yields:
        Each letter whose replay is pending, with the reason where it can't be called off.
    """
    decision = Decision(verb=Verb.STOPPED, actor=actor, text=text, operation_id=operation_id)
    for letter in store.every_letter(operation_id=operation_id, state=LetterState.REPLAY_PENDING):
        try:
            yield store.stop_replay(letter.submission, decision), ""
        except TriageRefused as refusal:
            yield letter, refusal.message


def _ended(store: Store, submission: str, replay: str) -> Ended:
    letter = store.letter(submission)
    if letter is None or letter.replay != replay:
        return Ended(submission=submission, end=End.GONE, said="its letter is about another replay by now")
    for entry in reversed(store.history(submission=submission, limit=20)):
        if entry.verb in _ENDS:
            return Ended(submission=submission, end=_ENDS[entry.verb], said=entry.text)
    return Ended(submission=submission, end=End.GONE, said=f"its letter is {letter.state}")
