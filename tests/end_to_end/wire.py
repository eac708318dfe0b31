"""Raw messages: taken off a queue and put on again as often as a test likes, as brokers do. Runs in a producer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

_PROPERTIES = ("correlation_id", "reply_to", "priority", "delivery_mode")


@dataclass
class Wire:
    """One message as it is on the wire."""

    body: Any
    headers: dict[str, Any]
    content_type: str = "application/json"
    content_encoding: str = "utf-8"
    properties: dict[str, Any] = field(default_factory=dict)


def take(app: Any, queue: str, count: int, patience_s: float = 20) -> list[Wire]:
    """Take messages off a queue that nobody consumes."""
    taken: list[Wire] = []
    deadline = time.monotonic() + patience_s
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        app.amqp.queues[queue](channel).declare()
        while len(taken) < count:
            message = channel.basic_get(queue, no_ack=True)
            if message is not None:
                known = {name: message.properties.get(name) for name in _PROPERTIES}
                kept = {name: value for name, value in known.items() if value is not None}
                taken.append(
                    Wire(message.body, dict(message.headers), message.content_type, message.content_encoding, kept)
                )
            elif time.monotonic() > deadline:
                raise TimeoutError(f"{len(taken)} of {count} messages in {queue}")
            else:
                time.sleep(0.02)
    return taken


def put(app: Any, queue: str, *wires: Wire) -> None:
    """Put messages on a queue, as they were."""
    with app.connection_for_write() as connection:
        producer = connection.Producer()
        for wire in wires:
            producer.publish(
                wire.body,
                routing_key=queue,
                headers=wire.headers,
                content_type=wire.content_type,
                content_encoding=wire.content_encoding,
                declare=[app.amqp.queues[queue]],
                **wire.properties,
            )
