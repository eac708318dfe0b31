"""Leases on resources, and the lines of those who wait for them, within one atomic step on Redis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ...clock import Micros
from ...records import HOLDINGS, Holding, Lease, Row, Waiter
from ...states import LeaseEnd
from ..lease_looks import SAMPLE
from . import codec
from .links import Link
from .writes import LEAST_MS, Write

_AHEAD = 16
"""Of a line, how many more are read at once than are asked for: some do not come when they are called."""


class Values(Protocol):
    """What a step reads through."""

    @property
    def now(self) -> Micros:
        """The store's clock."""

    def know_all(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return values, all of which have to be the same at the end."""

    def know_first(self, key: str, last: int) -> list[str]:
        """Return the beginning of a sorted set, which has to be the same at the end."""

    def row(self, submission: str) -> Row | None:
        """Return a parked delivery."""


class Leasing:
    """Reads leases and lines, and remembers what to write.

    Args:
        link: held by the step until it ends.
        values: the step.
        keep_us: how long at least the names of what a job has to do with are kept.
    """

    def __init__(self, link: Link, values: Values, keep_us: Micros) -> None:
        self._link = link
        self._values = values
        self._keep_ms = keep_us // 1000
        self._leases: dict[str, Lease | None] = {}
        self._before: dict[str, Lease] = {}
        self._commands: list[Write] = []

    @property
    def changes(self) -> set[str]:
        """What a journal has to be told of, as the outbox names it."""
        return {f"l:{name}" for name, lease in self._leases.items() if lease != self._before.get(name)}

    def leases(self, resources: Sequence[str]) -> list[Lease]:
        """Return the leases on resources, in the order of their names."""
        unknown = [name for name in resources if name not in self._leases]
        for name, value in zip(unknown, self._values.know_all([f"lease:{name}" for name in unknown]), strict=True):
            self._leases[name] = found = None if value is None else codec.lease_of(name, value)
            if found is not None:
                self._before[name] = found
        return [lease for name in sorted(resources) if (lease := self._leases[name]) is not None]

    def leases_of(self, submission: str) -> list[Lease]:
        """Return the leases that a submission has, or had last."""
        found = self.leases(self._members(f"leased:{submission}"))
        return [lease for lease in found if lease.submission == submission]

    def _members(self, key: str) -> list[str]:
        return sorted(name.decode("utf-8", "surrogatepass") for name in self._link.do("SMEMBERS", key))

    def line(self, resource: str, without: str, limit: int) -> list[Row]:
        """Return who stands in the line of a resource, but for one."""
        wanted = limit + _AHEAD
        while True:
            names = self._values.know_first(f"line:{resource}", wanted - 1)
            self._values.know_all([f"r:{name}" for name in names])
            rows = [row for name in names if name != without and (row := self._values.row(name)) is not None]
            found = [row for row in rows if row.in_line][:limit]
            if len(found) == limit or len(names) < wanted:
                return found
            wanted *= 4

    def waits(self, submission: str) -> list[str]:
        """Return the resources in whose line a submission may stand."""
        return self._members(f"waits:{submission}")

    def leave(self, submission: str) -> None:
        """Remember to take a submission out of all lines."""
        self._commands += [("ZREM", f"line:{name}", submission) for name in self.waits(submission)]
        self._commands.append(("DEL", f"waits:{submission}"))

    def forget(self, submission: str) -> None:
        """Remember to delete what is told of a submission as a former holder, or as the last one of a resource."""
        last = {lease.resource for lease in self.leases_of(submission) if not lease.nonce}
        for name in sorted({*last, *self._members(f"holdings:{submission}")}):
            if name in last and not self.line(name, "", 1):
                self._commands += [("DEL", f"lease:{name}"), ("DEL", f"held:{name}"), ("ZREM", "forgotten", name)]
            else:
                self._commands += [("HDEL", f"held:{name}", place) for place in self._places(name, submission)]
        self._commands += [("DEL", f"holdings:{submission}"), ("DEL", f"leased:{submission}")]

    def _places(self, resource: str, submission: str) -> list[str]:
        values = self._link.do("HVALS", f"held:{resource}")
        found = [codec.HOLDINGS.decode(value, resource=resource) for value in values]
        return [str(holding.grant % HOLDINGS) for holding in found if holding.submission == submission]

    def put(self, record: Lease | Holding | Waiter) -> None:
        """Remember to write a record."""
        match record:
            case Lease():
                self.leases([record.resource])
                self._leases[record.resource] = record
            case Holding():
                self._put_holding(record)
            case Waiter():
                key = f"waits:{record.submission}"
                self._commands += [
                    ("ZADD", f"line:{record.resource}", record.since, record.submission),
                    ("SADD", key, record.resource),
                    ("live", key, 10 * self._keep_ms),
                ]

    def _put_holding(self, holding: Holding) -> None:
        key = f"held:{holding.resource}"
        place = holding.grant % HOLDINGS
        self._commands += [
            ("HSET", key, str(place), codec.HOLDINGS.encode(holding)),
            ("live", key, self._keep_ms),
            ("SADD", f"holdings:{holding.submission}", holding.resource),
            ("live", f"holdings:{holding.submission}", self._keep_ms),
        ]
        if holding.end is LeaseEnd.RELEASED:
            key = f"holds:{holding.operation}"
            self._commands += [
                ("LPUSH", key, holding.ended_at - holding.acquired_at),
                ("LTRIM", key, 0, SAMPLE - 1),
                ("live", key, self._keep_ms),
            ]

    def writes(self) -> Iterable[Write]:
        """Yield what is to be written."""
        for name, lease in self._leases.items():
            before = self._before.get(name)
            if lease is not None and lease != before:
                yield from self._put_lease(lease, before)
        yield from self._commands

    def _put_lease(self, lease: Lease, before: Lease | None) -> Iterable[Write]:
        name = lease.resource
        ttl = max((lease.keep_until - self._values.now) // 1000, LEAST_MS)
        yield "SET", f"lease:{name}", codec.LEASES.encode(lease), "PX", ttl
        yield "live", f"held:{name}", ttl
        yield "ZADD", "forgotten", lease.keep_until, name
        if lease.nonce:
            yield "ZADD", "leases", lease.acquired_at, name
        else:
            yield "ZREM", "leases", name
        if before is not None and before.submission and before.submission != lease.submission:
            yield "SREM", f"leased:{before.submission}", name
        if lease.submission:
            yield "SADD", f"leased:{lease.submission}", name
            yield "live", f"leased:{lease.submission}", ttl
