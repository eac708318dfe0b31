"""Signatures as messages carry them: tables within tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MADE_OF = {"chain": ("tasks",), "group": ("tasks",), "chord": ("header", "body")}


def parts_of(signature: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a signature and those that it is made of: a chain's and group's tasks, a chord's header and body.

    Links, and what is chained to it in a message, are none of it.
    """
    yield signature
    inner = signature.get("kwargs") or {}
    for name in _MADE_OF.get(signature.get("subtask_type") or "", ()):
        found = inner.get(name) or ()
        for part in (found,) if isinstance(found, Mapping) else found:
            yield from parts_of(part)


def frozen_id(signature: Mapping[str, Any]) -> Any:
    """Return the task id that a signature was given when the canvas was sent."""
    return (signature.get("options") or {}).get("task_id")
