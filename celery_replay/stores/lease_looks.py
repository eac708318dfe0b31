"""What can be looked up of leases on resources, without locks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ..clock import Micros
from ..records import AttemptRecord, Holding, Lease, Row
from ..states import LeaseEnd, Outcome

SAMPLE = 1_000
"""Of how many holdings of a task the usual time is computed."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Somebody who had a resource before."""

    holding: Holding
    last_seen: Micros
    """When the lease ended, or when its attempt was heard of after that."""
    overlaps: tuple[int, ...] = ()
    """The fences of those who had the resource while this one still went on."""


class LeaseReader:
    """Looks at leases; a store that keeps none has none to show."""

    def lease(self, resource: str) -> Lease | None:
        """Return the lease on a resource, held or not."""
        return None

    def leases(self, limit: int) -> Sequence[Lease]:
        """Return leases that somebody has, those first that were taken first."""
        return ()

    def holdings(self, resource: str) -> Sequence[Holding]:
        """Return the former holders of a resource that are remembered, newest first."""
        return ()

    def line(self, resource: str, limit: int) -> Sequence[Row]:
        """Return who stands in the line of a resource, in order."""
        return ()

    def held_for(self, operation: str, limit: int) -> Sequence[Micros]:
        """Return how long a task had its resources: the newest holdings that it gave back itself."""
        return ()


class LeaseLooks(ABC):
    """Looks leases up."""

    @abstractmethod
    def _read(self) -> AbstractContextManager[Any]:
        """Begin a look at what is stored."""

    def lease(self, resource: str) -> Lease | None:
        """Return the lease on a resource, whether somebody has it or not; None where nobody took it since long."""
        with self._read() as reader:
            found: Lease | None = reader.lease(resource)
            return found

    def leases(self, limit: int = 100) -> Sequence[Lease]:
        """Return leases that somebody has, alive or not; those first that were taken first."""
        with self._read() as reader:
            found: Sequence[Lease] = reader.leases(limit)
            return found

    def holdings(self, resource: str) -> Sequence[Holding]:
        """Return the last holders of a resource whose lease has ended, newest first; `records.HOLDINGS` at most."""
        with self._read() as reader:
            found: Sequence[Holding] = reader.holdings(resource)
            return found

    def holders(self, resource: str) -> Sequence[Holder]:
        """Return the last holders of a resource, newest first, and whom those met who went on after their end."""
        found, now = self.holdings(resource), self.lease(resource)
        later = [(now.fence, now.acquired_at)] if now is not None and now.nonce else []
        told: list[Holder] = []
        for holding in found:
            seen = self._last_seen(holding)
            met = tuple(fence for fence, acquired_at in later if acquired_at < seen)
            told.append(Holder(holding=holding, last_seen=seen, overlaps=met))
            later.append((holding.fence, holding.acquired_at))
        return told

    def _last_seen(self, holding: Holding) -> Micros:
        if holding.end is LeaseEnd.RELEASED:
            return holding.ended_at
        with self._read() as reader:
            attempts: Sequence[AttemptRecord] = reader.attempts(holding.submission)
        refused = (one.ended_at for one in attempts if one.nonce == holding.nonce and one.outcome is Outcome.REFUSED)
        return max(holding.ended_at, max(refused, default=0))

    def line(self, resource: str, limit: int = 100) -> Sequence[Row]:
        """Return who stands in the line of a resource, in order."""
        with self._read() as reader:
            found: Sequence[Row] = reader.line(resource, limit)
            return found

    def usual_hold(self, operation: str) -> Micros | None:
        """Return how long a task has its resources as a rule: 95 in 100 of its last `SAMPLE` holdings were shorter."""
        with self._read() as reader:
            held: Sequence[Micros] = sorted(reader.held_for(operation, SAMPLE))
        return held[(len(held) * 95 - 1) // 100] if held else None
