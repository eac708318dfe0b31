"""A job's trace as lines that a template draws."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from celery_replay.clock import Micros
from celery_replay.records import AttemptRecord, Event, Job
from celery_replay.redaction import redact
from celery_replay.trace import PAYLOADS, failure_in, put_aside, story, telling, timeline, title, tone

from .display import lasting, moment, shown, size
from .reading import EVENTS_SHOWN, Traces

WIDTH = 100
"""Of the drawing, in its own units."""
_LOOKS = {
    "fail": ("bad", "failed"),
    "skipped": ("waits", "skipped"),
    "domain": ("domain", "recorded by the task"),
    "side_effect": ("busy", "side effect"),
    "good": ("good", ""),
    "plain": ("quiet", ""),
}
"""By kind of event, the style's name and what is said in words."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One event."""

    offset: str
    """Time since the trace began."""
    at: str
    attempt: int
    """Number of the attempt; 0 for what belongs to all of them."""
    kind: str
    sign: str
    tag: str
    """What the sign and the colour say, in words."""
    name: str
    details: list[tuple[str, str]]
    place: str
    """Where on the scale the event is."""
    begin: str
    """Where on the scale its attempt begins."""
    width: str
    """How much of the scale its attempt takes."""


def draw(job: Job, attempts: Sequence[AttemptRecord], *, payload: bool) -> list[Line]:
    """Draw a job's trace, up to as many events as a page shows.

    Args:
        payload: may the reader see what the job was given, and what it gave?
    """
    told = story(job, timeline(Traces(), job.trace_id), attempts)[:EVENTS_SHOWN]
    return list(_lines(told, failure_in(job, [event for _, event in told]), payload)) if told else []


def _lines(told: Sequence[tuple[int, Event]], failure: Event | None, payload: bool) -> Iterator[Line]:
    start = told[0][1].at
    scale = WIDTH / max(told[-1][1].at - start, 1)
    spans = _spans(told)
    for number, event in told:
        first, last = spans[number]
        kind, sign = tone(event)
        look, tag = _LOOKS[kind]
        if event is failure:
            tag = "failed here"
        yield Line(
            offset=f"+{lasting(event.at - start)}",
            at=moment(event.at),
            attempt=number,
            kind=look,
            sign=sign,
            tag=tag,
            name=shown(title(event), 200),
            details=[(shown(key, 100), _text(value)) for key, value in _attributes(event, payload).items()],
            place=f"{(event.at - start) * scale:.2f}",
            begin=f"{(first - start) * scale:.2f}",
            width=f"{(last - first) * scale:.2f}",
        )


def _attributes(event: Event, payload: bool) -> dict[str, Any]:
    hidden = frozenset() if payload or event.domain else PAYLOADS
    # Redacted as a whole: the names tell what is secret.
    return {name: value for name, value in redact(telling(event.attributes)).items() if name not in hidden}


def _spans(told: Sequence[tuple[int, Event]]) -> dict[int, tuple[Micros, Micros]]:
    spans: dict[int, tuple[Micros, Micros]] = {}
    for number, event in told:
        spans[number] = (spans.get(number, (event.at,))[0], event.at)
    return spans


def _text(value: Any) -> str:
    if put_aside(value):
        return f"{size(value['bytes'])}, kept apart{' and cut' if 'cut' in value else ''}"
    return shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 1_000)
