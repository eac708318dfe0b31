"""What can be looked up of leases on resources, without locks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..clock import Micros
from ..records import Holding, Lease, Row

SAMPLE = 1_000
"""Of how many holdings of a task the usual time is computed."""


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
