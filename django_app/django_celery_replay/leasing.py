"""Leases within OPEN's and CLOSE's one statement on PostgreSQL, where nobody else wants the resources.

A lease row is locked before it is judged, by the INSERT's own conflict or FOR UPDATE, so what is found is what counts.
OPEN's statement can't take its job back once it finds that somebody was faster by a moment, so it fails as a whole: by
a division by zero, which `troubles` knows. That its first look sees most who have a lease keeps it from the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery_replay.records import HOLDINGS as PLACES
from celery_replay.serialization import digest
from celery_replay.states import LeaseEnd

from .statements import Statements
from .tables import HOLDINGS, LEASES

_FREE = "nonce = '' AND NOT waiters"
_OF_JOB = ("nonce", "submission", "operation", "trace_id", "worker", "pid")
"""A lease's columns that it has from the job."""
_GIVEN = {
    "resource": "wanted.resource",
    "fence": "job.started_at",
    **{name: f"job.{name}" for name in _OF_JOB},
    "acquired_at": "job.started_at",
    "until": "job.lease_until",
    "grants": "1",
    "waiters": "FALSE",
    "keep_until": "job.lease_until + job.keep_until - job.started_at",
}
_PAST = {
    **{name: f"held.{name}" for name in HOLDINGS.fields if name in LEASES.fields},
    "grant": "held.grants",
    "ended_at": "clock.now",
    "end": f"'{LeaseEnd.RELEASED}'",
    "holding_id": f"held.place || ':' || mod(held.grants, {PLACES})",
}


def opening(statements: Statements, clock: str, job: str, count: int) -> str:
    """Return the statement that opens a job and takes its leases, or does neither.

    It finds when that was, and of each resource its name and fence.

    Args:
        job: inserts the job, but for what is to be done on conflict; its parameters come after the names.
    """
    name, table = statements.dialect.name, LEASES.name
    names = ", ".join(["(%s)"] * count)
    busy = f"SELECT 1 FROM {table} WHERE resource IN (SELECT resource FROM wanted) AND NOT ({_FREE})"
    about = ", ".join(("started_at", "lease_until", "keep_until", *_OF_JOB))
    news = {column: statements.dialect.given(column) for column in _GIVEN if column != "resource"}
    news["fence"] = f"GREATEST({table}.fence + 1, {news['fence']})"
    news["grants"] = f"{table}.grants + 1"
    columns = statements.columns(tuple(_GIVEN))
    free = f"{table}.nonce = '' AND NOT {table}.waiters"
    take = (
        f"INSERT INTO {table} ({columns}) SELECT {', '.join(_GIVEN.values())} FROM job, wanted"
        f' ORDER BY wanted.resource COLLATE "C"'
        f"{statements.dialect.merge('resource', news)} WHERE {free} RETURNING {name('resource')}, fence"
    )
    parts = [
        clock,
        f"wanted (resource) AS MATERIALIZED (VALUES {names})",
        f"job AS ({job} AND NOT EXISTS ({busy}) ON CONFLICT DO NOTHING RETURNING {about})",
        f"taken AS ({take})",
    ]
    all_or_nothing = f"CASE WHEN (SELECT count(*) FROM taken) = {count} THEN 1 ELSE 0 END"
    found = f"SELECT job.started_at / {all_or_nothing}, taken.resource, taken.fence FROM job LEFT JOIN taken ON TRUE"
    return f"WITH {', '.join(parts)} {found}"


def letting_go(statements: Statements, count: int) -> tuple[list[str], list[str]]:
    """Return the parts of a statement that lock an attempt's leases, and those that free them once it is closed."""
    wanted = ", ".join(["(%s, %s)"] * count)
    columns = statements.columns(tuple(_PAST))
    held = (
        f"SELECT lease.*, wanted.place FROM {LEASES.name} AS lease"
        f" JOIN (VALUES {wanted}) AS wanted (resource, place) ON wanted.resource = lease.resource"
        " WHERE lease.nonce = %s AND NOT lease.waiters ORDER BY lease.resource FOR UPDATE OF lease"
    )
    free = (
        f"UPDATE {LEASES.name} AS lease SET nonce = '', until = NULL,"
        " keep_until = clock.now + lease.keep_until - lease.until"
        " FROM clock, work WHERE lease.resource IN (SELECT resource FROM held)"
    )
    past = f"INSERT INTO {HOLDINGS.name} ({columns}) SELECT {', '.join(_PAST.values())} FROM clock, work, held"
    past += statements.dialect.upsert(HOLDINGS.key, tuple(_PAST))
    return [f"held AS MATERIALIZED ({held})"], [f"let_go AS ({free})", f"past AS ({past})"]


def all_held(count: int) -> str:
    """Return the condition that nothing of what was taken was lost, and that nobody waits for it."""
    return f" AND (SELECT count(*) FROM held) = {count}"


def held(resources: Sequence[str], nonce: str) -> list[Any]:
    """Return the parameters of `letting_go`."""
    if not resources:
        return []
    pairs = [value for name in resources for value in (LEASES.encode("resource", name), digest(name))]
    return [*pairs, nonce]
