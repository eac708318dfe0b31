"""Records as the pages find them, with defaults."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from celery_replay.clock import SECOND
from celery_replay.records import (
    AttemptRecord,
    Chunk,
    Group,
    HistoryEntry,
    Holding,
    Job,
    Lease,
    Letter,
    Row,
    StepRecord,
)
from celery_replay.serialization import pack
from celery_replay.states import LeaseEnd, Outcome, Reason, StepState, Verb
from celery_replay.trace import Recorder
from tests.rules import builders

NOW = builders.NOW


def job(submission: str = "s", **changes: Any) -> Job:
    values: dict[str, Any] = {
        "status": Outcome.SUCCEEDED,
        "claim": None,
        "task_id": f"task-{submission}",
        "trace_id": f"trace-{submission}",
        "started_at": NOW,
        "closed_at": NOW + 1_500_000,
        "result": '{"receipt": "R-77", "api_key": "sk-1"}',
    }
    return builders.job(submission, **{**values, **changes})


def attempt(
    submission: str = "s", nonce: str = "n1", outcome: Outcome = Outcome.SUCCEEDED, **changes: Any
) -> AttemptRecord:
    values: dict[str, Any] = {
        "nonce": nonce,
        "submission": submission,
        "trace_id": f"trace-{submission}",
        "operation": "shop.ship",
        "generation": 0,
        "outcome": outcome,
        "fence": 1,
        "worker": "w",
        "pid": 1,
        "started_at": NOW,
        "ended_at": NOW + SECOND,
    }
    return AttemptRecord(**{**values, **changes})


def step(scope: str = "s", key: str = "charge", **changes: Any) -> StepRecord:
    values: dict[str, Any] = {
        "scope": scope,
        "key": key,
        "name": "charge card",
        "state": StepState.SETTLED,
        "nonce": "n1",
        "output": '{"card_token": "4242"}',
        "claimed_at": NOW,
    }
    return StepRecord(**{**values, **changes})


def letter(submission: str = "s", **changes: Any) -> Letter:
    values: dict[str, Any] = {
        "error_type": "shop.bank.CardRefused",
        "error_message": "no",
        "traceback": "Traceback …",
        "message": message(),
    }
    return builders.letter(submission, **{**values, **changes})


def group(group_id: str = "s", **changes: Any) -> Group:
    values: dict[str, Any] = {
        "group_id": group_id,
        "operation": "shop.ship",
        "reason": Reason.EXCEPTION,
        "error_type": "shop.bank.CardRefused",
        "frames": "shop/tasks.py:ship\nshop/bank.py:charge",
        "error_message": "no",
        "newest": "s",
        "filed": 3,
        "unresolved": 2,
        "first_seen": NOW,
        "last_seen": NOW,
    }
    return Group(**{**values, **changes})


def entry(entry_id: str = "e", **changes: Any) -> HistoryEntry:
    values: dict[str, Any] = {"entry_id": entry_id, "at": NOW, "verb": Verb.NOTED, "actor": "ann", "text": "why"}
    return HistoryEntry(**{**values, **changes})


def row(submission: str = "s", **changes: Any) -> Row:
    return builders.row(submission, **{"message": message(), **changes})


def lease(resource: str = "s", submission: str = "s", **changes: Any) -> Lease:
    values: dict[str, Any] = {
        "resource": resource,
        "fence": NOW,
        "nonce": "n1",
        "submission": submission,
        "operation": "shop.ship",
        "trace_id": f"trace-{submission}",
        "worker": "w",
        "pid": 1,
        "acquired_at": NOW,
        "until": NOW + 60 * SECOND,
        "grants": 1,
        "keep_until": NOW + 3600 * SECOND,
    }
    return Lease(**{**values, **changes})


def holding(resource: str = "s", submission: str = "s", grant: int = 0, **changes: Any) -> Holding:
    values: dict[str, Any] = {
        "fence": NOW - 1,
        "nonce": "n0",
        "operation": "shop.ship",
        "trace_id": f"trace-{submission}",
        "worker": "w",
        "pid": 1,
        "acquired_at": NOW - 60 * SECOND,
        "ended_at": NOW - SECOND,
        "end": LeaseEnd.RELEASED,
    }
    return Holding(resource=resource, submission=submission, grant=grant, **{**values, **changes})


def message(
    args: Sequence[Any] = (1042,),
    kwargs: Mapping[str, Any] | None = None,
    body: bytes | None = None,
    content_type: str = "application/json",
    headers: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] | None = None,
    **more: Any,
) -> bytes:
    """Build a message as the parking lot keeps it."""
    embedded = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    if body is None:
        body = json.dumps(
            [args, {"card_token": "4242", "note": "fragile"} if kwargs is None else kwargs, embedded]
        ).encode()
    return pack(
        {
            "v": 1,
            "task": task,
            "headers": {"task": "shop.ship", "kwargsrepr": "{'card_token': '4242'}", **(headers or {})},
            "body": base64.b64encode(body).decode(),
            "content_type": content_type,
            "content_encoding": "utf-8",
            "exchange": "",
            "routing_key": "celery",
            "priority": 0,
            "properties": {},
            **more,
        }
    )


def failed(submission: str = "s", effect: str = "absent", **changes: Any) -> list[Any]:
    """Build a failed job of the shop's task and its letter."""
    protection = {"absent": "steps", "unknown": ""}[effect]
    parameters = [[name, "POSITIONAL_OR_KEYWORD", name != "order"] for name in ("order", "card_token", "note")]
    sent = message([7, "4242"], {"note": "fragile"}, task={"parameters": parameters, "protection": protection})
    about = {"status": Outcome.FAILED, "letter": True, "result": None, "started_at": NOW}
    return [
        job(submission, **about),
        letter(submission, **{"message": sent, "reason": Reason.EXCEPTION, "key": f"ship:{submission}", **changes}),
    ]


def trace(submission: str, nonce: str, *events: Mapping[str, Any], at: int = NOW) -> Chunk:
    """Build an attempt's events, a second apart; each is what `Recorder.record` takes."""
    recorder = Recorder(f"trace-{submission}", nonce, {"job": f"task-{submission}", "worker": "w/1"})
    for number, event in enumerate(events):
        recorder.record(**{"at": at + number * SECOND, **event})
    return recorder.take()[0]
