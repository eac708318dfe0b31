"""Leases on resources: who may take them, and who is next. Pure functions of what is stored.

A delivery that names several resources takes all of them or none. Until it can, it stands in the line of each with the
time of its first try, which it keeps: whoever came first goes first, at every resource, so nobody waits for ever and no
two wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .clock import SECOND, Micros
from .facts import Delivery, Facts, Place, put_aside, released
from .records import Holding, Job, Lease, Row, evolve
from .serialization import digest
from .states import LeaseEnd, Reason, RowStatus

LINE = 3
"""How many of a line have to be looked at: who goes first, who is next, and whether there are more."""
LONG_STOP_US: Micros = 600 * SECOND
"""When somebody is looked at again who is far from being next; until then others wake him."""
BACKOFF_US: Micros = SECOND
"""How long a job that backs off waits for the first time, at most."""
BACKOFF_LIMIT_US: Micros = 60 * SECOND


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """Why a delivery can't take what it names."""

    place: Place
    """The first resource that it has to wait for."""
    wake_at: Micros
    """When that may be over without anybody saying so."""


def taken(lease: Lease, now: Micros) -> bool:
    """Does an attempt have it? It may be of the same job: one that was given up as lost, and lives."""
    return bool(lease.nonce) and (lease.until or 0) > now


def obstacle(places: Sequence[Place], submission: str, since: Micros, now: Micros) -> Obstacle | None:
    """Find the first resource that another job has, or that others came for before.

    Args:
        since: when the delivery first came for them.
    """
    for place in places:
        lease, held = place.lease, taken(place.lease, now)
        ahead = [row for row in place.line if (row.contended_since or 0, row.submission) < (since, submission)]
        if held and not ahead:
            return Obstacle(place=place, wake_at=lease.until or now)
        if ahead and not held and len(ahead) == 1:
            return Obstacle(place=place, wake_at=max(ahead[0].wake_at, now) + SECOND)
        if ahead:
            return Obstacle(place=place, wake_at=now + LONG_STOP_US)
    return None


def line_up(facts: Facts, delivery: Delivery, found: Obstacle, since: Micros, now: Micros) -> Facts:
    """Park a delivery in the lines of all that it names."""
    parked = _put_aside(facts, delivery, found.place, since, now, found.wake_at)
    if parked is facts:
        return facts
    places = (evolve(place, lease=evolve(place.lease, waiters=True), waits=True) for place in facts.places)
    return evolve(parked, places=tuple(places))


def back_off(facts: Facts, delivery: Delivery, found: Obstacle, since: Micros, nonce: str, now: Micros) -> Facts:
    """Park a delivery for a while, about as long as it has waited so far; it stands in no line."""
    whole = min(max(now - since, BACKOFF_US), BACKOFF_LIMIT_US)
    jitter = int(digest(nonce)[:8], 16) / (1 << 32)
    return _put_aside(facts, delivery, found.place, since, now, now + round(whole * (1 + jitter) / 2))


def wait_for_grants(
    facts: Facts, delivery: Delivery, identity: str, since: Micros | None, now: Micros, until: Micros
) -> Facts:
    """Park a delivery until the store gives resources and tokens again; it stands in no line, and keeps its place."""
    parked = put_aside(facts, delivery, identity, Reason.GRANTS_PAUSED, now, until)
    if parked is facts or parked.row is None or since is None:
        return parked
    return evolve(parked, row=evolve(parked.row, contended_since=since))


def _put_aside(facts: Facts, delivery: Delivery, place: Place, since: Micros, now: Micros, wake_at: Micros) -> Facts:
    parked = put_aside(facts, delivery, place.lease.subject, Reason.LEASE_HELD, now, wake_at)
    if parked is facts or parked.row is None:
        return facts
    return evolve(parked, row=evolve(parked.row, contended_since=since))


def grant(place: Place, job: Job, keep_us: Micros, now: Micros, floor: Micros = 0) -> Place:
    """Give a resource to a job that was just admitted, with a token that is higher than all before.

    Args:
        floor: no token is lower.
    """
    lease, until = place.lease, job.lease_until or now
    if lease.nonce == job.nonce:
        return place
    given = evolve(
        lease,
        fence=max(lease.fence + 1, now, floor),
        nonce=job.nonce,
        submission=job.submission,
        operation=job.operation,
        trace_id=job.trace_id,
        worker=job.worker,
        pid=job.pid,
        acquired_at=now,
        until=until,
        grants=lease.grants + 1,
        waiters=bool(place.line),
        keep_until=until + keep_us,
    )
    past = _past(lease, LeaseEnd.LAPSED, now) if lease.nonce else None
    return evolve(place, lease=given, past=past, owner=_disowned(place.owner), line=_expecting(place.line, until))


