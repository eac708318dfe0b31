"""What a rule of the life cycle looks at, and the few things that many rules do to it. Pure: no store, no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .clock import SECOND, Micros
from .records import AttemptRecord, Holding, Job, Lease, Letter, Row, evolve, form
from .states import Outcome, Reason, RowStatus

PUBLISHING_US: Micros = 5 * SECOND
"""How long whoever released a row has for publishing it, before the steward does it, too."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A resource, as a delivery that names it finds it."""

    lease: Lease
    owner: Job | None = None
    """A third job whose attempt lost this lease, or is about to, without having told its end."""
    line: tuple[Row, ...] = ()
    """Others who wait for it: the first few, in their order."""
    waits: bool = False
    """The delivery itself is to stand in its line."""
    past: Holding | None = None
    """The lease that ended with this step."""


@dataclass(frozen=True, kw_only=True)
class Caution:
    """What a store has to heed that may have lost what it knew."""

    floor: Micros = 0
    """No token is lower: the store may have given such ones before, whatever its clock says now."""
    leases_until: Micros = 0
    """Until then nobody gets a resource: whoever had it, and was forgotten, may not know yet."""
    tokens_until: Micros = 0
    """Until then nobody knows which tokens were given, so those that guard a target have to wait."""

    def until(self, *, leases: bool, guards: bool) -> Micros:
        """Return until when a job has to wait that takes leases, or whose token guards a target."""
        return max(self.leases_until if leases else 0, self.tokens_until if guards else 0)


CALM = Caution()
"""Of a store that has lost nothing."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that is stored about one submission and the key that it asks for."""

    job: Job | None = None
    holder: Job | None = None
    """The other submission that holds the key, if there is one."""
    row: Row | None = None
    letter: Letter | None = None
    """Its own; for a replay, the one that it is about."""
    places: tuple[Place, ...] = ()
    """The resources that it names, in their order; none that was not asked for."""
    caution: Caution = CALM

    @property
    def owner(self) -> Job | None:
        """Whoever holds the key: another submission, else this one."""
        return self.holder or self.job


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a rule decided: the facts as they shall be, and attempts whose end became known on the way."""

    facts: Facts
    ended: tuple[AttemptRecord, ...] = ()
    unfiled: bytes = b""
    """The message of a job that ended without a letter, though Celery tells its chord of a failure."""


def alive(job: Job | None, now: Micros) -> bool:
    """Is an attempt of this job running, as far as the store's clock can tell?"""
    return job is not None and job.status is Outcome.OPEN and job.lease_until is not None and job.lease_until > now


def reserved(job: Job | None, now: Micros) -> bool:
    """Is the key kept for a retry of this job that was scheduled?"""
    return job is not None and job.status.handed_over and job.reserved_until is not None and job.reserved_until > now


def blocked_until(facts: Facts, now: Micros) -> Micros | None:
    """Return until when a parked delivery has to wait, or None: what it waits for has ended or lapsed."""
    job, owner = facts.job, facts.owner
    if job is not None and job.status.ended:
        waiting = not job.canvas_advanced and job.canvas_until is not None and job.canvas_until > now
        return job.canvas_until if waiting else None
    if owner is not None and alive(owner, now):
        return owner.lease_until
    if facts.holder is not None and reserved(facts.holder, now):
        return facts.holder.reserved_until
    return None


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A message that may have to be parked: its number, and the means to build its row."""

    submission: str
    operation: str
    generation: int
    message: Callable[[], bytes]
    """Called only where the message is kept: encoding it is not free."""


def park(facts: Facts, delivery: Delivery, subject: str, reason: Reason, now: Micros, wake_at: Micros) -> Facts:
    """Put the delivery into the parking lot, and leave word with whom it waits for."""
    parked = put_aside(facts, delivery, subject, reason, now, wake_at)
    if parked is facts:
        return facts
    if facts.holder is not None:
        return evolve(parked, holder=evolve(facts.holder, waiters=True))
    if facts.job is not None:
        return evolve(parked, job=evolve(facts.job, waiters=True))
    return parked


def put_aside(facts: Facts, delivery: Delivery, subject: str, reason: Reason, now: Micros, wake_at: Micros) -> Facts:
    """Put the delivery into the parking lot, unless a newer one of its job waits there."""
    row = facts.row
    if row is not None and row.status is not RowStatus.TAKEN and row.generation >= delivery.generation:
        return facts
    parked = Row(
        submission=delivery.submission,
        operation=delivery.operation,
        generation=delivery.generation,
        revision=row.revision + 1 if row else 0,
        subject=subject,
        reason=reason,
        wake_at=wake_at,
        parked_at=now,
        message=delivery.message(),
    )
    if row is not None:
        parked = evolve(parked, requeues=row.requeues, contended_since=row.contended_since)
    return evolve(facts, row=parked)


def released(row: Row, now: Micros) -> Row:
    """Let a row be published, in a round of its own."""
    return evolve(
        row,
        status=RowStatus.RELEASED,
        revision=row.revision + 1,
        releases=row.releases + 1,
        wake_at=now + PUBLISHING_US,
    )


def died(job: Job, now: Micros, note: str = "") -> AttemptRecord:
    """Describe an attempt that never closed."""
    return attempt_of(job, Outcome.UNKNOWN if job.unsettled else Outcome.LOST, now, note)


_ATTEMPT = form(
    AttemptRecord(
        nonce="", submission="", trace_id="", operation="", generation=0, outcome=Outcome.OPEN, fence=0, worker="",
        pid=0, started_at=0, ended_at=0,
    )
)  # fmt: skip


def attempt_of(job: Job, outcome: Outcome, now: Micros, note: str = "") -> AttemptRecord:
    """Describe the end of the job's current attempt."""
    return evolve(
        _ATTEMPT,
        nonce=job.nonce,
        submission=job.submission,
        trace_id=job.trace_id,
        operation=job.operation,
        generation=job.generation,
        outcome=outcome,
        fence=job.fence,
        worker=job.worker,
        pid=job.pid,
        started_at=job.started_at,
        ended_at=now,
        note=note,
    )


ADVANCED: Mapping[str, Any] = {"canvas_advanced": True, "canvas_unknown": False, "canvas_until": None}
"""What a job's record has once its canvas was sent on."""


def advance_canvas(facts: Facts) -> Facts:
    """Note that callbacks, chain and chord part were sent on; nothing of the submission is left to do."""
    if facts.job is None:
        return facts
    return evolve(facts, job=evolve(facts.job, **ADVANCED), row=None)
