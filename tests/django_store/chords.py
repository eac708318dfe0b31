"""Chords whose parts a test returns by hand; what the backend publishes goes to queues in this process's memory."""

from __future__ import annotations

import uuid
from typing import Any

from celery import Celery, Signature, chord
from celery.app.task import Context
from celery.result import GroupResult

from django_celery_replay.results import DatabaseBackend


def make_app() -> Celery:
    """Make an app with our backend; each has a queue of its own."""
    app = Celery(
        "chords",
        task_cls="django_celery_replay:ReplayTask",
        broker="memory://",
        backend="django_celery_replay.results:DatabaseBackend",
        set_as_current=False,
    )
    app.conf.task_default_queue = f"chords-{uuid.uuid4().hex}"
    for name in ("part", "body", "other"):
        app.task(name=name, shared=False)(_anything)
    return app


def _anything(*_: Any) -> None:
    """Be a task that nobody runs."""


class Chord:
    """A chord that was sent: its members' messages are taken from the queue, and are this object's."""

    def __init__(self, app: Celery, members: int | list[Signature], body: Signature | None = None) -> None:
        self.app = app
        part = app.signature("part")
        header = [part.clone() for _ in range(members)] if isinstance(members, int) else members
        result = chord(header, body or app.signature("body"), app=app).apply_async()
        self.id = result.results[0].id if isinstance(result, GroupResult) else result.id
        self.requests = [request_of(message) for message in published(app)]

    @property
    def backend(self) -> DatabaseBackend:
        """The backend; Celery has one per thread."""
        found: DatabaseBackend = self.app.backend
        return found

    def end(self, number: int, value: Any = None, **how: Any) -> None:
        """Let a member succeed, as Celery's tracer does."""
        request = self.requests[number]
        self.backend.mark_as_done(request.id, number if value is None else value, request, **how)

    def fail(self, number: int) -> None:
        """Let a member fail, as Celery's tracer does."""
        request = self.requests[number]
        self.backend.mark_as_failure(request.id, ValueError(f"part {number}"), request=request)

    def bodies(self) -> list[Any]:
        """Take the messages that were published since, each as its task's first argument."""
        return [message.payload[0][0] for message in published(self.app)]


def published(app: Celery) -> list[Any]:
    """Take all messages from an app's queue."""
    found = []
    with app.connection_for_read() as connection:
        queue = connection.SimpleQueue(app.conf.task_default_queue)
        while queue.qsize():
            found.append(queue.get_nowait())
            found[-1].ack()
        queue.close()
    return found


def request_of(message: Any) -> Context:
    """Return the request that a worker makes of a message."""
    args, kwargs, embedded = message.payload
    return Context({**message.headers, **embedded, "args": args, "kwargs": kwargs})
