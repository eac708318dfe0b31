"""Signatures as messages carry them: tables within tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

EMBEDDED = ("callbacks", "errbacks", "chain", "chord")
"""What a message carries of its canvas, beside its arguments."""
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


def first_of(
    signature: Mapping[str, Any], rest: Sequence[Any] = ()
) -> Iterator[tuple[Mapping[str, Any], Sequence[Any]]]:
    """Yield the tasks whose messages nobody else's end would send, each with what is chained to it.

    Those of a group, the header and the body of a chord, but only the first of a chain.
    """
    inner, kind = signature.get("kwargs") or {}, signature.get("subtask_type")
    tasks = list(inner.get("tasks") or ())
    if kind == "chain" and tasks:
        yield from first_of(tasks[0], [*tasks[1:], *rest])
    elif kind == "group":
        for task in tasks:
            yield from first_of(task)
    elif kind == "chord":
        yield from first_of(inner["header"])
        yield from first_of(inner["body"], rest)
    else:
        yield signature, rest


def frozen_id(signature: Mapping[str, Any]) -> Any:
    """Return the task id that a signature was given when the canvas was sent."""
    return (signature.get("options") or {}).get("task_id")
