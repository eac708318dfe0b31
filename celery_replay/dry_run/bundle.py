"""A recorded job as one file, `*.replay.json`: a test that needs no service. It is only data, without secrets.

Formats are read for ever; a newer one than this version knows is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..cache_reads import CacheRead
from ..exceptions import ReplayError, SnapshotUnreadable
from ..records import Event, Job, StepRecord
from ..redaction import REDACTED, is_secret, redact_text
from ..replay import message as messages
from ..snapshots.capture import BEFORE
from ..snapshots.reading import Taken
from ..snapshots.tree import Bodies, Tree, build
from ..snapshots.values import decoded, encoded, plain
from ..states import Outcome, StepState
from .comparison import Ends
from .moments import LEASES, PUBLISHED, STEPS
from .recording import Recording

FORMAT = 1
SUFFIX = ".replay.json"

Data = dict[str, Any]

_SAID = ("error", "type", "message", "call_digest", "input_digest", "resource", "task")
_TOLD = (*STEPS, *LEASES, PUBLISHED, "time_read")


class BundleUnreadable(ReplayError):
    """The bundle is damaged, or of a newer version; the message says which."""

    id = "bundle-unreadable"


def exported(recording: Recording, expects: Ends = Ends.WELL) -> str:
    """Write a recording down.

    Args:
        expects: how a run by today's code is to end.
    """
    job, before = recording.job, recording.before
    data = {
        "celery_replay_bundle": FORMAT,
        "task": job.operation,
        "expects": str(expects),
        "payload": {"args": _shown(recording.payload.args), "kwargs": _shown(recording.payload.kwargs)},
        "job": {"submission": job.submission, "task_id": job.task_id, "retries": job.generation},
        "ended": {"outcome": str(job.status), "failure": _shown(json.loads(job.failure)) if job.failure else None},
        "started_at": recording.started_at,
        "steps": [_step(step) for _, step in sorted(recording.steps.items())],
        "reads": {call: _shown(json.loads(output)) for call, output in sorted(recording.reads.items())},
        "cache_reads": [_cache_read(read) for read in recording.cache_reads],
        "moments": [_moment(event) for event in recording.events if event.domain or event.name in _TOLD],
        "state": _state(before) if before is not None else None,
    }
    return json.dumps(data, indent=1, ensure_ascii=True) + "\n"


def imported(text: str) -> tuple[Recording, Ends]:
    """Read a bundle; return the recording, and how a run is to end. Nothing in it can be executed.

    Raises:
        BundleUnreadable: it is damaged, or of a newer version.
    """
    try:
        data = json.loads(text)
        version = data["celery_replay_bundle"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BundleUnreadable("this is no bundle") from error
    if version != FORMAT:
        raise BundleUnreadable(f"the bundle is of format {version!r}, and this version knows {FORMAT}; update")
    try:
        return _recording(data), Ends(data["expects"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SnapshotUnreadable) as error:
        raise BundleUnreadable(f"the bundle is damaged: {type(error).__name__}: {error}") from error


def _step(step: StepRecord) -> Data:
    output = _shown(json.loads(step.output)) if step.output is not None else None
    kept = {"key": redact_text(step.key), "name": step.name, "state": str(step.state)}
    return {**kept, "output": output, "has_output": step.output is not None}


def _cache_read(read: CacheRead) -> Data:
    named = {"call": read.call, "cache": read.cache, "key": read.key, "version": read.version}
    return {**named, "hit": read.hit, "value": read.shown, "has_value": read.body is not None}


def _moment(event: Event) -> Data:
    said = {name: redact_text(str(event.attributes[name])) for name in _SAID if name in event.attributes}
    flags = {"domain": event.domain, "side_effect": event.side_effect}
    when = {"at": event.at} if event.name == "time_read" else {}
    return {"name": event.name, "step": event.step, "status": event.status, **flags, "said": said, **when}


def _state(tree: Tree) -> Data:
    return {name: {record: plain(decoded(body)) for record, body in tree.records(name).items()} for name in tree.names}


def _shown(value: Any, name: str = "") -> Any:
    """Replace what has a secret name by something of its type, and secrets in texts."""
    if name and is_secret(name):
        return _stand_in(value)
    if isinstance(value, Mapping):
        return {str(key): _shown(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown(item) for item in value]
    return redact_text(value) if isinstance(value, str) else plain(value)


def _stand_in(value: Any) -> Any:
    return REDACTED if isinstance(value, str) else type(value)() if value is not None else None


def _recording(data: Data) -> Recording:
    message = _message(data)
    blobs, snapshots = _snapshot(data["state"]) if data["state"] is not None else ({}, {})
    job = data["job"]
    ended = data["ended"]
    return Recording(
        job=Job(
            submission=_text(job["submission"]),
            operation=_text(data["task"]),
            task_id=_text(job["task_id"]),
            trace_id=_text(job["submission"]),
            correlation_id=_text(job["submission"]),
            status=Outcome(ended["outcome"]),
            failure=json.dumps(dict(ended["failure"])) if ended["failure"] is not None else None,
        ),
        message=message,
        payload=messages.read(message),
        events=_events(data["moments"]),
        steps={step.key: step for step in map(_step_of, data["steps"])},
        reads={_text(call): json.dumps(output) for call, output in data["reads"].items()},
        cache_reads=[*map(_cache_read_of, data.get("cache_reads", ()))],
        started_at=int(data["started_at"]),
        blobs=blobs,
        snapshots=snapshots,
    )


def _message(data: Data) -> bytes:
    job, payload = data["job"], data["payload"]
    named = {"submission": _text(job["submission"]), "task_id": _text(job["task_id"])}
    return messages.made(_text(data["task"]), payload["args"], payload["kwargs"], retries=int(job["retries"]), **named)


def _snapshot(states: Mapping[str, Mapping[str, Any]]) -> tuple[Mapping[str, bytes], Mapping[str, Taken]]:
    bodies: dict[str, Bodies] = {
        str(name): {str(record): encoded(decoded(json.dumps(fields).encode())) for record, fields in records.items()}
        for name, records in states.items()
    }
    built = build(bodies)
    told = Taken(when=BEFORE, at=0, attempt="", reference=built.reference, records=built.count)
    return built.blobs, {BEFORE: told}


def _events(moments: Iterable[Mapping[str, Any]]) -> Sequence[Event]:
    return [
        Event(
            name=_text(moment["name"]),
            at=int(moment.get("at", 0)),
            attempt="",
            step=None if moment["step"] is None else _text(moment["step"]),
            status=_text(moment["status"]),
            domain=bool(moment["domain"]),
            side_effect=bool(moment["side_effect"]),
            attributes={name: _text(moment["said"][name]) for name in _SAID if name in moment["said"]},
        )
        for moment in moments
    ]


def _step_of(step: Mapping[str, Any]) -> StepRecord:
    return StepRecord(
        scope="",
        key=_text(step["key"]),
        name=_text(step["name"]),
        state=StepState(step["state"]),
        nonce="",
        output=json.dumps(step["output"]) if step["has_output"] else None,
    )


def _cache_read_of(read: Mapping[str, Any]) -> CacheRead:
    body = encoded(decoded(json.dumps(read["value"]).encode())) if read["has_value"] else None
    named = {name: _text(read[name]) for name in ("call", "cache", "key")}
    return CacheRead(**named, version=read["version"], hit=bool(read["hit"]), body=body)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where text is expected")
    return value
