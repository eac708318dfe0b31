"""Bodies of chords that a member's failure keeps from running: jobs that never begin, and a dead letter for each. Pure.

A chord's body is known from the messages of its members alone: Celery publishes it when the last of them has ended
well. What is not published can't fail, so nobody else would tell of it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kombu import serialization as codecs
from kombu.utils.json import dumps

from . import dead_letters, headers
from .clock import Micros, new_id
from .headers import Stamp
from .records import HistoryEntry, Job, Letter
from .serialization import JSON, canonical_json, digest, pack, safe_text, unpack
from .signatures import EMBEDDED, first_of, frozen_id, parts_of
from .states import Outcome, Reason, Verb

RESULTS = "[what the chord's members returned]"
"""Stands for a body's first argument, which nobody knows; it is never sent."""

Encode = Callable[[Any], tuple[Any, Any, Any]]
"""Makes content type, encoding and payload of data, as kombu's `dumps` does."""


@dataclass(frozen=True, kw_only=True)
class Body:
    """A task that would have been published when the chord had ended well."""

    submission: str
    operation: str
    task_id: str
    message: bytes


def named(task_id: Any) -> str:
    """Name the submission of a chord's body. Whichever member comes last publishes it: it has what all of them know."""
    return digest("chord", str(task_id))


def waiting_for(canvas: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Find the bodies of the chords that a message with this canvas is a part of, or the rest of its chain is."""
    rest = [part for signature in canvas.get("chain") or () for part in parts_of(signature)]
    found = [canvas.get("chord"), *((part.get("options") or {}).get("chord") for part in rest)]
    return [body for body in found if body]


def prepared(canvas: Mapping[str, Any], encode: Encode) -> list[dict[str, Any]]:
    """Write the messages of these bodies, for a message that is never decoded again."""
    found = (first_of(body) for body in waiting_for(canvas))
    return [_message(first, rest, encode) for firsts in found for first, rest in firsts if frozen_id(first)]


def content(args: Any, kwargs: Any, canvas: Mapping[str, Any], encode: Encode) -> dict[str, Any]:
    """Write down what a kept message says, in its own encoding."""
    content_type, content_encoding, payload = encode((args, kwargs, canvas))
    bare, bodies = None, []
    if content_type != JSON and any(canvas.values()):
        # Of a body that is never decoded again nothing can be taken off later, and nothing taken out.
        bare = as_text(encode((args, kwargs, dict.fromkeys(EMBEDDED)))[2])
        bodies = prepared(canvas, encode)
    return {
        "body": as_text(payload),
        "bare": bare,
        **({"bodies": bodies} if bodies else {}),
        "content_type": content_type,
        "content_encoding": content_encoding,
    }


def as_text(payload: bytes | str) -> str:
    """Write a payload so that JSON can hold it."""
    return base64.b64encode(payload if isinstance(payload, bytes) else payload.encode()).decode()


def of(message: bytes) -> list[Body]:
    """Read from a kept message which bodies do not run if its job fails."""
    try:
        kept = unpack(message)
        root = kept["headers"].get("root_id")
        found = _decoded(kept) if kept["content_type"] == JSON else kept.get("bodies") or []
        # As the parts of a chain may say so, too, one may stand there more than once.
        return list({body.submission: body for body in (_body(each, kept, root) for each in found)}.values())
    except Exception:  # a message from anywhere, maybe one that nobody could read
        return []


def _decoded(kept: Mapping[str, Any]) -> list[dict[str, Any]]:
    payload = codecs.loads(base64.b64decode(kept["body"]), JSON, kept.get("content_encoding"), accept={JSON})
    return prepared(payload[2] or {}, _as_json) if isinstance(payload, (list, tuple)) else []


def _as_json(data: Any) -> tuple[str, str, str]:
    return JSON, "utf-8", dumps(data)


def _body(prepared: Mapping[str, Any], member: Mapping[str, Any], root: Any) -> Body:
    fields = {"root_id": root, "lang": "py", **prepared["headers"]}
    submission, was = named(fields["id"]), headers.find(member["headers"])
    trace_id = digest("trace", submission)
    stamp = Stamp(
        submission=submission,
        trace_id=trace_id,
        correlation_id=headers.identify(str(member["headers"].get("task")), member["headers"]).correlation_id,
        causation_id=was.submission if was else None,
        first_request_at=was.first_request_at if was else None,
    )
    headers.write(fields, stamp)
    message = pack({"v": 1, "task": {}, **prepared, "headers": fields})
    return Body(submission=submission, operation=fields["task"], task_id=fields["id"], message=message)


def _message(signature: Mapping[str, Any], rest: Sequence[Any], encode: Encode) -> dict[str, Any]:
    """Write a body's message, as far as it can be without what the members returned."""
    options = signature.get("options") or {}
    args, kwargs = list(signature.get("args") or ()), dict(signature.get("kwargs") or {})
    if not signature.get("immutable"):
        args = [RESULTS, *args]
    canvas = {
        "callbacks": _listed(options.get("link")) or None,
        "errbacks": _listed(options.get("link_error")) or None,
        # As Celery writes it: what comes next stands last.
        "chain": [*(options.get("chain") or ()), *reversed(rest)] or None,
        "chord": options.get("chord"),
    }
    queue = options.get("queue")
    return {
        "headers": {
            **{name: value for name, value in (options.get("headers") or {}).items() if name != headers.HEADER},
            "task": signature["task"],
            "id": str(frozen_id(signature)),
            "retries": 0,
            "timelimit": [options.get("time_limit"), options.get("soft_time_limit")],
            "ignore_result": bool(options.get("ignore_result")),
            "argsrepr": safe_text(repr(tuple(args)), 1024),
            "kwargsrepr": safe_text(repr(kwargs), 1024),
        },
        **content(args, kwargs, canvas, encode),
        "exchange": str(options.get("exchange") or ""),
        "routing_key": str(options.get("routing_key") or (queue if isinstance(queue, str) else "")),
        "priority": options.get("priority"),
        "correlation_id": None,
        "reply_to": None,
        "compression": None,
        "properties": {},
    }


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, Mapping) else list(value or ())


