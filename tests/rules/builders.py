"""Facts, questions and answers with sensible defaults, to be varied one at a time."""

from __future__ import annotations

from typing import Any

from celery_replay.admission import Ask
from celery_replay.clock import SECOND
from celery_replay.facts import Delivery, Facts
from celery_replay.lifecycle import Ending
from celery_replay.losses import News
from celery_replay.records import Failure, Job, Letter, Row
from celery_replay.states import AckMode, Outcome, Reason, RowStatus

NOW = 1_700_000_000 * SECOND
LATER = NOW + 60 * SECOND
EARLIER = NOW - 60 * SECOND
KEY = "key"
ENDED = [outcome for outcome in Outcome if outcome.ended]
HANDED_OVER = [outcome for outcome in Outcome if outcome.handed_over]


def delivery(submission: str = "s", generation: int = 0) -> Delivery:
    """Build a delivery whose message says which one it is."""
    return Delivery(
        submission=submission,
        operation="shop.ship",
        generation=generation,
        message=f"{submission}.{generation}".encode,
    )


def ask(submission: str = "s", generation: int = 0, **changes: Any) -> Ask:
    """Build what a delivery tells OPEN."""
    values: dict[str, Any] = {
        "delivery": delivery(submission, generation),
        "nonce": "new",
        "task_id": "task",
        "trace_id": "trace",
        "correlation_id": "correlation",
        "claim": KEY,
        "lease_us": 60 * SECOND,
        "canvas_us": 30 * SECOND,
        "keep_us": 86_400 * SECOND,
        "redelivery_us": 300 * SECOND,
        "ack": AckMode.LATE,
    }
    return Ask(**{**values, **changes})


def job(submission: str = "s", status: Outcome = Outcome.OPEN, **changes: Any) -> Job:
    """Build a job that holds the key; open ones have a living attempt unless told otherwise."""
    values: dict[str, Any] = {
        "submission": submission,
        "operation": "shop.ship",
        "task_id": "task",
        "trace_id": "trace",
        "correlation_id": "correlation",
        "claim": KEY,
        "status": status,
        "nonce": "old",
        "fence": 1,
        "worker": "w",
        "pid": 1,
        "ack": AckMode.LATE,
        "redelivery_us": 300 * SECOND,
        "attempts": 1,
        "lease_until": LATER if status is Outcome.OPEN else None,
        "reserved_until": LATER if status.handed_over else None,
    }
    return Job(**{**values, **changes})


def lapsed(submission: str = "s", **changes: Any) -> Job:
    """Build a job whose owner's lease is over."""
    return job(submission, **{"lease_until": EARLIER, **changes})


def row(submission: str = "s", status: RowStatus = RowStatus.PARKED, generation: int = 0, **changes: Any) -> Row:
    """Build a row of the parking lot, due now."""
    values: dict[str, Any] = {
        "submission": submission,
        "operation": "shop.ship",
        "generation": generation,
        "status": status,
        "revision": 3,
        "subject": KEY,
        "reason": Reason.IN_FLIGHT,
        "wake_at": NOW,
        "parked_at": EARLIER,
        "message": f"{submission}.{generation}".encode(),
    }
    return Row(**{**values, **changes})


def letter(submission: str = "s", **changes: Any) -> Letter:
    """Build an open letter."""
    values: dict[str, Any] = {
        "submission": submission,
        "operation": "shop.ship",
        "task_id": "task",
        "trace_id": "trace",
        "correlation_id": "correlation",
        "reason": Reason.WORKER_LOST,
        "first_seen": EARLIER,
        "last_failed": EARLIER,
    }
    return Letter(**{**values, **changes})


def facts(
    mine: Job | None = None, holder: Job | None = None, row: Row | None = None, letter: Letter | None = None
) -> Facts:
    """Build what a rule looks at."""
    return Facts(job=mine, holder=holder, row=row, letter=letter)


def ending(outcome: Outcome = Outcome.SUCCEEDED, generation: int = 0, **changes: Any) -> Ending:
    """Build what the attempt "old" tells CLOSE."""
    failing = outcome.failing
    values: dict[str, Any] = {
        "delivery": delivery(generation=generation),
        "nonce": "old",
        "claim": KEY,
        "outcome": outcome,
        "canvas": True,
        "canvas_us": 30 * SECOND,
        "keep_us": 86_400 * SECOND,
        "reserve_us": 120 * SECOND,
        "failure": Failure(type="ValueError", message="no") if failing else None,
        "failure_json": '{"type": "ValueError"}' if failing else None,
    }
    return Ending(**{**values, **changes})


def news(**changes: Any) -> News:
    """Build a parent's news of the attempt "old"."""
    values: dict[str, Any] = {
        "submission": "s",
        "generation": 0,
        "worker": "w",
        "pid": 1,
        "reason": Reason.WORKER_LOST,
        "final": True,
    }
    return News(**{**values, **changes})
