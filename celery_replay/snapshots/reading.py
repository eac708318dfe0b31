"""Snapshots as a trace tells of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..clock import Micros
from ..exceptions import SnapshotUnreadable
from ..records import AttemptRecord, Event, Job
from ..trace import story
from .tree import Fetch, Tree


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One snapshot of one attempt."""

    when: str
    """`before` and `after` the body, or the name of a moment in between."""
    at: Micros
    attempt: str
    reference: str
    records: int
    fence: int | None = None
    """Token of the attempt's lease on its job, which tells older owners from newer ones."""


def taken(events: Iterable[Event], attempt: str = "") -> Sequence[Taken]:
    """Return the snapshots that events tell of, in their order.

    Args:
        attempt: only those of this attempt.
    """
    return [
        Taken(
            when=str(event.attributes["when"]),
            at=event.at,
            attempt=event.attempt,
            reference=str(event.attributes["snapshot"]["blob"]),
            records=int(event.attributes["records"]),
            fence=event.fence,
        )
        for event in events
        if event.name == "snapshot_taken" and "snapshot" in event.attributes and attempt in ("", event.attempt)
    ]


def numbered(job: Job, events: Iterable[Event], attempts: Iterable[AttemptRecord]) -> list[tuple[int, Taken]]:
    """Return the snapshots of a job, each with the number of its attempt, as its story counts them."""
    told = [event for event in events if event.job_id in ("", job.task_id)]
    numbers = {event.attempt: number for number, event in story(job, told, attempts)}
    return [(numbers.get(one.attempt, 0), one) for one in taken(told)]


def parts_of_each(events: Iterable[Event], fetch: Fetch) -> Mapping[str, Collection[str]]:
    """Return the references of all blobs that each snapshot of these events consists of, as far as they are there."""
    found: dict[str, Collection[str]] = {}
    for one in taken(events):
        if one.reference not in found:
            with suppress(SnapshotUnreadable):
                found[one.reference] = Tree(one.reference, fetch).references()
    return found
