"""Facts of a job, in groups."""

from __future__ import annotations

import json
from typing import Any

from celery_replay.clock import Micros
from celery_replay.records import AttemptRecord, Job, StepRecord
from celery_replay.redaction import redact_text

from . import payloads
from .display import NONE, badge, lasting, moment, shown, word, yes

Group = tuple[str, list[tuple[str, object]]]
"""A heading, and facts with their labels."""


def duration(started: Micros, ended: Micros | None) -> str:
    """Return how long something took, if it is over."""
    return NONE if ended is None else lasting(ended - started)


def timing(job: Job) -> Group:
    """Tell when it happened."""
    return "Timing", [
        ("Published", moment(job.published_at)),
        ("Latest attempt began", moment(job.started_at)),
        ("Closed", moment(job.closed_at)),
        ("Latest attempt took", duration(job.started_at, job.closed_at)),
        ("Retry awaited until", moment(job.reserved_until)),
        ("Given up, if nothing is heard, at", moment(job.reap_at)),
        ("Record kept until", moment(job.keep_until)),
    ]


def ownership(job: Job) -> Group:
    """Tell who has it, and since when it can't be anybody else."""
    return "Ownership", [
        ("Worker", shown(job.worker) or NONE),
        ("Process", job.pid or NONE),
        ("Fence", job.fence),
        ("Lease until", moment(job.lease_until)),
        ("Acknowledged", word(job.ack)),
        ("Broker brings it again within", lasting(job.redelivery_us)),
        ("Died in a row", job.strikes),
        ("Others wait for it", yes(job.waiters)),
    ]


def evidence(job: Job) -> list[tuple[str, object]]:
    """Tell what is known of a job's effects."""
    return [
        ("A side effect's end is unknown", yes(job.unsettled)),
        ("Callbacks, chain and chord part sent on", "unknown" if job.canvas_unknown else yes(job.canvas_advanced)),
        ("Return value lost", yes(job.result_lost)),
    ]


def failure(job: Job) -> list[tuple[str, object]]:
    """Tell what is kept of the exception."""
    try:
        kept: Any = json.loads(job.failure or "{}")
    except ValueError:
        kept = {"message": job.failure}
    if not isinstance(kept, dict):
        kept = {"message": kept}
    return [
        (name.capitalize(), shown(redact_text(str(kept[name])), 1_000))
        for name in ("type", "message", "reason")
        if name in kept
    ]


def attempt_lines(attempts: list[AttemptRecord]) -> list[dict[str, object]]:
    """Tell how each execution ended."""
    return [
        {
            "outcome": badge(each.outcome),
            "generation": each.generation,
            "started": moment(each.started_at),
            "took": duration(each.started_at, each.ended_at),
            "worker": f"{shown(each.worker)}/{each.pid}",
            "fence": each.fence,
            "note": shown(redact_text(each.note)),
        }
        for each in attempts
    ]


def step_lines(steps: list[StepRecord], payload: bool) -> list[dict[str, object]]:
    """Tell of side-effect steps; of their outputs only where payloads may be seen."""
    return [
        {
            "name": shown(each.name),
            "key": shown(each.key, 200),
            "state": badge(each.state),
            "claimed": moment(each.claimed_at),
            "output": payloads.value("Output", each.output) if payload else None,
        }
        for each in steps
    ]
