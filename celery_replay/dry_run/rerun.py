"""Runs a recorded job once more, in a process that is locked by now; returns what happened as JSON data."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Sequence
from typing import Any

from kombu.entity import Queue

from .. import headers
from ..policy import TaskPolicy
from ..records import Event, Job
from ..replay import message as messages
from ..request import ReplayRequest
from ..runtime import runtime_of
from ..stores.memory import MemoryStore
from ..trace import timeline
from . import moments, states, surroundings
from .moments import told
from .recording import Recording, reads_of
from .stand_ins import StandIns
from .variation import Variation

Data = dict[str, Any]
_OF_THE_BROKER = {"eta": None, "expires": None, "group": None, "group_index": None}


class _Delivery(ReplayRequest):
    """A message that nobody waits to have acknowledged."""

    def acknowledge(self) -> None:
        """Do nothing."""

    def reject(self, requeue: bool = False) -> None:
        """Do nothing, and tell no steward."""


def rerun(
    app: Any, recording: Recording, variation: Variation, policy: TaskPolicy, soft_limit_s: float | None = None
) -> Data:
    """Deliver the recorded message to the task's code of today, and tell what became of it."""
    stand_ins = StandIns(recording, variation)
    store = surroundings.enter(app, stand_ins)
    runtime_of(app).use_policy(policy)
    with surroundings.as_then(recording.started_at, recording.job.submission) as odd:
        request = _received(app, recording)
        surroundings.published.clear()
        running = {*threading.enumerate()}
        with surroundings.limited(soft_limit_s):
            request.execute()
        left = [thread.name for thread in threading.enumerate() if thread not in running and _is_theirs(thread)]
        runtime_of(app).heartbeat.drain()
    job = store.job(headers.identify(request.task.name, request.request_dict).submission)
    events = timeline(store, job.trace_id) if job is not None else []
    return {
        "outcome": str(job.status) if job is not None else None,
        "key": job.key if job is not None else None,
        "failure": json.loads(job.failure) if job is not None and job.failure else None,
        "result": _result(job),
        "events": [told(event) for event in events],
        "outputs": _outputs(store, job, events),
        "missing": stand_ins.missing,
        "published": [*surroundings.published],
        "left_running": left,
        "unlike": odd,
        **states.told(recording, variation, events, store.blobs, reached=stand_ins.reached),
    }


def _is_theirs(thread: threading.Thread) -> bool:
    return not thread.name.startswith("celery-replay")


def _received(app: Any, recording: Recording) -> _Delivery:
    """Send the message through a broker in memory, so that a worker's own code makes a request of it."""
    kept = messages.unpack_message(recording.message)
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        Queue(surroundings.QUEUE, exchange="", routing_key=surroundings.QUEUE)(channel).declare()
        with connection.Producer() as producer:
            producer.publish(
                _body(recording, kept),
                routing_key=surroundings.QUEUE,
                exchange="",
                content_type=kept["content_type"],
                content_encoding=kept["content_encoding"],
                headers={**kept["headers"], **_OF_THE_BROKER},
                correlation_id=kept["headers"].get("id"),
            )
        message = Queue(surroundings.QUEUE)(channel).get(no_ack=True, accept=["json"])
        return _Delivery(message, app=app, hostname="dry-run", task=app.tasks[kept["headers"]["task"]])


def _body(recording: Recording, kept: Data) -> Any:
    """Leave out the chord: it counts members that are not here. Callbacks are published, and told of."""
    payload = recording.payload
    if not payload.canvas.get("chord"):
        return base64.b64decode(kept["body"])
    empty = {"callbacks": None, "errbacks": None, "chain": None}
    return json.dumps([payload.args, payload.kwargs, {**empty, **payload.canvas, "chord": None}]).encode()


def _outputs(store: MemoryStore, job: Job | None, events: Sequence[Event]) -> dict[str, str]:
    reads = {call: moments.brief(text) for call, text in reads_of(store, events).items()}
    return {**reads, **moments.outputs(store.steps(job.identity))} if job is not None else reads


def _result(job: Job | None) -> Any:
    return json.loads(job.result) if job is not None and job.result else None
