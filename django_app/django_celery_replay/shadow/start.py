"""Beginning a run on its shadows, and what is told of them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from django.db import connections
from django.db.models import Manager, Model, QuerySet

from celery_replay.snapshots.tree import Tree

from ..scratch.differences import Difference, Differences
from ..scratch.filling import places_of
from ..scratch.rows import model_of, tables_of
from .session import ended, sessions
from .tables import begin

Data = dict[str, Any]


def begin_all(state: Tree | None, declared: Callable[[], Iterable[Any]]) -> Iterable[Difference]:
    """Copy the tables of what is recorded and of what is declared, which may have no rows; all others stay live.

    Whose code is asked for it (routers, declarations) can only read.

    Args:
        declared: the values of the task's `state=`.
    """
    planned: dict[str, dict[type[Model], None]] = {alias: {} for alias in sessions}
    for model in {*_recorded(state), *map(_model, declared())} - {None}:
        for alias in places_of(model, None):  # type: ignore[arg-type]
            owner = getattr(connections[alias], "owner", None)
            if owner is not None:
                planned[owner].update(dict.fromkeys(tables_of(model)))  # type: ignore[arg-type]
    found = Differences()
    for alias, models in planned.items():
        begin(sessions[alias], sorted(models, key=lambda model: model._meta.label_lower), found)
    return found.listed()


def _recorded(state: Tree | None) -> Iterator[type[Model] | None]:
    labels = {record.partition(":")[0] for name in state.names for record in state.records(name)} if state else ()
    return map(model_of, labels)


def _model(value: Any) -> type[Model] | None:
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    if isinstance(value, (Manager, QuerySet)):
        return value.model
    return type(value) if isinstance(value, Model) else None


def copied() -> Collection[str]:
    """Name the tables that have a copy."""
    return {table for session in sessions.values() for table in session.tables}


def told(own: Collection[str]) -> Data:
    """End all transactions; say what was read of the live databases.

    Args:
        own: the tables of the project.
    """
    seen = ended()
    live = {table for session in seen.values() for table in session.used - {*session.tables}}
    notified = sum(session.notified for session in seen.values())
    return {
        "shadow": f"copies of {', '.join(sorted(copied())) or 'no table'}; whatever else it reads is live",
        "live_data": ", ".join(sorted(live & {*own})),
        "would_notify": f"{notified} time{'s' * (notified != 1)}" if notified else "",
    }
