"""Times counted from a clock that has not been read yet.

A shortcut is one statement, so its rules have to run before the store's clock is known. They run at time zero: each
time that they set is then a distance from now, and the statement adds the clock to just those columns. Reading the
clock first would be a round trip of its own; the worker's clock must not be used, since leases of all workers are
compared with one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from celery_replay.clock import Micros
from celery_replay.facts import Place
from celery_replay.records import Job, evolve

OPENED = ("fence", "lease_until", "started_at", "keep_until")
"""Times of a job that a first OPEN sets; `published_at` is the publisher's."""
CLOSED = ("reserved_until", "canvas_until", "closed_at", "keep_until")
"""Times of a job that CLOSE sets."""
FILED = ("first_seen", "last_failed")
"""Times of a letter."""
CLAIMED = ("claimed_at",)
"""Times of a step that its claim sets."""
ZERO: Micros = 0


def opened(job: Job, now: Micros) -> Job:
    """Return a job that was opened at time zero as one opened now."""
    values = {name: getattr(job, name) for name in OPENED}
    return evolve(job, **{name: value + now for name, value in values.items() if value is not None})


def granted(places: Sequence[Place], now: Micros, fences: Mapping[str, int]) -> tuple[Place, ...]:
    """Return leases that were granted at time zero as granted now, with the fences that they got."""
    return tuple(
        evolve(
            place,
            lease=evolve(
                place.lease,
                fence=fences[place.lease.resource],
                acquired_at=now,
                until=now + (place.lease.until or ZERO),
                keep_until=now + place.lease.keep_until,
            ),
        )
        for place in places
    )
