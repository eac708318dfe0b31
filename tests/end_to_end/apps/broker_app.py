"""Tasks that tell how their message came."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import Any

from kombu import Exchange, Queue
from kombu.transport import filesystem
from kombu.utils.json import dumps

from tests.end_to_end.apps.project import exists, make_app, post


def _put_whole(channel: Any, queue: str, payload: Any, **_: Any) -> None:
    """Let a message appear once it is written: kombu shows it before, and a worker that reads it then ends."""
    message = Path(channel.data_folder_out, f"{time.monotonic_ns()}_{uuid.uuid4()}.{queue}.msg")
    part = message.with_suffix(".part")
    part.write_text(dumps(payload))
    part.rename(message)


filesystem.Channel._put = _put_whole
app = make_app("brokers")
_name = app.conf.task_default_queue
_type = app.conf.get("test_exchange_type") or "direct"
_arguments = app.conf.get("test_queue_arguments") or {}
app.conf.task_default_exchange_type = _type
app.conf.task_queues = [
    Queue(_name, Exchange(_name, type=_type), routing_key=_name, queue_arguments=_arguments),
    # Reached by an exchange and a routing key of other names than its own.
    Queue(
        f"{_name}-side",
        Exchange(f"{_name}-exchange", type=_type),
        routing_key="side-key",
        queue_arguments=_arguments,
    ),
]


def message_of(request: Any) -> dict[str, Any]:
    """Return what is to survive of a message."""
    info = request.delivery_info or {}
    stamp = request.get("celery_replay") or {}
    return {
        "id": request.id,
        "submission": stamp.get("s"),
        "trace": stamp.get("t"),
        "retries": request.retries,
        "exchange": info.get("exchange") or "",
        "routing_key": info.get("routing_key"),
        "priority": info.get("priority"),
        "tenant": request.get("tenant"),
        "nothing": request.get("nothing", "absent"),
        "stamps": request.stamps,
        "stamped_headers": request.stamped_headers,
        "eta": request.eta,
        "broker_headers": sorted(name for name in vars(request) if name.startswith("x-")),
    }


@app.task(name="order", bind=True, idempotency_key="order:{key}", on_incomplete="resume")
def order(self: Any, key: str, payload: Any = None) -> Any:
    """Tell how the message came; where its headers say so, hold the key until the test gives its sign, and fail."""
    post("begun", key)
    if self.request.get("hold"):
        while not exists("sign", key):
            time.sleep(0.05)
        raise ValueError(key)
    post("done", key)
    return {**message_of(self.request), "payload": payload}


@app.task(name="flaky", bind=True, max_retries=10)
def flaky(self: Any, reference: str, fails: int, countdown: float = 0) -> Any:
    """Ask for retries until it has failed often enough."""
    post("tries", reference)
    if self.request.retries < fails:
        raise self.retry(countdown=countdown)
    post("done", reference)
    return message_of(self.request)


@app.task(name="where")
def where() -> int:
    """Return the id of the process."""
    return os.getpid()
