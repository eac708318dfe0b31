"""Who has which resource, as somebody sees it who watches from outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from celery_replay.admission import Admission
from celery_replay.clock import Micros
from celery_replay.states import Reason, Verdict
from tests.conformance import setup

if TYPE_CHECKING:
    from tests.conformance.worker import Worker
    from tests.conformance.world import World


@dataclass
class Leased:
    """What a world's workers were told of their resources."""

    holders: dict[str, tuple[str, Micros]] = field(default_factory=dict)
    """By resource: the attempt that took it last, and until when it may count on it."""
    fences: dict[str, int] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    """Attempts that somebody took a resource from."""
    since: dict[str, Micros] = field(default_factory=dict)
    """When a submission that waits came for the first time."""

    def copy(self) -> Leased:
        return replace(
            self, holders=dict(self.holders), fences=dict(self.fences), lost=set(self.lost), since=dict(self.since)
        )

    def answered(self, worker: Worker, answer: Admission) -> Iterator[str]:
        """Take an answer to OPEN; yield what is broken."""
        world = worker.world
        if answer.verdict is Verdict.RUN:
            yield from self._overtaken(worker)
            self.since.pop(worker.submission, None)
            for name in worker.resources:
                yield from self._taken(worker, name)
            return
        if answer.reason is Reason.LEASE_HELD and answer.facts.row is not None:
            self.since[worker.submission] = answer.facts.row.contended_since or 0
        for name in worker.resources:
            lease = world.store.lease(name)
            if lease is not None and lease.nonce == worker.nonce:
                yield f"L5: {worker.submission} has {name} and does not run"

    def _taken(self, worker: Worker, name: str) -> Iterator[str]:
        world, lease = worker.world, worker.world.store.lease(name)
        if lease is None or lease.nonce != worker.nonce:
            yield f"L5: {worker.submission} runs without {name}"
            return
        nonce, until = self.holders.get(name, ("", 0))
        if nonce and nonce != worker.nonce:
            if until > world.clock.now and nonce in world.running():
                yield f"L1: {worker.nonce} and {nonce} have {name} at once"
            self.lost.add(nonce)
        if lease.fence <= self.fences.get(name, 0):
            yield f"L2: fence {lease.fence} of {name} does not rise"
        self.fences[name] = lease.fence
        self.holders[name] = (worker.nonce, world.clock.now + setup.LEASE)

    def _overtaken(self, worker: Worker) -> Iterator[str]:
        world = worker.world
        if world.setup.backs_off:
            return
        own = (self.since.get(worker.submission, world.clock.now), worker.submission)
        for row in world.store.rows():
            first = (row.contended_since or 0, row.submission)
            shared = set(worker.resources) & set(world.resources_of(row.submission))
            if row.in_line and shared and row.submission != worker.submission and first < own:
                yield f"L3: {worker.submission} overtakes {row.submission} at {min(shared)}"

    def renewed(self, worker: Worker) -> None:
        for name, (nonce, _) in self.holders.items():
            if nonce == worker.nonce:
                self.holders[name] = (nonce, worker.world.clock.now + setup.LEASE)

    def accepted(self, worker: Worker, what: str) -> Iterator[str]:
        if worker.nonce in self.lost:
            yield f"L4: {what} of {worker.nonce} accepted, which has lost a resource"

    def closed(self, worker: Worker) -> None:
        self.holders = {name: held for name, held in self.holders.items() if held[0] != worker.nonce}


def at_rest(world: World) -> Iterator[str]:
    """Yield what is broken once nothing moves any more."""
    for lease in world.store.leases():
        job = world.job(lease.submission)
        if lease.submission in world.given_up:
            # Its attempt lived on as its job was withdrawn: it lets go itself, or its lease lapses.
            continue
        if job is None or job.status.ended or job.status.handed_over:
            yield f"L6: {lease.resource} stays with {lease.submission}, which is over"
    for name in {name for submission in world.submissions for name in world.resources_of(submission)}:
        if world.store.line(name):
            yield f"L6: somebody stands in line for {name} for ever"
