"""How values look: text without tricks, times, durations, states. Plain text that is returned is yet to be escaped."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from celery_replay.clock import SECOND, Micros, as_datetime
from celery_replay.redaction import redact_text
from celery_replay.replay.effects import Certainty
from celery_replay.replay.operations import Standing
from celery_replay.serialization import safe_text
from celery_replay.states import Effect, LetterState, OperationState, Outcome, RowStatus, StepState, Word

from ..text import restored

NONE = "-"
_BREAK = mark_safe(".<wbr>")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Control characters, and those that turn or hide what stands around them."""
_NOT_PLAIN = re.compile(f"{_UNSEEN.pattern}|[\ud800-\udfff]")

Tone = tuple[str, str]
"""A colour's name, and the sign that says the same."""
_GOOD, _BAD, _UNSURE, _BUSY, _WAITS = ("good", "✓"), ("bad", "✗"), ("bad", "?"), ("busy", "▶"), ("waits", "↻")
_QUIET: Tone = ("quiet", "·")
# By kind first: words are text, and "open" means one thing of a job and another of a letter.
_TONES: dict[type[Word], dict[Word, Tone]] = {
    Outcome: {
        Outcome.OPEN: _BUSY,
        Outcome.SUCCEEDED: _GOOD,
        Outcome.DEDUPLICATED: ("quiet", "="),
        Outcome.FAILED: _BAD,
        Outcome.FAILED_VALIDATION: _BAD,
        Outcome.ROLLED_BACK: _BAD,
        Outcome.LOST: _BAD,
        Outcome.UNKNOWN: _UNSURE,
        Outcome.REFUSED: _BAD,
        Outcome.RETRY_SCHEDULED: _WAITS,
        Outcome.REQUEUED: _WAITS,
        Outcome.INTERRUPTED: _WAITS,
    },
    RowStatus: {**dict.fromkeys(RowStatus, _BUSY), RowStatus.PARKED: _WAITS},
    StepState: {StepState.CLAIMED: ("waits", "?"), StepState.SETTLED: _GOOD},
    LetterState: {
        LetterState.OPEN: _BAD,
        LetterState.INVESTIGATING: _BUSY,
        LetterState.QUARANTINED: ("waits", "‖"),
        LetterState.REPLAY_PENDING: _WAITS,
        LetterState.RESOLVED: _GOOD,
    },
    Effect: {Effect.ABSENT: _GOOD, Effect.PROVEN: ("busy", "="), Effect.UNKNOWN: ("waits", "?")},
    Standing: {
        Standing.PENDING: _WAITS,
        Standing.RESOLVED: _GOOD,
        Standing.DONE: _GOOD,
        Standing.FAILED_AGAIN: _BAD,
        Standing.LEFT_OUT: ("waits", "↷"),
    },
    OperationState: {
        OperationState.RUNNING: _BUSY,
        OperationState.PAUSED: ("waits", "‖"),
        OperationState.STOPPED: _BAD,
        OperationState.ABORTED: ("quiet", "■"),
        OperationState.FINISHED: _GOOD,
    },
    Certainty: {
        Certainty.DEDUPLICATED: ("good", "="),
        Certainty.FENCED: _GOOD,
        Certainty.VERIFIED: _GOOD,
        Certainty.WILL_REPEAT: _BAD,
        Certainty.UNKNOWN: ("waits", "?"),
    },
}


def shown(text: object, limit: int = 20_000) -> str:
    """Return text for reading: too long a one is cut, characters that are not seen stand there as their escapes."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), safe_text(text, limit))


def json_text(value: object) -> str:
    """Return data as JSON for reading and writing: what is not seen stands there as JSON's own escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=safe_text)
    return _NOT_PLAIN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def told(text: str, limit: int = 1_000) -> str:
    """Return free text for reading, such as an error's message: also what is secret in it is replaced."""
    return shown(redact_text(text), limit)


def column(text: str | None, limit: int = 80) -> str:
    """Return the text of a column, as the ORM has read it, for a list."""
    if not text:
        return NONE
    # Escaped text that was cut by the database is read as it is.
    with suppress(UnicodeError):
        text = restored(text)
    return told(text, limit)


def word(value: Word | str) -> str:
    """Return one of the field's words for reading."""
    return shown(str(value).replace("_", " "), 100)


def stored_word(text: str) -> str:
    """Return a column with one of the field's words for reading."""
    return word(column(text))


def badge(value: Word) -> SafeString:
    """Return a state in its colour, with a sign and in words."""
    return label(*_TONES.get(type(value), {}).get(value, _QUIET), word(value))


def label(tone: str, sign: str, text: str) -> SafeString:
    """Return words in a colour, with a sign that says the same."""
    return format_html(
        '<span class="replay-badge replay-{}"><span aria-hidden="true">{}</span> {}</span>', tone, sign, text
    )


def dotted(text: str | None) -> SafeString:
    """Return a dotted name for a list: it may break at its dots, so that a long one leaves room for the rest."""
    return format_html_join(_BREAK, "{}", ((part,) for part in column(text).split(".")))


def two_lines(first: str, second: str) -> SafeString:
    """Return what a cell of a list is about, and below it what is more of it."""
    return format_html('{}<span class="replay-second">{}</span>', first, second)


def stored_badge(kind: type[Word], value: str) -> SafeString:
    """Return a column's state in its colour; a newer version's has none."""
    return badge(kind.known_or_newer(value))


def moment(at: datetime | Micros | None) -> SafeString | str:
    """Return a time in the reader's time zone, to the millisecond."""
    if at is None:
        return NONE
    when = timezone.localtime(as_datetime(at) if isinstance(at, int) else at)
    text = f"{when:%Y-%m-%d %H:%M:%S}.{when.microsecond // 1000:03} {when.tzname()}"
    return format_html('<time datetime="{}">{}</time>', when.isoformat(), text)


def short_moment(at: datetime | None) -> SafeString | str:
    """Return a time for a list: to the second, the rest where the pointer rests."""
    if at is None:
        return NONE
    when = timezone.localtime(at)
    return format_html('<time datetime="{0}" title="{0}">{1}</time>', when.isoformat(), f"{when:%Y-%m-%d %H:%M:%S}")


def lasting(span: Micros) -> str:
    """Return a duration, in units that suit it."""
    seconds = span / SECOND
    if abs(seconds) < 1:
        return f"{span / 1000:.1f} ms"
    if abs(seconds) < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size(count: int) -> str:
    """Return a number of bytes."""
    return f"{count:,} bytes" if count != 1 else "1 byte"


def yes(value: Any) -> str:
    """Return a truth in words."""
    return "yes" if value else "no"
