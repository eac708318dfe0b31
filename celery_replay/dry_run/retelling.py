"""A job without a dead letter: its message where that is kept, else one that is made of what its trace tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..policy import TaskPolicy
from ..records import Job, evolve
from ..redaction import REDACTED
from ..replay import message as messages
from ..replay.fitting import call_of
from ..replay.message import PayloadUnreadable
from ..serialization import unpack
from ..stores.base import Store
from ..trace import put_aside
from .recording import Recording, last_run, recording_of


def without_letter(store: Store, job: Job, policy: TaskPolicy | None, *, depth: int = 0) -> Recording:
    """Read what is kept of a job that has no dead letter.

    Args:
        policy: of its task; None where today's code has no such task.
        depth: how deep what the job had published is read, too.

    Raises:
        PayloadUnreadable: its arguments were not kept, or are not JSON; the message says what keeps them.
        PayloadUnfit: today's code can't be called with them.
    """
    if job.message or policy is None:
        return recording_of(store, job, job.message or b"", depth=depth)
    named = _arguments(store, job)
    args, kwargs = call_of(policy, named)
    message = messages.made(
        job.operation, args, kwargs, submission=job.submission, task_id=job.task_id, retries=job.generation
    )
    gone = ", ".join(name for name, value in named.items() if REDACTED in str(value))
    told = "as the trace tells them: what is no JSON is text"
    told += f"; redacted, so give it by --set: {gone}" if gone else ""
    return evolve(recording_of(store, job, message, depth=depth), told=told)


def _arguments(store: Store, job: Job) -> Mapping[str, Any]:
    started = next((event for event in last_run(store, job) if event.name == "started"), None)
    found: Any = started.attributes.get("arguments") if started is not None else None
    if put_aside(found):
        body = store.blobs([found["blob"]]).get(found["blob"])
        found = unpack(body) if body is not None else None
    if not isinstance(found, dict):
        raise PayloadUnreadable(
            f"the message of a job that is {job.status} is not kept; of later jobs the arguments are in the trace, "
            'if the task declares capture="full", or the setting replay_capture says so'
        )
    return found
