"""A trace as a timeline: in colour for people, plain where it is piped, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import TextIO

from ..clock import SECOND, Micros
from ..records import AttemptRecord, Event, Job
from ..stores.base import Store
from ..trace import timeline

_HIDDEN = frozenset({"celery", "kombu", "python", "acks_late", "reject_on_worker_lost", "max_retries"})
_COLOURS = {"fail": "31", "skipped": "33", "domain": "36", "good": "32", "dim": "2"}


def show(store: Store, job: Job, *, as_json: bool = False, out: TextIO | None = None) -> None:
    """Print a job's trace."""
    out = out or sys.stdout
    events = timeline(store, job.trace_id)
    if as_json:
        for event in events:
            out.write(json.dumps(asdict(event)) + "\n")
        return
    for line in draw(job, events, store.attempts(job.submission), colour=out.isatty()):
        out.write(line + "\n")


def draw(
    job: Job, events: Iterable[Event], attempts: Iterable[AttemptRecord] = (), *, colour: bool = False
) -> Iterable[str]:
    """Draw a trace line by line: time since the first event, attempt, what happened."""
    key = f"  key {job.key}" if job.key else ""
    yield _paint(f"{job.operation}  {job.task_id}", "1", colour) + f"  {job.status}{key}"
    known = _without_copies(events)
    if job.published_at and not any(event.name == "published" for event in known):
        known.append(Event(name="published", at=job.published_at, attempt=known[0].attempt if known else job.nonce))
    known += [event for attempt in attempts if attempt.note for event in _unsaid(attempt, known)]
    known.sort(key=lambda event: event.at)
    numbers: dict[str, int] = {}
    for event in known:
        # The message is published for all of its attempts; which of them told of it says nothing.
        number = 0 if event.name == "published" else numbers.setdefault(event.attempt, len(numbers) + 1)
        yield _line(event, number, known[0].at, colour)


def _without_copies(events: Iterable[Event]) -> list[Event]:
    """Leave out what several copies of one message tell of its one publishing."""
    seen: set[Micros] = set()
    kept = []
    for event in events:
        if event.name == "published":
            if event.at in seen:
                continue
            seen.add(event.at)
        kept.append(event)
    return kept


def _unsaid(attempt: AttemptRecord, known: Iterable[Event]) -> Iterable[Event]:
    """Tell from its record what an attempt that died could not write itself."""
    if not any(event.attempt == attempt.nonce and event.name == "started" for event in known):
        yield Event(name="started", at=attempt.started_at, attempt=attempt.nonce)
    end = {"note": attempt.note, "worker": f"{attempt.worker}/{attempt.pid}"}
    yield Event(name=str(attempt.outcome), at=attempt.ended_at, attempt=attempt.nonce, status="fail", attributes=end)


def _line(event: Event, number: int, start: Micros, colour: bool) -> str:
    mark, tone = _mark(event)
    name = f"{event.step}: {event.name}" if event.step else event.name
    shown = {key: value for key, value in event.attributes.items() if key not in _HIDDEN and value not in (None, "")}
    details = "  ".join(f"{key}={value}" for key, value in shown.items())
    offset = f"+{(event.at - start) / SECOND:9.3f}s"
    return (
        f"{offset}  {f'#{number}' if number else '  '}  "
        + _paint(f"{mark} {name}", tone, colour)
        + (f"  {details}" if details else "")
    )


def _mark(event: Event) -> tuple[str, str]:
    if event.status == "fail":
        return "✗", _COLOURS["fail"]
    if event.status == "skipped":
        return "↷", _COLOURS["skipped"]
    if event.domain:
        return "◆", _COLOURS["domain"]
    if event.side_effect:
        return "⇢", _COLOURS["good"]
    return ("✓", _COLOURS["good"]) if event.name == "succeeded" else ("·", _COLOURS["dim"])


def _paint(text: str, tone: str, colour: bool) -> str:
    return f"\x1b[{tone}m{text}\x1b[0m" if colour else text