def unrun(body: Body, member: Job, now: Micros) -> Job:
    """Record a body as a job that was lost before it began. If it is sent after all, it runs."""
    return Job(
        submission=body.submission,
        operation=body.operation,
        task_id=safe_text(body.task_id, 250),
        trace_id=digest("trace", body.submission),
        correlation_id=member.correlation_id,
        causation_id=member.submission,
        status=Outcome.LOST,
        letter=True,
        failure=canonical_json({"type": "", "message": _why(member), "reason": Reason.CHORD_FAILED}),
        started_at=now,
        closed_at=now,
        keep_until=member.keep_until,
    )


def letter(body: Body, job: Job, member: Job, now: Micros) -> Letter:
    """Write the letter of a body that is not run."""
    return dead_letters.draft(job, now, Reason.CHORD_FAILED, text=_why(member), message=body.message)


def entries(body: Body, member: Job, now: Micros, *, filed: bool) -> list[HistoryEntry]:
    """Let the letters of a body and of a member tell of each other.

    Args:
        filed: the member has one.
    """
    told = [(body.submission, f"{_why(member)}: see {member.submission}")]
    if filed:
        text = f"body {body.operation} {body.task_id} of its chord is not run: see {body.submission}"
        told.append((member.submission, text))
    return [
        HistoryEntry(entry_id=new_id(), at=now, verb=Verb.CHORD_FAILED, submission=submission, text=text)
        for submission, text in told
    ]


def _why(member: Job) -> str:
    end = _ENDS.get(member.status, "failed")
    return f"not run because member {member.operation} {member.task_id} of its chord {end}"


_ENDS = {Outcome.REVOKED: "was revoked", Outcome.EXPIRED: "expired"}
