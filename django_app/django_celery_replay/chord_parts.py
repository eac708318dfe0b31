"""What a chord waits for, and who waits for it: read from results as tuples, and from signatures as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from celery.app.task import Context

from celery_replay.signatures import frozen_id, parts_of

Part = Sequence[Any]
"""A result as its `as_tuple()` has it: `[[id, parent], None]`, or a list of parts in place of None."""


def task_ids(parts: Iterable[Part]) -> Iterator[str]:
    """Name the tasks that a chord's body gets the results of."""
    for (task_id, _), inner in parts:
        if inner is None:
            yield task_id
        else:
            yield from task_ids(inner)


def under(parts: Iterable[Part], part_id: str) -> list[str]:
    """Name the tasks of a part: a task is its own, a group that is a member has several."""
    for (found, _), inner in parts:
        if found == part_id:
            return [found] if inner is None else list(task_ids(inner))
        if inner and (ids := under(inner, part_id)):
            return ids
    return []


def gathered(parts: Iterable[Part], result_of: Callable[[str], Any]) -> list[Any]:
    """Return the tasks' results in the form that the chord's header had."""
    return [result_of(task_id) if inner is None else gathered(inner, result_of) for (task_id, _), inner in parts]


def outer_parts(body: Mapping[str, Any]) -> Iterator[Context]:
    """Find what in a chord's body, or is chained to it, is a part of another chord."""
    for part in parts_of(body):
        options = part.get("options") or {}
        if "chord" in options:
            yield Context(id=frozen_id(part), group=options.get("group_id"), chord=options["chord"])
        for task in options.get("chain") or ():
            yield from outer_parts(task)


def chords_of(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Find the chords that a chord's body is made of, each as its id and its own body."""
    for part in parts_of(body):
        if part.get("subtask_type") == "chord":
            yield frozen_id(part), part["kwargs"]["body"]
