"""The message header contract.

One header, `celery_replay`, a flat table:

| field | meaning |
|---|---|
| v | version of this table |
| s | submission id |
| t | trace id |
| c | correlation id, the same for all that one request set off |
| p | causation: the submission in whose body or canvas this one was published |
| f | time of the first request, microseconds |
| a | time of publishing, microseconds, by the publisher's clock |
| k | idempotency key |
| h | payload fingerprint |
| o | only where a task replaced another one: the task that the key was declared for |
| r | only of a replay: the submission whose dead letter it is about |
| u | only of a replay: 1 where an operator accepts that an effect of unknown end may happen again |
| l | only of a replay: names of the side effects that may be done, `body` for those outside of steps; absent: all |

Fields that this version does not know are carried on. A message without the header runs all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .clock import Micros
from .serialization import digest

HEADER = "celery_replay"
BODY = "body"
"""What a body does outside of its steps, on a list of side effects."""
NESTING = 1 << 20
VERSION = 1
_ID = re.compile(r"[\x21-\x7e]{1,200}")
_LATEST = 1 << 53
_NAMES = {
    "s": "submission",
    "t": "trace_id",
    "c": "correlation_id",
    "p": "causation_id",
    "f": "first_request_at",
    "a": "published_at",
    "k": "key",
    "h": "fingerprint",
    "o": "operation",
    "r": "original",
    "u": "accepts_unknown",
    "l": "allows",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """The header's content."""

    submission: str
    trace_id: str
    correlation_id: str
    causation_id: str | None = None
    first_request_at: Micros | None = None
    published_at: Micros | None = None
    key: str | None = None
    fingerprint: str | None = None
    operation: str | None = None
    """Says that this message carries on the submission of a task that replaced itself: the first one's name."""
    original: str | None = None
    """Of a replay: the submission whose dead letter it is about."""
    accepts_unknown: int | None = None
    """Of a replay: 1 where an operator accepts that an effect of which nobody knows may happen again."""
    allows: tuple[str, ...] | None = None
    """Of a replay: the side effects that may be done, by their names; None where all may."""
    newer: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a newer version, kept as they came."""

    def as_header(self) -> dict[str, Any]:
        """Write the table; fields without a value are left out."""
        values = {short: getattr(self, name) for short, name in _NAMES.items()}
        known = {short: value for short, value in values.items() if value is not None}
        return {**self.newer, "v": VERSION, **known}


def read(table: object) -> Stamp | None:
    """Read the header; None where it is absent or was not written by us."""
    if type(table) is not dict and not isinstance(table, Mapping):
        return None
    known: dict[str, Any] = {}
    newer: dict[str, Any] = {}
    for short, value in table.items():
        name = _NAMES.get(short)
        if name == "allows":
            # A list that can't be read allows nothing.
            known[name] = tuple(filter(_is_text, value)) if isinstance(value, (list, tuple)) else ()
        elif name is not None:
            known[name] = value if _SOUND[name](value) else None
        elif short != "v":
            newer[short] = value
    if not known.get("submission") or not known.get("trace_id"):
        return None
    known["correlation_id"] = known.get("correlation_id") or known["trace_id"]
    return Stamp(**known, newer=newer)


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_time(value: Any) -> bool:
    return type(value) is int and 0 < value < _LATEST


def _is_one(value: Any) -> bool:
    return isinstance(value, int) and value == 1


_SOUND: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("submission", "trace_id", "correlation_id", "causation_id", "original"), _is_id),
    **dict.fromkeys(("first_request_at", "published_at"), _is_time),
    **dict.fromkeys(("key", "fingerprint", "operation"), _is_text),
    "accepts_unknown": _is_one,
}
"""A field is taken only where it can be what it says: the table comes from outside."""


def find(headers: Mapping[str, Any]) -> Stamp | None:
    """Find the stamp on either level: other integrations move custom headers into a nested table."""
    nested = headers.get("headers")
    found = read(headers.get(HEADER))
    if found is None and isinstance(nested, Mapping):
        found = read(nested.get(HEADER))
    return found


def hands_over(headers: Mapping[str, Any]) -> bool:
    """Does the message carry on the submission of a task that replaced itself?"""
    stamp = find(headers)
    return stamp is not None and stamp.operation is not None


def identify(task_name: str, fields: Mapping[str, Any]) -> Stamp:
    """Read a received message's stamp; for one without, name the submission by what Celery keeps over retries."""
    found = find(fields)
    if found is not None:
        return found
    submission = digest(task_name, str(fields.get("id")), str(_count(fields, "replaced_task_nesting")))
    trace_id = digest("trace", submission)
    root = fields.get("root_id")
    correlation_id = root if isinstance(root, str) and _is_id(root) else trace_id
    return Stamp(submission=submission, trace_id=trace_id, correlation_id=correlation_id)


def generation_of(fields: Mapping[str, Any]) -> int:
    """Number a delivery: a task that replaced another one comes after all of the other's retries."""
    return _count(fields, "replaced_task_nesting") * NESTING + _count(fields, "retries")


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    return min(value, NESTING - 1) if isinstance(value, int) and value > 0 else 0


def write(headers: dict[str, Any], stamp: Stamp) -> None:
    """Put the stamp on, on both levels where a nested table exists: Celery's retry keeps only that one."""
    headers[HEADER] = stamp.as_header()
    nested = headers.get("headers")
    if isinstance(nested, dict):
        nested[HEADER] = headers[HEADER]
