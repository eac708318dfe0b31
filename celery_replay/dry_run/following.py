"""What a dry run publishes, run in the same sandbox: children, callbacks, the next of a chain, retries."""

from __future__ import annotations

from collections import deque
from typing import Any

from kombu.serialization import prepare_accept_content

from ..records import Job
from ..replay.message import Payload
from ..serialization import JSON
from ..tracebacks import name_of
from .delivering import Delivered, Deliverer
from .recording import Recording
from .surroundings import Sent
from .variation import Variation

Data = dict[str, Any]

_TOLD = ("outcome", "failure", "result", "missing", "published", "left_running", "state")


def follow(deliverer: Deliverer, first: Delivered, variation: Variation) -> list[Data]:
    """Deliver what was published, and what that publishes, in its order; tell of each what became of it, or why not."""
    taken: set[int] = set()
    told: list[Data] = []
    ran = 0
    waiting = deque((one, 1, first) for one in first.sent)
    while waiting:
        sent, depth, by = waiting.popleft()
        about = {"task": sent.said, "task_id": sent.headers.get("id"), "by": by.task_id, "depth": depth}
        why = _why_not(deliverer.app, sent) or _bound(variation, depth, ran)
        if why is not None:
            told.append({**about, "not_followed": why})
            continue
        ran += 1
        task = deliverer.app.tasks[sent.said]
        try:
            message, recording = _message(deliverer.app, sent), _recorded(by, sent, taken)
            done = deliverer.deliver(message, recording, task.soft_time_limit, reached=by.reached)
        except Exception as error:  # a message that is none of Celery's; a worker would throw it away
            told.append({**about, "not_followed": f"it can't be read: {name_of(error)}"})
            continue
        told.append({**about, "recorded": bool(done.recording.events), **{name: done.told[name] for name in _TOLD}})
        waiting += ((one, depth + 1, done) for one in done.sent)
    return told


def _why_not(app: Any, sent: Sent) -> str | None:
    if not sent.headers.get("task"):
        return "it is no job"
    task = app.tasks.get(sent.said)
    if task is None:
        return "there is no such task in today's code"
    if not hasattr(task, "replay_target"):
        return "its task is no ReplayTask"
    return None if sent.message.get("content-type") == JSON else "only JSON is decoded"


def _bound(variation: Variation, depth: int, ran: int) -> str | None:
    if depth > variation.follow:
        return f"it is deeper than {variation.follow}"
    return f"{ran} jobs have been run" if ran >= variation.follow_jobs else None


def _message(app: Any, sent: Sent) -> Any:
    with app.connection_for_write() as connection:
        message = connection.default_channel.message_to_python(sent.message)
    message.accept = prepare_accept_content(["json"])
    return message


def _recorded(by: Delivered, sent: Sent, taken: set[int]) -> Recording:
    """Find what is recorded of a job: the next one of its task that the original had published; or nothing.

    Its ids were others then. Which call gets which output, the keys of its steps decide.
    """
    if sent.headers.get("id") == by.task_id and sent.said == by.recording.job.operation:
        return by.recording
    for child in by.recording.children:
        if child.job.operation == sent.said and id(child) not in taken:
            taken.add(id(child))
            return child
    unknown = str(sent.headers.get("id"))
    job = Job(submission=unknown, operation=sent.said, task_id=unknown, trace_id=unknown, correlation_id=unknown)
    return Recording(
        job=job,
        message=b"",
        payload=Payload(args=(), kwargs={}, canvas={}),
        events=(),
        steps={},
        started_at=by.recording.started_at,
    )