def _disowned(owner: Job | None) -> Job | None:
    """Whoever lost a lease has lost the job: without its nonce it can neither renew, nor claim a step, nor close."""
    return None if owner is None else evolve(owner, nonce="")


def _expecting(line: tuple[Row, ...], until: Micros) -> tuple[Row, ...]:
    """Let whoever is next be looked at when the lease may lapse."""
    if not line or line[0].status is not RowStatus.PARKED or line[0].wake_at <= until:
        return line
    return (evolve(line[0], wake_at=until), *line[1:])


def renewed(places: Sequence[Place], nonce: str, lease_us: Micros, now: Micros) -> tuple[Place, ...] | None:
    """Prolong an attempt's leases, or return None: one of them is no longer its own."""
    if not own(places, nonce):
        return None
    return tuple(_renewed(place, now + lease_us) for place in places)


def _renewed(place: Place, until: Micros) -> Place:
    lease = place.lease
    kept = lease.keep_until - (lease.until or until)
    return evolve(place, lease=evolve(lease, until=until, keep_until=until + kept))


def own(places: Sequence[Place], nonce: str) -> bool:
    """Does an attempt still have all that it took?"""
    return all(place.lease.nonce == nonce for place in places)


def let_go(places: Sequence[Place], nonce: str, end: LeaseEnd, now: Micros) -> tuple[Place, ...]:
    """End what an attempt still has, and call whoever is next; what others have by now is left alone."""
    return tuple(_let_go(place, end, now) if place.lease.nonce == nonce else place for place in places)


def let_rest_go(places: Sequence[Place], submission: str, end: LeaseEnd, now: Micros) -> tuple[Place, ...]:
    """End what attempts of a job still have that is over.

    Args:
        end: LAPSED leaves what has not lapsed: an attempt that was taken for lost may live, and hears of it when it
            beats.
    """
    return tuple(
        _let_go(place, end, now) if place.lease.nonce and _is_left(place.lease, submission, end, now) else place
        for place in places
    )


def _is_left(lease: Lease, submission: str, end: LeaseEnd, now: Micros) -> bool:
    return lease.submission == submission and not (end is LeaseEnd.LAPSED and taken(lease, now))


def still_in_line(places: tuple[Place, ...], own: Row | None) -> tuple[Place, ...]:
    """Keep note that somebody waits, where that is a later delivery of the job itself: its lines do not show it."""
    if own is None or not own.in_line:
        return places
    return tuple(evolve(place, lease=evolve(place.lease, waiters=True)) for place in places)


def _let_go(place: Place, end: LeaseEnd, now: Micros) -> Place:
    lease = place.lease
    kept = lease.keep_until - (lease.until or now)
    free = evolve(lease, nonce="", until=None, keep_until=now + kept)
    return pass_on(evolve(place, lease=free, past=_past(lease, end, now)), now)


def let_others(before: Facts, facts: Facts, now: Micros) -> Facts:
    """Let others have what a delivery does not take that may not run.

    That is its turn in line, and what an attempt that died had leased, where the job is over now.
    """
    job, row, places = facts.job, facts.row, facts.places
    if job is not None and job.status.ended:
        places = let_rest_go(places, job.submission, LeaseEnd.LAPSED, now)
    stood = before.row is not None and before.row.in_line
    if stood and not (row is not None and row.in_line):
        places = tuple(pass_on(place, now) for place in places)
    return evolve(facts, places=places)


def force(place: Place, now: Micros) -> Place:
    """Take a lease away from its holder, who may be alive: his token is not the newest any more."""
    freed = _let_go(place, LeaseEnd.FORCED, now)
    fence = max(freed.lease.fence + 1, now)
    return evolve(freed, lease=evolve(freed.lease, fence=fence), owner=_disowned(place.owner))


def pass_on(place: Place, now: Micros) -> Place:
    """Call whoever is next in the line of a resource, if nobody has it."""
    lease, line = place.lease, place.line
    if taken(lease, now):
        return place
    if line and line[0].status is RowStatus.PARKED:
        line = (released(line[0], now), *line[1:])
    return evolve(place, lease=evolve(lease, waiters=bool(line)), line=line)


def _past(lease: Lease, end: LeaseEnd, now: Micros) -> Holding:
    return Holding(
        resource=lease.resource,
        grant=lease.grants,
        fence=lease.fence,
        nonce=lease.nonce,
        submission=lease.submission,
        operation=lease.operation,
        trace_id=lease.trace_id,
        worker=lease.worker,
        pid=lease.pid,
        acquired_at=lease.acquired_at,
        # One that went silent had it until then, whatever it did afterwards.
        ended_at=now if end in (LeaseEnd.RELEASED, LeaseEnd.FORCED) else min(lease.until or now, now),
        end=end,
    )
