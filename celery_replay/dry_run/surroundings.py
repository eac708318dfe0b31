"""What a dry run has in place of broker, result backend, store, clock and chance. For a process that ends with it."""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from celery import signals
from celery.exceptions import SoftTimeLimitExceeded
from celery.utils.dispatch import Signal
from kombu.transport import TRANSPORT_ALIASES, memory

from ..clock import SECOND, Micros
from ..runtime import use_store
from ..serialization import digest
from ..stores.memory import MemoryStore

QUEUE = "celery-replay-dry-run"
_URLS = ("broker_url", "broker_read_url", "broker_write_url")


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A message that was sent to any queue or worker."""

    said: str
    """The name of a task, or where else it went."""
    message: dict[str, Any] = field(repr=False)
    """As the broker has it."""

    @property
    def headers(self) -> dict[str, Any]:
        """Its headers; those of a job name a task."""
        return self.message.get("headers") or {}


published: list[Sent] = []
"""What was sent since the process began, or since it was looked at."""


class _Channel(memory.Channel):
    """Notes what is published; it stays in this process's memory."""

    def basic_publish(self, message: Any, exchange: str, routing_key: str, **options: Any) -> Any:
        """Note where it goes, and keep it."""
        task = (message.get("headers") or {}).get("task")
        published.append(Sent(said=str(task or f"a message to {exchange or routing_key}"), message=message))
        return super().basic_publish(message, exchange, routing_key, **options)  # type: ignore[no-untyped-call]


class _Transport(memory.Transport):
    Channel = _Channel


TRANSPORT_ALIASES["celery-replay-dry-run"] = f"{__name__}:_Transport"
_BROKER = "celery-replay-dry-run://"
_OF_THE_WORKER = ("celery.", "celery_replay", "django_celery_replay", "kombu.")
_NAMED_BY = ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL", "CELERY_RESULT_BACKEND")


def enter(app: Any) -> MemoryStore:
    """Give an app a broker, results and records of its own, in this process's memory, for as long as it lives."""
    _listen_to_nobody()
    for name in _NAMED_BY:
        # They come before any setting.
        os.environ.pop(name, None)
    app.conf.update(
        dict.fromkeys(_URLS, _BROKER),
        broker_transport_options={"polling_interval": 0},
        broker_use_ssl=False,
        result_backend="cache+memory://",
        worker_send_task_events=False,
        task_send_sent_event=False,
    )
    # What was made of the settings before: pools, producers, the backend of each thread.
    app._pool = None
    app.amqp._producer_pool = None
    app._backend_cache = None
    app._local = threading.local()
    for task in app.tasks.values():
        task._backend = None
    store = MemoryStore()
    use_store(app, store)
    return store


def _listen_to_nobody() -> None:
    """Take off what reports to others: handlers of logs, and the project's receivers of Celery's signals.

    What they try would be refused, and taken for the body's. What is logged goes to standard error.
    """
    for logger in (logging.root, *logging.root.manager.loggerDict.values()):
        # Of the others there is only the name as yet.
        if isinstance(logger, logging.Logger):
            logger.handlers = []
    logging.root.addHandler(logging.StreamHandler())
    # The comparison tells how it ended.
    logging.getLogger("celery.app.trace").disabled = True
    for one in (found for found in vars(signals).values() if isinstance(found, Signal)):
        one.receivers = [pair for pair in one.receivers or () if _is_the_workers(pair[1])]


def _is_the_workers(receiver: Any) -> bool:
    found = receiver() if isinstance(receiver, weakref.ref) else receiver
    return str(getattr(found, "__module__", "")).startswith(_OF_THE_WORKER)


@contextmanager
def limited(soft_limit_s: float | None) -> Iterator[None]:
    """Raise SoftTimeLimitExceeded in the body after so many seconds, as a worker does."""
    if not soft_limit_s:
        yield
        return

    def exceeded(*_: object) -> None:
        raise SoftTimeLimitExceeded

    before = signal.signal(signal.SIGALRM, exceeded)
    signal.setitimer(signal.ITIMER_REAL, soft_limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def as_then(started_at: Micros, seed: str) -> Iterator[list[str]]:
    """Let time, random numbers and ids follow the recording as far as they can; yield what does not.

    Args:
        started_at: the clock goes on from there.
        seed: the same gives the same random numbers.
    """
    chance = random.Random(digest("dry run", seed))
    random.seed(chance.random())
    urandom, os.urandom = os.urandom, chance.randbytes
    uuid._node = chance.getrandbits(47)  # type: ignore[attr-defined]
    # Else it would be asked of the network.
    socket.getfqdn = lambda name="": name or socket.gethostname()
    unlike = [
        "the database's own clock", "monotonic clocks", "times of files", "`secrets` and `SystemRandom`",
        "results of other tasks", "answers of workers",
    ]  # fmt: skip
    try:
        import time_machine
    except ImportError:
        unlike.insert(0, "the clock (install celery-replay[replay])")
        travel = None
    else:
        travel = time_machine.travel(datetime.fromtimestamp(started_at / SECOND, timezone.utc), tick=True)
        travel.start()
    try:
        yield unlike
    finally:
        os.urandom = urandom
        if travel is not None:
            travel.stop()
