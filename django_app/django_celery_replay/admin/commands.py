"""What can be done with many letters at once, and with the one that a page is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.http import HttpRequest

from celery_replay import dead_letters
from celery_replay.records import Letter
from celery_replay.states import Verb

from .decisions import CHOICES
from .display import word
from .permissions import DRY_RUN, REPLAY, TRIAGE, missing

DRY_RUN_THEM = "dry-run"


@dataclass(frozen=True, kw_only=True)
class Command:
    """A button, or a line of a menu."""

    name: str
    label: str
    missing: str = ""
    """The permission that the visitor has not got."""
    barred: str = ""
    """Why the letter's state does not allow it."""


def commands(request: HttpRequest) -> list[Command]:
    """Return what can be done with many letters."""
    several = [choice for choice in CHOICES.values() if choice.for_many]
    found = [Command(name=c.name, label=c.label, missing=missing(request, c.permission)) for c in several]
    found.append(Command(name=DRY_RUN_THEM, label="Dry-run…", missing=missing(request, DRY_RUN)))
    return [*found, Command(name="replay", label="Replay…", missing=missing(request, REPLAY))]


def menu(request: HttpRequest) -> dict[str, object]:
    """Return what a page with a choice of commands needs."""
    offered = commands(request)
    return {"commands": offered, "able": not all(each.missing for each in offered)}


def decisions(letter: Letter) -> Iterator[Command]:
    """Return the buttons of one letter's decisions, but for those that ask for more than a reason."""
    for choice in CHOICES.values():
        if choice.permission == TRIAGE and not choice.asks_whom:
            yield Command(name=choice.name, label=choice.label, barred=barred(letter, choice.verb))


def barred(letter: Letter, verb: Verb) -> str:
    """Say why a letter's state does not allow something."""
    return "" if dead_letters.allows(letter.state, verb) else f"it is {word(letter.state)}"
