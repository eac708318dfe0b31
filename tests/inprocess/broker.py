"""kombu's memory transport, which also remembers every message as the bytes that went over the wire."""

from __future__ import annotations

import json
import uuid
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, memory

sent: list[str] = []
"""Every message that any channel put into any queue, as JSON, in their order."""


class Channel(memory.Channel):
    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        sent.append(json.dumps([queue, message]))
        super()._put(queue, message, **options)


class Transport(memory.Transport):
    Channel = Channel


TRANSPORT_ALIASES["remembering"] = f"{__name__}:Transport"
URL = "remembering://localhost"


class Copy:
    """One message of the past, to be looked at and to be put into its queue again."""

    def __init__(self, line: str) -> None:
        self.queue, self.message = json.loads(line)
        self.headers: dict[str, Any] = self.message["headers"]
        self.size = len(line)

    def deliver(self, connection: Any) -> None:
        """Put the same bytes into the queue again, as a broker does that redelivers."""
        message = json.loads(json.dumps(self.message))
        message["properties"]["delivery_tag"] = str(uuid.uuid4())
        message["properties"]["delivery_info"]["redelivered"] = True
        connection.default_channel._put(self.queue, message)


def copies(task_id: str) -> list[Copy]:
    """Return a task id's messages, oldest first."""
    found = [Copy(line) for line in sent if task_id in line]
    return [copy for copy in found if copy.headers.get("id") == task_id]
