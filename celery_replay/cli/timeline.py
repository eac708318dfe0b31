"""A trace as a timeline: in colour for people, plain where it is piped, JSON for machines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from ..clock import SECOND, Micros
from ..records import AttemptRecord, Event, Job
from ..redaction import redact, redact_text
from ..states import Outcome
from ..stores.base import Store
from ..trace import timeline
from . import fields
from .output import printable, to_json
from .payload import decoded

_HIDDEN = frozenset({"celery", "kombu", "python", "acks_late", "reject_on_worker_lost", "max_retries"})
_WELL = (Outcome.OPEN, Outcome.SUCCEEDED, Outcome.DEDUPLICATED, Outcome.STALE_IGNORED, Outcome.IGNORED)
_COLOURS = {"fail": "31", "skipped": "33", "domain": "36", "good": "32", "dim": "2"}


def show(store: Store, job: Job, *, as_json: bool = False, out: TextIO | None = None) -> None:
    """Print a job's trace: what was recorded, in its order. Nothing is run."""
    out = out or sys.stdout
    events, attempts = timeline(store, job.trace_id), store.attempts(job.submission)
    if as_json:
        known = _story(job, events, attempts)
        failure = _failure(job, known)
        for event in known:
            out.write(to_json(fields.event(event, failed_here=event is failure)) + "\n")
        return
    for line in draw(job, events, attempts, colour=out.isatty()):
        out.write(line + "\n")


def draw(
    job: Job, events: Iterable[Event], attempts: Iterable[AttemptRecord] = (), *, colour: bool = False
) -> Iterable[str]:
    """Draw a trace line by line: time since the first event, attempt, what happened; at last where it failed."""
    known = _story(job, events, attempts)
    failure = _failure(job, known)
    key = f"  key {_shown(job.key)}" if job.key else ""
    yield _paint(f"{_shown(job.operation)}  {_shown(job.task_id)}", "1", colour) + f"  {job.status}{key}"
    numbers = _numbers(known)
    for event in known:
        # The message is published for all of its attempts; which of them told of it says nothing.
        number = 0 if event.name == "published" else numbers.get(event.attempt, 0)
        mark = _paint("  ◀ failed here", _COLOURS["fail"], colour) if event is failure else ""
        yield _line(event, number, known[0].at, colour) + mark
    if failure is not None:
        where = f"in attempt #{numbers[failure.attempt]}" if failure.attempt in numbers else "outside of its attempts"
        yield f"failed {where}{_after(failure, known)}: {_why(job, failure)}"


def _numbers(known: Iterable[Event]) -> dict[str, int]:
    """Number the attempts in the order in which they began; what a worker's parent tells is of none."""
    began = dict.fromkeys(event.attempt for event in known if event.name in ("received", "started"))
    return {attempt: number for number, attempt in enumerate(began, 1)}


def _story(job: Job, events: Iterable[Event], attempts: Iterable[AttemptRecord]) -> list[Event]:
    """Complete the events by what the records know, in the order of their times."""
    known = _without_copies(events)
    if job.published_at and not any(event.name == "published" for event in known):
        known.append(Event(name="published", at=job.published_at, attempt=known[0].attempt if known else job.nonce))
    known += [event for attempt in attempts if attempt.note for event in _unsaid(attempt, known)]
    return sorted(known, key=lambda event: event.at)


def _failure(job: Job, known: Sequence[Event]) -> Event | None:
    """Return where a job failed that has not ended well: the last failure of its last attempt, else of any."""
    if job.status in _WELL:
        return None
    failures = [event for event in known if event.status == "fail" and event.job_id in ("", job.task_id)]
    own = [event for event in failures if event.attempt == job.nonce]
    return next(reversed(own or failures), None)


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
    return _shown(": ".join(str(text) for text in told if text) or _name(failure))


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
    told = redact(event.attributes)
    shown = {key: value for key, value in told.items() if key not in _HIDDEN and value not in (None, "")}
    details = "  ".join(_shown(f"{key}={value}") for key, value in shown.items())
    offset = f"+{(event.at - start) / SECOND:9.3f}s"
    return (
        f"{offset}  {f'#{number}' if number else '  '}  "
        + _paint(f"{mark} {_shown(_name(event))}", tone, colour)
        + (f"  {details}" if details else "")
    )


def _name(event: Event) -> str:
    return f"{event.step}: {event.name}" if event.step else event.name


def _shown(text: str) -> str:
    return printable(redact_text(text))


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
