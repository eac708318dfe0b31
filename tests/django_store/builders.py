"""What tests of stores tell them, with defaults."""

from __future__ import annotations

from functools import partial
from typing import Any

from celery_replay.admission import Ask
from celery_replay.clock import SECOND, new_id
from celery_replay.facts import Delivery
from celery_replay.lifecycle import Ending
from celery_replay.records import Chunk, Failure, StepRecord
from celery_replay.states import AckMode, Category, Outcome, StepState


def delivery(submission: str, generation: int = 0) -> Delivery:
    return Delivery(
        submission=submission,
        operation="shop.tasks.ship",
        generation=generation,
        message=partial(bytes, f"message {submission!a}/{generation}".encode()),
    )


def ask(submission: str | None = None, key: str = "", generation: int = 0, **given: Any) -> Ask:
    submission = submission or new_id()
    values: dict[str, Any] = {
        "delivery": delivery(submission, generation),
        "nonce": new_id(),
        "task_id": f"task-{submission}",
        "trace_id": f"trace-{submission}",
        "correlation_id": f"trace-{submission}",
        "key": key,
        "claim": f"claim-{key}" if key else None,
        "lease_us": 60 * SECOND,
        "canvas_us": 30 * SECOND,
        "keep_us": 3600 * SECOND,
        "redelivery_us": 300 * SECOND,
        "ack": AckMode.LATE,
        "worker": "worker@host",
        "pid": 7,
    }
    return Ask(**{**values, **given})


def ending(of: Ask, outcome: Outcome = Outcome.SUCCEEDED, **given: Any) -> Ending:
    values: dict[str, Any] = {
        "delivery": of.delivery,
        "nonce": of.nonce,
        "claim": of.claim,
        "outcome": outcome,
        "canvas": False,
        "canvas_us": of.canvas_us,
        "keep_us": of.keep_us,
    }
    if outcome.failing:
        values |= {"failure": FAILURE, "failure_json": '{"type": "ValueError"}'}
    return Ending(**{**values, **given})


FAILURE = Failure(type="ValueError", message="no", traceback="Traceback …", category=Category.PERMANENT)


def chunk(of: Ask, first: int = 1, **given: Any) -> Chunk:
    values: dict[str, Any] = {"trace_id": of.trace_id, "nonce": of.nonce, "first": first, "count": 2, "body": b"\x00e"}
    return Chunk(**{**values, **given})


def step(of: Ask, key: str = "label", state: StepState = StepState.CLAIMED, **given: Any) -> StepRecord:
    values: dict[str, Any] = {"scope": of.identity, "key": key, "name": "buy", "state": state, "nonce": of.nonce}
    return StepRecord(**{**values, **given})
