"""What is recorded of a job, as far as it is needed to run it again without doing anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ..cache_reads import CACHE_READ, CacheRead, reads_in
from ..clock import Micros
from ..exceptions import SnapshotUnreadable
from ..records import Event, Job, StepRecord, evolve
from ..replay import message as messages
from ..replay.message import Payload
from ..serialization import unpack
from ..snapshots.capture import AFTER, BEFORE
from ..snapshots.reading import Taken, taken
from ..snapshots.tree import Tree
from ..stores.base import Store
from ..trace import timeline


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The last attempt of a job, and what earlier ones left behind."""

    job: Job
    message: bytes = field(repr=False)
    """The message that is run: the original one, or one with other arguments."""
    mended: bool = False
    """Somebody gave it the arguments for the parameters of today's code."""
    told: str = ""
    """Where the arguments are from, if that is not the message."""
    payload: Payload
    events: Sequence[Event]
    """The attempt's, in their order."""
    steps: Mapping[str, StepRecord]
    """Side effects by their keys, of all attempts."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """What recorded steps gave in this attempt, as JSON, by the digests of their keys."""
    cache_reads: Sequence[CacheRead] = ()
    """What it found in caches, in its order."""
    started_at: Micros
    blobs: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    children: Sequence[Recording] = field(default=(), repr=False)
    """What is recorded of jobs that it had published, in their order, as far as that was asked for."""
    snapshots: Mapping[str, Taken] = field(default_factory=dict)
    """By the name of the moment, the last one of the attempt."""

    @property
    def before(self) -> Tree | None:
        """The declared state before the body; None where none was captured, or it is gone."""
        return self.state(BEFORE)

    @property
    def after(self) -> Tree | None:
        """The declared state after the body, as its transaction has left it."""
        return self.state(AFTER)

    def state(self, when: str) -> Tree | None:
        """Return the declared state at a moment of that name, the last one; None where there is none, or it is gone."""
        found = self.snapshots.get(when)
        return None if found is None else self.tree(found)

    def tree(self, one: Taken) -> Tree | None:
        """Return one of its snapshots; None where it is gone."""
        try:
            return Tree(one.reference, self._fetch)
        except SnapshotUnreadable:
            return None

    def _fetch(self, references: Sequence[str]) -> Mapping[str, bytes]:
        return {name: self.blobs[name] for name in references if name in self.blobs}


def recording_of(store: Store, job: Job, message: bytes, *, mended: bool = False, depth: int = 0) -> Recording:
    """Read what is kept of a job; afterwards the store is not needed any more.

    Args:
        message: what is to be run: the letter's, perhaps edited.
        mended: it was edited.
        depth: how deep what the job had published is read, too.

    Raises:
        PayloadUnreadable: it was not kept, or is not JSON; nothing else is ever decoded.
    """
    found = _recorded(store, job, depth)
    return evolve(found, message=message, mended=mended, payload=messages.read(message))


def _recorded(store: Store, job: Job, depth: int) -> Recording:
    events = last_run(store, job)
    snapshots = taken(events)
    return Recording(
        job=job,
        message=b"",
        payload=Payload(args=(), kwargs={}, canvas={}),
        events=events,
        steps={step.key: step for step in store.steps(job.identity)},
        reads=reads_of(store, events),
        cache_reads=_cache_reads(store, events),
        started_at=next((event.at for event in events if event.name == "started"), job.started_at),
        blobs=_blobs(store, snapshots),
        children=[_recorded(store, child, depth - 1) for child in _children(store, events)] if depth else (),
        snapshots={one.when: one for one in snapshots},
    )


_MOST_CHILDREN = 100
"""Of one job, that are read."""


def _children(store: Store, events: Sequence[Event]) -> Iterator[Job]:
    published = [event.attributes.get("job") for event in events if event.name == "child_published"]
    for task_id in published[:_MOST_CHILDREN]:
        yield from store.find_jobs(task_id=str(task_id), limit=1)


def last_run(store: Store, job: Job) -> Sequence[Event]:
    """Return what the last attempt of a job told whose body ran."""
    told = timeline(store, job.trace_id)
    attempt = _attempt(store, job, told)
    return [event for event in told if event.attempt == attempt]


def _attempt(store: Store, job: Job, told: Sequence[Event]) -> str:
    """Find the last attempt whose body ran; the job may have been refused since."""
    ran = {event.attempt for event in told if event.name == "started"}
    ended = [attempt.nonce for attempt in store.attempts(job.submission) if attempt.nonce in ran]
    return job.nonce if job.nonce in ran or not ended else ended[-1]


def reads_of(store: Store, events: Sequence[Event]) -> Mapping[str, str]:
    """Return what recorded steps gave, by what names the call."""
    references = [event.output_ref for event in events if event.name == "step_done" and event.output_ref]
    found = {}
    for body in store.blobs(references).values():
        with suppress(Exception):  # a stored value may be of any version, or damaged; it is missing then
            kept = unpack(body)
            found[str(kept["call"])] = str(kept["output"])
    return found


def _cache_reads(store: Store, events: Sequence[Event]) -> Sequence[CacheRead]:
    references = [event.output_ref for event in events if event.name == CACHE_READ and event.output_ref]
    return reads_in(events, store.blobs(references) if references else {})


def _blobs(store: Store, snapshots: Sequence[Taken]) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    for one in snapshots:
        try:
            found.update(store.blobs(list(Tree(one.reference, store.blobs).references())))
        except SnapshotUnreadable:
            continue
    return found
