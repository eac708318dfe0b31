"""What guards at a target, of whatever kind it is, say when they refuse."""

from __future__ import annotations

from typing import Any

from .current import current_attempt
from .exceptions import FenceRefused, VersionConflict


def refusal(name: str, target: str, token: int) -> FenceRefused:
    """Return the error of a target that has seen a newer owner; the running attempt's trace tells of it.

    Args:
        name: what is guarded.
        target: where, as the message says it.
        token: the one that is too old.
    """
    error = FenceRefused(f"{name!r} in {target} has seen a newer owner than token {token}")
    attempt = current_attempt()
    if attempt is not None:
        found = {"name": name, "target": target, "token": token}
        attempt.recorder.record("fence_refused", status="fail", attributes=found)
        error.is_owners = token == attempt.fence or attempt.resources.has(token)
        if error.is_owners:
            # Whatever the body makes of the error, it shall not begin another side effect.
            attempt.lost()
    return error


def conflict(row: str, expected: int, found: int | None) -> VersionConflict:
    """Return the error of a row that somebody else changed first; the running attempt's trace tells of it.

    Args:
        row: which one, as the message says it.
        expected: the version on which the change was decided.
        found: the one that is there; None where there is none, or the database does not say.
    """
    attempt = current_attempt()
    if attempt is not None:
        attributes: dict[str, Any] = {"row": row, "expected": expected, "found": found}
        attempt.recorder.record(
            "optimistic_conflict", status="fail", resource_version=str(expected), attributes=attributes
        )
    seen = f"version {expected} is not there any more" if found is None else f"version {found} is there, not {expected}"
    return VersionConflict(f"{row}: {seen}; read it again and decide anew, or let the task retry")
