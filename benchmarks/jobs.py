"""Jobs without a worker: what an attempt asks of a store, and nothing else."""

from __future__ import annotations

import random
from itertools import cycle

from celery_replay.admission import Ask
from celery_replay.clock import SECOND, new_id
from celery_replay.facts import Delivery
from celery_replay.lifecycle import Ending
from celery_replay.records import Chunk, Failure, Job, evolve
from celery_replay.serialization import pack
from celery_replay.states import AckMode, Outcome
from celery_replay.stores.base import Store
from celery_replay.trace import Recorder

CANVAS_US = 30 * SECOND
KEEP_US = 30 * 24 * 3600 * SECOND


def _events(chance: random.Random) -> Chunk:
    """Record the ten events of an order's way, no two orders alike."""
    recorder = Recorder("", "", {"job": new_id(), "worker": "celery@web-7.shop.example/4711"})
    order, version = chance.randrange(10**7), chance.randrange(1, 40)
    recorder.record("received", plain={"queue": "orders", "redelivered": False})
    recorder.record("started", plain={"pool": "prefork"})
    recorder.record("order_loaded", domain=True, attributes={"pk": order, "version": version})
    recorder.record("cache_read", domain=True, attributes={"key": f"price:{chance.randrange(10**5)}", "hit": True})
    recorder.record("rate_quoted", domain=True, attributes={"carrier": "post", "cents": chance.randrange(10**4)})
    recorder.record("claimed", side_effect=True, step="buy_label")
    recorder.record("settled", side_effect=True, step="buy_label")
    recorder.record("shipment_saved", domain=True, attributes={"pk": chance.randrange(10**7), "version": 1})
    recorder.record("order_saved", domain=True, attributes={"pk": order, "version": version + 1})
    recorder.record("succeeded")
    (chunk,) = recorder.take()
    return chunk


class Jobs:
    """Jobs of one task, as an attempt takes them through the store."""

    def __init__(self, store: Store, operation: str, *, keyed: bool = True) -> None:
        self._store = store
        self._operation = operation
        self._keyed = keyed
        self._events = cycle([_events(random.Random(number)) for number in range(100)])
        self._message = pack({"v": 1, "task": {}, "headers": {"task": operation}, "body": f"{operation}/" * 60})

    def open(self) -> Job:
        """Open a new job."""
        submission = new_id()
        ask = Ask(
            delivery=self._delivery(submission),
            nonce=new_id(),
            task_id=submission,
            trace_id=submission,
            correlation_id=submission,
            key=f"order:{submission}" if self._keyed else "",
            claim=new_id() if self._keyed else None,
            lease_us=60 * SECOND,
            canvas_us=CANVAS_US,
            keep_us=KEEP_US,
            redelivery_us=3_900 * SECOND,
            ack=AckMode.LATE,
            worker="celery@benchmark",
            pid=1,
        )
        job = self._store.open(ask).facts.job
        assert job is not None
        return job

    def _delivery(self, submission: str) -> Delivery:
        return Delivery(submission=submission, operation=self._operation, generation=0, message=lambda: self._message)

    def close(self, job: Job, failure: Failure | None = None) -> None:
        """Close it: well, or with a dead letter."""
        ending = Ending(
            delivery=self._delivery(job.submission),
            nonce=job.nonce,
            claim=job.claim,
            outcome=Outcome.FAILED if failure else Outcome.SUCCEEDED,
            canvas=False,
            canvas_us=CANVAS_US,
            keep_us=KEEP_US,
            result=None if failure else '{"shipment": 4711, "label": "https://labels.carrier.example/7f3a9c"}',
            failure=failure,
            failure_json='{"type": "ValueError", "message": "no"}' if failure else None,
        )
        events = evolve(next(self._events), trace_id=job.trace_id, nonce=job.nonce)
        accepted, _ = self._store.close(job, ending, [events])
        assert accepted

    def run(self) -> None:
        """Let one succeed."""
        self.close(self.open())

    def fail(self, failure: Failure) -> None:
        """Let one fail."""
        self.close(self.open(), failure)
