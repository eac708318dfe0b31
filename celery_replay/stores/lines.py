"""How leases on resources, and the lines of those who wait for them, are read and written in an atomic step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from .. import leases
from ..facts import Facts, Place
from ..records import Job, Lease, Row, Waiter
from ..states import LeaseEnd, Outcome, RowStatus

if TYPE_CHECKING:
    from .units import Unit


def places_of(unit: Unit, resources: Sequence[str], submission: str, known: Collection[str] = ()) -> tuple[Place, ...]:
    """Read resources as a delivery finds them.

    Args:
        known: jobs that are looked at already, and lose what they lose by other rules.
    """
    if not resources:
        return ()
    found = {lease.resource: lease for lease in unit.leases(resources)}
    stored = (found.get(name) or Lease(resource=name) for name in resources)
    return tuple(_place(unit, lease, submission, known) for lease in stored)


def held_by(unit: Unit, resources: Sequence[str]) -> tuple[Place, ...]:
    """Read the leases that an attempt wants to prolong; who waits for them does not matter."""
    if not resources:
        return ()
    found = {lease.resource: lease for lease in unit.leases(resources)}
    return tuple(Place(lease=found.get(name) or Lease(resource=name)) for name in resources)


def _place(unit: Unit, lease: Lease, submission: str, known: Collection[str]) -> Place:
    owner = _silent_owner(unit, lease, submission) if lease.submission not in known else None
    line = unit.line(lease.resource, submission, leases.LINE) if lease.waiters else ()
    return Place(lease=lease, owner=owner, line=tuple(line))


def _silent_owner(unit: Unit, lease: Lease, submission: str) -> Job | None:
    """Find who will have lost the lease if it is taken now."""
    if not lease.nonce or leases.taken(lease, unit.now) or lease.submission == submission:
        return None
    return owner_of(unit, lease)


def owner_of(unit: Unit, lease: Lease) -> Job | None:
    """Find the job whose attempt has a lease, unless that has told its end."""
    job = unit.job(lease.submission)
    running = job is not None and job.nonce == lease.nonce and job.status in (Outcome.OPEN, Outcome.LOST)
    return job if running else None


def save(unit: Unit, before: Facts, after: Facts) -> None:
    """Write what a rule decided about leases and lines."""
    old = {place.lease.resource: place for place in before.places}
    stands = any(place.waits for place in after.places)
    if not stands and before.row is not None and before.row.contended_since is not None and _left(before, after):
        unit.leave(before.row.submission)
    for place in after.places:
        _save(unit, old.get(place.lease.resource), place)
        if place.waits and after.row is not None:
            since = after.row.contended_since or unit.now
            unit.put(Waiter(resource=place.lease.resource, submission=after.row.submission, since=since))


def _left(before: Facts, after: Facts) -> bool:
    """Was a place in line given up, and not for a while only?"""
    return after.row is None or (after.row != before.row and not after.row.in_line)


def _save(unit: Unit, before: Place | None, place: Place) -> None:
    if before is None or place.lease != before.lease:
        unit.put(place.lease)
    if place.past is not None:
        unit.put(place.past)
    if place.owner is not None and (before is None or place.owner != before.owner):
        unit.put(place.owner)
    for row in changed_rows(before, place):
        unit.put(row)


def changed_rows(before: Place | None, place: Place) -> Iterable[Row]:
    """Yield those of a line whose rows changed."""
    old = before.line if before is not None else ()
    return (row for row in place.line if row not in old)


def called(before: Facts, after: Facts) -> Sequence[Row]:
    """Return those who were called, to be published."""
    old = {place.lease.resource: place for place in before.places}
    found = {
        row.submission: row
        for place in after.places
        for row in changed_rows(old.get(place.lease.resource), place)
        if row.status is RowStatus.RELEASED
    }
    return list(found.values())


def let_go(unit: Unit, submission: str, end: LeaseEnd) -> Sequence[Row]:
    """End all leases of a job that is over; return who was called."""
    held = [lease.resource for lease in unit.leases_of(submission) if lease.nonce]
    places = places_of(unit, held, submission)
    after = leases.let_rest_go(places, submission, end, unit.now)
    return save_all(unit, places, leases.still_in_line(after, unit.row(submission)))


def pass_on(unit: Unit, resources: Sequence[str], submission: str) -> Sequence[Row]:
    """Let those go on who stand behind a job that does not come when it is called; return who was called."""
    places = places_of(unit, resources, submission)
    return save_all(unit, places, tuple(leases.pass_on(place, unit.now) for place in places))


def save_all(unit: Unit, before: tuple[Place, ...], after: tuple[Place, ...]) -> Sequence[Row]:
    """Write what became of resources; return who was called."""
    old, new = Facts(places=before), Facts(places=after)
    for one, other in zip(before, after, strict=True):
        _save(unit, one, other)
    return called(old, new)
