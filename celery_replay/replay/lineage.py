"""Which jobs are replays of a dead letter."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ..records import HistoryEntry, Job
from ..states import Verb
from ..stores.base import Store


@dataclass(frozen=True, kw_only=True)
class Descendant:
    """A replay that was decided."""

    entry: HistoryEntry
    """Who decided it, when and why."""
    task_id: str
    job: Job | None
    """None where it has not begun, or is forgotten."""


def descendants(store: Store, history: Iterable[HistoryEntry]) -> list[Descendant]:
    """Return the replays that a letter's history tells of, in their order."""
    found = []
    for entry in history:
        if entry.verb is Verb.REPLAYED:
            task_id = str(json.loads(entry.details).get("task_id", ""))
            jobs = store.find_jobs(task_id=task_id, limit=1) if task_id else ()
            found.append(Descendant(entry=entry, task_id=task_id, job=next(iter(jobs), None)))
    return found
