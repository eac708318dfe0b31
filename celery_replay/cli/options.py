"""Options that several commands have, and the values that they take."""

from __future__ import annotations

import getpass
import math
import os
import re
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from enum import Enum
from typing import Any, TypeVar

import click
from kombu.utils import json

from ..clock import SECOND, Micros, wall
from ..states import Effect, Reason
from ..stores.reading import Position
from .output import printable

E = TypeVar("E", bound=Enum)
F = TypeVar("F", bound=Callable[..., Any])

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_AGO = re.compile(r"(\d{1,9})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class PerSecond(click.FloatRange):
    """A rate. The slowest is one in 100 seconds: what waits for weeks has been forgotten."""

    def __init__(self) -> None:
        super().__init__(0.01, 100)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number; that NaN is none of the range, no comparison would find."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is no number of replays.", param, ctx)
        return number


def example(line: str) -> str:
    """Return what stands below a command's help."""
    return f"\b\nExample:\n  celery -A shop replay {line}"


def moment(text: str) -> Micros:
    """Read a time: ISO text, in UTC unless it says otherwise; or how long ago, such as 30m, 2h or 7d."""
    if ago := _AGO.fullmatch(text):
        return wall() - int(ago[1]) * _UNITS[ago[2]] * SECOND
    try:
        given = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        hint = "write 2026-03-29T12:00Z, or 30m, 2h, 7d for how long ago"
        raise click.BadParameter(f"{printable(text)!r} is no time; {hint}") from None
    elapsed = (given if given.tzinfo else given.replace(tzinfo=timezone.utc)) - _EPOCH
    return (elapsed.days * 86_400 + elapsed.seconds) * SECOND + elapsed.microseconds


def page_end(text: str) -> Position:
    """Read a time, or where a page ended: the time of its last line, a slash and its id."""
    time, _, submission = text.partition("/")
    return moment(time), submission


def word(words: type[E]) -> Callable[[str], E]:
    """Return a reader of one of an enum's words."""

    def word(text: str) -> E:
        try:
            return words(text)
        except ValueError:
            known = ", ".join(member.value for member in words)
            raise click.BadParameter(f"{printable(text)!r} is none of {known}") from None

    return word


def pair(text: str, option: str) -> tuple[str, Any]:
    """Read NAME=JSON."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.UsageError(f"{option}: {printable(text)!r} is not NAME=JSON")
    return name, from_json(value, object, f"{option} {printable(name)}")


def from_json(text: str, kind: type, where: str) -> Any:
    """Read JSON of a kind, `list`, `dict` or any `object`."""
    try:
        value = json.loads(text)
    except (ValueError, TypeError) as error:
        raise click.UsageError(f"{where}: this is no JSON ({error}); text stands in double quotes") from error
    if not isinstance(value, kind):
        raise click.UsageError(f"{where}: this has to be a JSON {'list' if kind is list else 'object'}")
    return value


def as_json(command: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object per line, times in ISO and UTC.")(
        command
    )


def because(*, needed: bool = True) -> Callable[[F], F]:
    """Add --because."""
    return click.option("--because", type=_reason, metavar="TEXT", required=needed, help="Why; the history keeps it.")


def actor(command: F) -> F:
    """Add --actor."""
    return click.option("--actor", default=_user, help="Who does it; by default the user of this system.")(command)


def _reason(text: str) -> str:
    if not text.strip():
        raise click.BadParameter("say it for those who read the history")
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"uid {os.getuid()}"


def of_letters(command: F) -> F:
    """Add what dead letters are found by."""
    found_by = (
        click.option("--task", "operation", default="", help="Of this task."),
        click.option("--group", default="", help="Of this group, by its id or the beginning of it."),
        click.option("--reason", type=word(Reason), help="For this reason, such as exception or worker_lost."),
        click.option("--error", default="", help="With this in the error's type or message."),
        click.option("--effect", type=word(Effect), help="Whose side effects are absent, proven or unknown."),
        click.option("--operation", "operation_id", default="", help="Replayed last by this operation."),
        click.option("--since", type=moment, help="Failed not longer ago than 30m, 2h, 7d, or 2026-03-29T12:00Z."),
    )
    for option in reversed(found_by):
        command = option(command)
    return command


def yes(command: F) -> F:
    """Add --yes."""
    return click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked.")(command)


def consent(question: str, *, given: bool) -> None:
    """Ask before something is done that can't be undone; end the command where the answer is no.

    Args:
        given: the answer was given beforehand.
    """
    if given:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody can be asked here: give --yes.")
    click.confirm(question, abort=True, err=True)


def allowing(command: F) -> F:
    """Add --allow."""
    return click.option(
        "--allow",
        multiple=True,
        metavar="STEP",
        help="Only this side effect may be done, also where it may happen twice: a step, `body`, or `all`. Repeatable.",
    )(command)


def against_rules(command: F) -> F:
    """Add what goes against a default that can do no harm."""
    never = click.option(
        "--override-never", is_flag=True, help='Also one that declares replay="never": by its id, alone.'
    )
    canvas = click.option(
        "--with-canvas", is_flag=True, help="Send callbacks, errbacks and the rest of a chain on, too."
    )
    return never(canvas(command))


def limited(command: F) -> F:
    """Add --limit."""
    limit = click.IntRange(1, 1000)
    return click.option("--limit", type=limit, default=50, show_default=True, help="At most so many.")(command)


def paged(command: F) -> F:
    """Add --since, --before and --limit."""
    since = click.option("--since", type=moment, help="Not older than 2026-03-29T12:00Z, or than 30m, 2h, 7d ago.")
    return since(continued(command))


def continued(command: F) -> F:
    """Add --before and --limit."""
    before = click.option("--before", type=page_end, help="Older than this time, or than the end of a page.")
    return before(limited(command))
