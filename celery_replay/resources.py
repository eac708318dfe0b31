"""The resources of one attempt: their names, its leases on them, and what its trace tells of these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .admission import Admission
from .exceptions import ConfigurationError
from .facts import Place
from .policy import TaskPolicy
from .states import Verdict
from .templates import resource_name
from .trace import Recorder


class Resources:
    """What an attempt names and, once it is admitted, has."""

    def __init__(self, policy: TaskPolicy, args: Any, kwargs: Any) -> None:
        self.names: tuple[str, ...] = ()
        """Sorted, each once. Computed once per attempt, so that what is let go is what was taken."""
        self.error: Exception | None = None
        """Why they can't be computed."""
        self._operation = policy.operation
        self._fences: dict[str, int] = {}
        if policy.resources is not None:
            try:
                self.names = policy.names(args, kwargs)
            except Exception as error:  # a user's function
                self.error = error

    def fence_of(self, resource: str) -> int:
        """Return the token of the lease on a resource; 0 where the attempt runs without the store.

        Raises:
            ConfigurationError: it is none of those that the attempt named.
        """
        name = resource_name(resource)
        if name not in self.names:
            known = ", ".join(map(repr, self.names)) or "none"
            raise ConfigurationError(
                f"task {self._operation} has no lease on {resource!r}: name it in `resources=`, which gave {known}"
            )
        return self._fences.get(name, 0)

    def has(self, token: int) -> bool:
        """Is this the token of one of its leases?"""
        return token in self._fences.values()

    def opened(self, admission: Admission, recorder: Recorder) -> None:
        """Take the tokens of what was leased; or tell who has it."""
        if admission.behind is not None:
            self._contended(admission.behind, recorder)
        if admission.verdict is Verdict.RUN:
            self._fences = {place.lease.resource: place.lease.fence for place in admission.facts.places}
            for resource, fence in self._fences.items():
                recorder.record("lease_acquired", attributes={"resource": resource}, fence=fence)

    @staticmethod
    def _contended(behind: Place, recorder: Recorder) -> None:
        lease = behind.lease
        held = bool(lease.nonce)
        recorder.record(
            "lease_contended",
            status="skipped",
            fence=lease.fence or None,
            attributes={
                "resource": lease.resource,
                "owner": lease.submission if held else None,
                "owner_task": lease.operation if held else None,
                "owner_attempt": lease.nonce or None,
                "owner_worker": f"{lease.worker}/{lease.pid}" if held else None,
                "owner_since": lease.acquired_at if held else None,
            },
        )

    def released(self, recorder: Recorder) -> None:
        """Tell that the leases are given back."""
        for resource, fence in self._fences.items():
            recorder.record("lease_released", attributes={"resource": resource}, fence=fence)

    def lost(self, recorder: Recorder) -> None:
        """Tell that the leases are, or may be, another one's."""
        for resource, fence in self._fences.items():
            recorder.record("lease_lost", status="fail", attributes={"resource": resource}, fence=fence)


def who_has_it(admission: Admission) -> Iterator[str]:
    """Say for whom a delivery was parked, where it waits for a resource."""
    if admission.behind is not None:
        lease = admission.behind.lease
        who = f"{lease.operation} {lease.submission} on {lease.worker}" if lease.nonce else "others came before"
        yield f"{lease.resource}: {who}"
