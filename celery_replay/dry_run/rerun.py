"""Runs a recorded job once more, in a process that is locked by now; returns what happened as JSON data."""

from __future__ import annotations

import base64
import json
from typing import Any

from kombu.entity import Queue

from ..policy import TaskPolicy
from ..replay import message as messages
from ..runtime import runtime_of
from . import surroundings
from .cache_record import CacheRecord
from .delivering import Deliverer
from .following import follow
from .recording import Recording
from .variation import Variation

Data = dict[str, Any]
_OF_THE_BROKER = {"eta": None, "expires": None, "group": None, "group_index": None}


def rerun(
    app: Any,
    recording: Recording,
    variation: Variation,
    policy: TaskPolicy,
    caches: CacheRecord,
    soft_limit_s: float | None = None,
) -> Data:
    """Deliver the recorded message to the task's code of today, and tell what became of it."""
    store = surroundings.enter(app)
    runtime_of(app).use_policy(policy)
    with surroundings.as_then(recording.started_at, recording.job.submission) as odd:
        message = _received(app, recording)
        surroundings.published.clear()
        deliverer = Deliverer(app, store, variation, caches)
        first = deliverer.deliver(message, recording, soft_limit_s)
        followed = follow(deliverer, first, variation) if variation.follow else None
    return {**first.told, "unlike": odd, "followed": followed}


def _received(app: Any, recording: Recording) -> Any:
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
        return Queue(surroundings.QUEUE)(channel).get(no_ack=True, accept=["json"])


def _body(recording: Recording, kept: Data) -> Any:
    """Leave out the chord: it counts members that are not here. Callbacks are published, and told of."""
    payload = recording.payload
    if not payload.canvas.get("chord"):
        return base64.b64decode(kept["body"])
    empty = {"callbacks": None, "errbacks": None, "chain": None}
    return json.dumps([payload.args, payload.kwargs, {**empty, **payload.canvas, "chord": None}]).encode()
