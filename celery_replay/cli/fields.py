"""The fields of records as commands show them. Their names are documented, so they stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from .. import leases
from ..clock import Micros, as_datetime
from ..operations import conditions, pending
from ..records import AttemptRecord, Event, Group, HistoryEntry, Job, Lease, Letter, Operation, Row, StepRecord
from ..replay.evidence import Evidence
from ..replay.lineage import Descendant
from ..stores.lease_looks import Holder
from .payload import decoded

Fields = dict[str, Any]

JOBS = ("id", "task", "status", "attempts", "started_at", "key")
DUPLICATES = ("id", "task", "status", "deduplicated_from", "started_at", "task_id", "key")
ATTEMPTS = ("attempt", "outcome", "started_at", "ended_at", "worker", "pid", "fence", "note")
STEPS = ("name", "state", "claimed_at", "key")
LETTERS = (
    "id", "task", "state", "reason", "error_type", "group", "effect", "assignee", "replays", "attempts", "last_failed",
    "key",
)  # fmt: skip
GROUPS = (
    "group", "unresolved", "filed", "last_24_hours", "first_seen", "last_seen", "task", "reason", "error_type", "where",
)  # fmt: skip
NOTES = ("at", "actor", "said")
HISTORY = ("at", "verb", "actor", "said", "operation", "details")
DESCENDANTS = ("task_id", "status", "at", "actor", "operation")
LEASES = ("resource", "task", "id", "alive", "age", "usual", "overdue", "waiting", "fence", "worker", "until")
LINE = ("id", "task", "status", "waited", "looked_at_again")
HOLDERS = ("fence", "task", "id", "acquired_at", "ended_at", "end", "last_seen", "overlaps", "worker")
OPERATIONS = (
    "id", "state", "letters", "sent", "resolved", "failed", "left_out", "pending", "began_at", "actor", "reason",
)  # fmt: skip
NOTES_OF = ("at", "verb", "actor", "said")
PARKED = (
    "id",
    "task",
    "status",
    "reason",
    "waited",
    "looked_at_again",
    "waits_for",
    "waits_for_status",
    "key",
    "resource",
)


def job(record: Job) -> Fields:
    """Show a job."""
    return {
        "id": record.submission,
        "task": record.operation,
        "task_id": record.task_id,
        "trace_id": record.trace_id,
        "correlation_id": record.correlation_id,
        "caused_by": record.causation_id,
        "key": record.key,
        "status": record.status,
        "deduplicated_from": record.origin,
        "attempts": record.attempts,
        "fence": record.fence,
        "worker": record.worker,
        "pid": record.pid,
        "published_at": moment(record.published_at),
        "started_at": moment(record.started_at),
        "closed_at": moment(record.closed_at),
        "lease_until": moment(record.lease_until),
        "retry_awaited_until": moment(record.reserved_until),
        "kept_until": moment(record.keep_until),
        "unsettled_side_effect": record.unsettled,
        "open_letter": record.letter,
        "failure": decoded(record.failure),
        "result": decoded(record.result),
    }


def attempt(record: AttemptRecord) -> Fields:
    """Show an attempt that ended."""
    return {
        "attempt": record.nonce,
        "retry": record.generation,
        "outcome": record.outcome,
        "started_at": moment(record.started_at),
        "ended_at": moment(record.ended_at),
        "worker": record.worker,
        "pid": record.pid,
        "fence": record.fence,
        "note": record.note,
    }


def step(record: StepRecord) -> Fields:
    """Show a side-effect step."""
    return {
        "name": record.name,
        "key": record.key,
        "state": record.state,
        "attempt": record.nonce,
        "claimed_at": moment(record.claimed_at),
        "output": decoded(record.output),
    }


def letter(record: Letter) -> Fields:
    """Show a dead letter."""
    return {
        "id": record.submission,
        "task": record.operation,
        "task_id": record.task_id,
        "trace_id": record.trace_id,
        "correlation_id": record.correlation_id,
        "key": record.key,
        "state": record.state,
        "resolved_how": record.resolved_how,
        "reason": record.reason,
        "category": record.category,
        "error_type": record.error_type,
        "error_message": record.error_message,
        "group": short(record.group_id),
        "group_id": record.group_id,
        "effect": record.effect,
        "assignee": record.assignee,
        "edited": record.edited is not None,
        "replay": record.replay,
        "operation": record.operation_id,
        "replays": record.replays,
        "attempts": record.attempts,
        "first_seen": moment(record.first_seen),
        "last_failed": moment(record.last_failed),
        "worker": record.worker,
        "code_version": record.code_version,
    }


def group(record: Group, hours: Sequence[int]) -> Fields:
    """Show a group of dead letters."""
    frames = record.frames.splitlines()
    return {
        "group": short(record.group_id),
        "group_id": record.group_id,
        "task": record.operation,
        "reason": record.reason,
        "error_type": record.error_type,
        "error_message": record.error_message,
        "where": frames[-1] if frames else "",
        "frames": frames,
        "unresolved": record.unresolved,
        "filed": record.filed,
        "first_seen": moment(record.first_seen),
        "last_seen": moment(record.last_seen),
        "last_24_hours": list(hours),
        "newest": record.newest,
    }


def operation(record: Operation) -> Fields:
    """Show an operation."""
    wanted = conditions(record)
    return {
        "id": record.operation_id,
        "state": record.state,
        "said": record.said,
        "actor": record.actor,
        "reason": record.reason,
        "letters": record.total,
        "position": record.position,
        "sent": record.sent,
        "resolved": record.resolved,
        "failed": record.failed,
        "gone": record.gone,
        "left_out": record.left_out,
        "pending": len(pending(record)),
        "rate": wanted.rate,
        "at_once": wanted.at_once,
        "canary": wanted.canary or None,
        "canary_passed": record.proven if wanted.canary else None,
        "stop_after": wanted.stop_after,
        "stop_above": wanted.stop_above,
        "of_last": wanted.of_last,
        "allow": list(wanted.allow) if wanted.allow is not None else None,
        "with_canvas": wanted.with_canvas,
        "began_at": moment(record.began_at),
        "changed_at": moment(record.changed_at),
    }


def operation_result(record: Operation) -> Fields:
    """Say in a result where an operation stands."""
    return {"id": record.operation_id, "task": "", "verdict": record.state, "said": record.said}


def standing(record: Letter) -> str:
    """Say in words where a dead letter stands."""
    how = f" ({record.resolved_how})" if record.resolved_how else ""
    return str(record.state).replace("_", " ") + how


def evidence(known: Evidence) -> Fields:
    """Show the answers to: is a replay safe, must the payload be mended, is anything half done?"""
    return {
        "safe_to_replay": known.safe,
        "because": known.safe_because,
        "payload_to_be_mended": known.mend,
        "half_done": list(known.half_done) or "nothing that is known of",
        "effect": known.effect,
    }


def entry(record: HistoryEntry) -> Fields:
    """Show what was done, or what happened."""
    return {
        "at": moment(record.at),
        "verb": record.verb,
        "actor": record.actor,
        "id": record.submission,
        "said": record.text,
        "operation": record.operation_id,
        "details": decoded(record.details),
    }


def descendant(one: Descendant) -> Fields:
    """Show a replay that was decided."""
    job = one.job
    return {
        "at": moment(one.entry.at),
        "task_id": one.task_id,
        "replay": job.submission if job else None,
        "trace_id": job.trace_id if job else None,
        "status": job.status if job else None,
        "operation": one.entry.operation_id,
        "actor": one.entry.actor,
    }


def parked(record: Row, owner: Job | None, now: Micros) -> Fields:
    """Show a parked delivery, and whom it waits for."""
    return {
        "id": record.submission,
        "task": record.operation,
        "retry": record.generation,
        "status": record.status,
        "reason": record.reason,
        "parked_at": moment(record.parked_at),
        "waited": between(record.parked_at, now),
        "looked_at_again": moment(record.wake_at),
        "waits_for": owner.submission if owner else None,
        "waits_for_status": owner.status if owner else None,
        "key": owner.key if owner else "",
        "resource": record.resource,
    }


def lease(record: Lease, usual: Micros | None, waiting: int, now: Micros) -> Fields:
    """Show a lease, and whether it has been held unusually long."""
    held = bool(record.nonce)
    age = now - record.acquired_at if held else None
    return {
        "resource": record.resource,
        "held": held,
        "task": record.operation,
        "id": record.submission,
        "attempt": record.nonce,
        "trace_id": record.trace_id,
        "fence": record.fence,
        "alive": leases.taken(record, now),
        "acquired_at": moment(record.acquired_at),
        "age": between(record.acquired_at, now) if held else None,
        "usual": None if usual is None else between(0, usual),
        "overdue": age is not None and usual is not None and age > usual,
        "until": moment(record.until),
        "waiting": waiting,
        "worker": record.worker,
        "pid": record.pid,
        "kept_until": moment(record.keep_until),
    }


def holder(record: Holder) -> Fields:
    """Show somebody who had a resource before."""
    holding = record.holding
    return {
        "fence": holding.fence,
        "task": holding.operation,
        "id": holding.submission,
        "attempt": holding.nonce,
        "trace_id": holding.trace_id,
        "acquired_at": moment(holding.acquired_at),
        "ended_at": moment(holding.ended_at),
        "end": holding.end,
        "last_seen": moment(record.last_seen),
        "overlaps": list(record.overlaps),
        "worker": holding.worker,
        "pid": holding.pid,
    }


def event(record: Event, *, failed_here: bool) -> Fields:
    """Show an event of a trace."""
    return {**asdict(record), "at": moment(record.at), "failed_here": failed_here}


def short(group_id: str) -> str:
    """Return the beginning of a group's id, without the mark of how it was made: enough to name it."""
    return group_id.partition(":")[2][:8]


def moment(value: Micros | None) -> datetime | None:
    """Show a stored time."""
    return None if value is None else as_datetime(value)


def between(start: Micros | None, end: Micros) -> timedelta | None:
    """Show a duration; in JSON it is a number of seconds."""
    return None if start is None else timedelta(microseconds=end - start)
