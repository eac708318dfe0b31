"""Times counted from a clock that has not been read yet.

A shortcut is one statement, so its rules have to run before the store's clock is known. They run at time zero: each
time that they set is then a distance from now, and the statement adds the clock to just those columns. Reading the
clock first would be a round trip of its own; the worker's clock must not be used, since leases of all workers are
compared with one another.
"""

from __future__ import annotations

from typing import TypeVar

from celery_replay.clock import Micros
from celery_replay.records import AttemptRecord, Job, evolve

OPENED = ("fence", "lease_until", "started_at", "keep_until")
"""Times of a job that a first OPEN sets; `published_at` is the publisher's."""
CLOSED = ("reserved_until", "canvas_until", "closed_at", "keep_until")
"""Times of a job that CLOSE sets."""
ENDED = ("ended_at",)
"""Times of an attempt that CLOSE sets."""
CLAIMED = ("claimed_at",)
"""Times of a step that its claim sets."""
ZERO: Micros = 0

T = TypeVar("T", Job, AttemptRecord)


def placed(record: T, names: tuple[str, ...], now: Micros) -> T:
    """Return a record with its distances turned into times."""
    values = {name: getattr(record, name) for name in names}
    return evolve(record, **{name: value + now for name, value in values.items() if value is not None})
