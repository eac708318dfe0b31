"""A trace as a timeline: in colour for people, plain where it is piped, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TextIO

from ..clock import SECOND, Micros
from ..facts import alive
from ..records import AttemptRecord, Event, Job
from ..redaction import redact, redact_text
from ..states import Outcome
from ..stores.base import Store
from ..trace import failure_in, story, telling, timeline, title, tone
from . import fields
from .output import cell, printable, to_json
from .payload import decoded
from .values import values_of

_COLOURS = {"fail": "31", "skipped": "33", "domain": "36", "side_effect": "32", "good": "32", "plain": "2"}


def show(
    store: Store, job: Job, *, as_json: bool = False, with_values: bool = False, out: TextIO | None = None
) -> None:
    """Print a job's trace: what was recorded, in its order. Nothing is run."""
    out = out or sys.stdout
    events, attempts = timeline(store, job.trace_id), store.attempts(job.submission)
    if as_json:
        known = [event for _, event in story(job, events, attempts)]
        failure = failure_in(job, known)
        values = values_of(store, known) if with_values else ()
        for number, event in enumerate(known):
            told = {"values": values[number]} if with_values else {}
            out.write(to_json({**fields.event(event, failed_here=event is failure), **told}) + "\n")
        return
    look = partial(values_of, store) if with_values else None
    for line in draw(job, events, attempts, colour=out.isatty(), values=look):
        out.write(line + "\n")
    if job.status is Outcome.OPEN and not alive(job, store.now()) and job.lease_until is not None:
        since, filed = cell(fields.moment(job.lease_until)), cell(fields.moment(job.reap_at))
        out.write(
            f"its worker has been silent since {since}; if its message does not come back, it is filed at {filed}\n"
        )
    letter = store.letter(job.original or job.submission)
    if letter is not None:
        out.write(f"its dead letter is {fields.standing(letter)}; see: replay dlq show {letter.submission}\n")


def draw(
    job: Job,
    events: Iterable[Event],
    attempts: Iterable[AttemptRecord] = (),
    *,
    colour: bool = False,
    values: Callable[[Sequence[Event]], Sequence[Mapping[str, Any]]] | None = None,
) -> Iterable[str]:
    """Draw a trace line by line: time since the first event, attempt, what happened; at last where it failed.

    Args:
        values: looks up what events refer to, which then stands below each.
    """
    told = story(job, events, attempts)
    known = [event for _, event in told]
    failure = failure_in(job, known)
    key = f"  key {_shown(job.key)}" if job.key else ""
    yield _paint(f"{_shown(job.operation)}  {_shown(job.task_id)}", "1", colour) + f"  {job.status}{key}"
    found = values(known) if values is not None else [{}] * len(known)
    for (number, event), referred in zip(told, found, strict=True):
        mark = _paint("  ◀ failed here", _COLOURS["fail"], colour) if event is failure else ""
        yield _line(event, number, known[0].at, colour) + mark
        yield from (
            f"{'':17}{_shown(f'{name} = {json.dumps(value, default=str)}')}" for name, value in referred.items()
        )
    if failure is not None:
        number = next(number for number, event in told if event is failure)
        where = f"in attempt #{number}" if number else "outside of its attempts"
        yield f"failed {where}{_after(failure, known)}: {_why(job, failure)}"


def _after(failure: Event, known: Sequence[Event]) -> str:
    """Say what the attempt had done before."""
    before = [e for e in known[: known.index(failure)] if e.attempt == failure.attempt and e.name != "published"]
    if not before:
        return ""
    step = f" in {before[-1].step}" if before[-1].step else ""
    return f", after {_shown(before[-1].name + step)}"


def _why(job: Job, failure: Event) -> str:
    told = [failure.attributes.get(name) for name in ("error", "message", "note")]
    recorded = decoded(job.failure)
    if not any(told) and isinstance(recorded, dict):
        told = [recorded.get(name) for name in ("type", "message", "reason")]
    return _shown(": ".join(str(text) for text in told if text) or title(failure))


def _line(event: Event, number: int, start: Micros, colour: bool) -> str:
    kind, sign = tone(event)
    shown = telling(redact(event.attributes))
    details = "  ".join(_shown(f"{key}={value}") for key, value in shown.items())
    offset = f"+{(event.at - start) / SECOND:9.3f}s"
    return (
        f"{offset}  {f'#{number}' if number else '  '}  "
        + _paint(f"{sign} {_shown(title(event))}", _COLOURS[kind], colour)
        + (f"  {details}" if details else "")
    )


def _shown(text: str) -> str:
    return printable(redact_text(text))


def _paint(text: str, tone: str, colour: bool) -> str:
    return f"\x1b[{tone}m{text}\x1b[0m" if colour else text
