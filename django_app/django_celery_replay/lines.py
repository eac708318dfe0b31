"""Who stands in line for a resource, and leases that may be forgotten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from celery_replay.clock import Micros
from celery_replay.records import Row
from celery_replay.states import Reason, RowStatus

from .connections import Link
from .statements import Statements
from .tables import HOLDINGS, LEASES, ROWS, WAITERS
from .text import restored

_CALLED = f"'{RowStatus.RELEASED}', '{RowStatus.SENT}'"
_IN_LINE = (
    f"parked.reason = '{Reason.LEASE_HELD}'"
    f" AND (parked.status = '{RowStatus.PARKED}' OR (parked.status IN ({_CALLED}) AND parked.releases <= 1))"
)
"""`Row.in_line`."""


def of(
    query: Callable[[str, Sequence[Any]], list[Any]], statements: Statements, resource: str, without: str, limit: int
) -> Sequence[Row]:
    """Read who stands in the line of a resource, in order, but for one submission."""
    name, mark = statements.dialect.name, statements.dialect.mark
    columns = ", ".join(f"parked.{name(column)}" for column in ROWS.fields)
    sql = (
        f"SELECT {columns} FROM {WAITERS.name} AS waiter"
        f" JOIN {ROWS.name} AS parked ON parked.submission = waiter.submission"
        f" WHERE waiter.resource = {mark} AND waiter.submission <> {mark} AND {_IN_LINE}"
        f" ORDER BY waiter.since, waiter.submission LIMIT {int(limit)}"
    )
    values = [WAITERS.encode("resource", resource), WAITERS.encode("submission", without)]
    return [ROWS.read(row) for row in query(sql, values)]


def waits(link: Link, statements: Statements, submission: str) -> Sequence[str]:
    """Read in which lines a submission stands."""
    where = f"submission = {statements.dialect.mark} ORDER BY resource"
    found = link.rows(f"SELECT resource FROM {WAITERS.name} WHERE {where}", [WAITERS.encode("submission", submission)])
    return [restored(row[0]) for row in found]


def prune(link: Link, statements: Statements, now: Micros, limit: int) -> None:
    """Delete leases past their retention, with what is told of their holders, and places that nobody stands in."""
    dialect = statements.dialect
    gone = f"SELECT 1 FROM {ROWS.name} AS parked WHERE parked.submission = waiter.submission"
    empty = link.rows(f"SELECT waiter_id FROM {WAITERS.name} AS waiter WHERE NOT EXISTS ({gone}) LIMIT {int(limit)}")
    _delete(link, statements, WAITERS.name, "waiter_id", [row[0] for row in empty])
    awaited = f"SELECT 1 FROM {WAITERS.name} AS waiter WHERE waiter.resource = lease.resource"
    old = link.rows(
        f"SELECT resource FROM {LEASES.name} AS lease WHERE keep_until <= {dialect.mark} AND NOT EXISTS ({awaited})"
        f" ORDER BY keep_until LIMIT {int(limit)}{dialect.skip_locked}",
        [now],
    )
    for table in (LEASES, HOLDINGS):
        _delete(link, statements, table.name, "resource", [row[0] for row in old])


def forget(link: Link, statements: Statements, submission: str) -> None:
    """Delete what is told of a submission as a former holder, and of resources of which it was the last one."""
    mark, who = statements.dialect.mark, [LEASES.encode("submission", submission)]
    awaited = f"SELECT 1 FROM {WAITERS.name} AS waiter WHERE waiter.resource = lease.resource"
    last = link.rows(
        f"SELECT resource FROM {LEASES.name} AS lease WHERE submission = {mark} AND nonce = ''"
        f" AND NOT EXISTS ({awaited}) ORDER BY resource{statements.dialect.lock}",
        who,
    )
    for table in (LEASES, HOLDINGS):
        _delete(link, statements, table.name, "resource", [row[0] for row in last])
    _delete(link, statements, HOLDINGS.name, "submission", who)


def _delete(link: Link, statements: Statements, table: str, column: str, values: Sequence[Any]) -> None:
    if values:
        link.change(f"DELETE FROM {table} WHERE {column} IN ({statements.marks(len(values))})", values)
