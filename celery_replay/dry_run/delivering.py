"""One delivery in a dry run: the worker's own request runs it, and its record in memory tells what became of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import headers
from ..records import Event, Job
from ..request import ReplayRequest
from ..runtime import runtime_of
from ..stores.memory import MemoryStore
from ..trace import timeline
from . import moments, states, surroundings
from .cache_record import CacheRecord
from .recording import Recording, reads_of
from .stand_ins import StandIns
from .surroundings import Sent
from .variation import Variation

Data = dict[str, Any]


class _Delivery(ReplayRequest):
    """A message that nobody waits to have acknowledged."""

    def acknowledge(self) -> None:
        """Do nothing."""

    def reject(self, requeue: bool = False) -> None:
        """Do nothing, and tell no steward."""


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """What became of a delivery."""

    task_id: str
    recording: Recording = field(repr=False)
    told: Data = field(repr=False)
    sent: Sequence[Sent] = ()
    """What it has published."""
    reached: bool = False
    """Its steps were live at its end: what it has published comes after that."""


class Deliverer:
    """Delivers messages, one after the other, to an app that is in a dry run's surroundings."""

    def __init__(self, app: Any, store: MemoryStore, variation: Variation, caches: CacheRecord) -> None:
        self.app = app
        self._store = store
        self._variation = variation
        self._caches = caches

    def deliver(
        self, message: Any, recording: Recording, soft_limit_s: float | None = None, *, reached: bool = False
    ) -> Delivered:
        """Deliver a message.

        Args:
            recording: what is recorded of its job.
            reached: its steps are live from the beginning, unless they are told what they give.
        """
        runtime = runtime_of(self.app)
        runtime.understudy = stand_ins = StandIns(recording, self._variation, reached=reached)
        self._caches.take(recording.cache_reads)
        request = _Delivery(message, app=self.app, hostname="dry-run", task=self.app.tasks[message.headers["task"]])
        running = {*threading.enumerate()}
        with surroundings.limited(soft_limit_s):
            request.execute()
        left = [thread.name for thread in threading.enumerate() if thread not in running and _is_theirs(thread)]
        runtime.heartbeat.drain()
        sent = [*surroundings.published]
        surroundings.published.clear()
        job = self._store.job(headers.identify(request.task.name, request.request_dict).submission)
        told = self._told(job, recording, stand_ins)
        told |= {"published": [one.said for one in sent], "left_running": left}
        return Delivered(task_id=str(request.id), recording=recording, told=told, sent=sent, reached=stand_ins.reached)

    def _told(self, job: Job | None, recording: Recording, stand_ins: StandIns) -> Data:
        # Of a job that was delivered before, there are other attempts.
        events = [one for one in timeline(self._store, job.trace_id) if one.attempt == job.nonce] if job else []
        return {
            "outcome": str(job.status) if job is not None else None,
            "key": job.key if job is not None else None,
            "failure": json.loads(job.failure) if job is not None and job.failure else None,
            "result": json.loads(job.result) if job is not None and job.result else None,
            "events": [moments.told(event) for event in events],
            "outputs": self._outputs(job, events),
            "missing": stand_ins.missing,
            **states.told(recording, self._variation, events, self._store.blobs, reached=stand_ins.reached),
        }

    def _outputs(self, job: Job | None, events: Sequence[Event]) -> dict[str, str]:
        reads = {call: moments.brief(text) for call, text in reads_of(self._store, events).items()}
        return {**reads, **moments.outputs(self._store.steps(job.identity))} if job is not None else reads


def _is_theirs(thread: threading.Thread) -> bool:
    return not thread.name.startswith("celery-replay")
