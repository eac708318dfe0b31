"""Rows of Django's models as records of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.models import Field, Manager, Model, QuerySet

from celery_replay.snapshots.capture import Record
from celery_replay.snapshots.changes import RecordChange
from celery_replay.snapshots.reversal import Reversal
from celery_replay.snapshots.values import is_known

RANGE = "range"
"""Marks what is made from a range: its ends, and which of them belong to it."""
_BATCH = 500


class DjangoState:
    """Captures querysets, managers and model instances; each queryset by one query, without making instances."""

    reverts = True

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Keep errors of a capture from breaking transactions that are open around it."""
        with ExitStack() as stack:
            for connection in connections.all(initialized_only=True):
                if connection.in_atomic_block:
                    stack.enter_context(transaction.atomic(using=connection.alias))
            yield

    def records(self, value: Any, limit: int) -> Iterable[Record] | None:
        """Read rows, `limit` and one more at most; None where the value is nothing of Django's models."""
        if isinstance(value, Manager):
            value = value.all()
        if isinstance(value, QuerySet):
            return _rows(value, limit)
        if isinstance(value, Model):
            value = [value]
        if isinstance(value, (list, tuple)) and value and all(isinstance(item, Model) for item in value):
            return _rows_of(value)
        return None

    def revert(
        self, changes: Sequence[RecordChange], *, using: str = "", version_field: str = "", apply: bool, partly: bool
    ) -> Sequence[Reversal]:
        """Put rows back, each only where it still is as the attempt left it."""
        from .reverting import Reverting

        return Reverting(using, version_field).revert(changes, apply=apply, partly=partly)


def _rows(queryset: QuerySet[Any], limit: int) -> Iterator[Record]:
    model = queryset.model
    fields = model._meta.concrete_fields
    names = [field.attname for field in fields]
    # A composite key is of several fields; Django has it since 5.2.
    keys = [names.index(one.attname) for one in getattr(model._meta, "pk_fields", [model._meta.pk])]
    label = model._meta.label_lower
    # A slice's order says what is in it; another's is of no use here, and may cost a sort.
    plain = queryset if queryset.query.is_sliced else queryset.order_by()[: limit + 1]
    for row in plain.prefetch_related(None).values_list(*names):
        values = (kept(field, value) for field, value in zip(fields, row, strict=True))
        yield f"{label}:{','.join(str(row[key]) for key in keys)}", dict(zip(names, values, strict=True))


def _rows_of(instances: Sequence[Model]) -> Iterator[Record]:
    """Read the rows of instances anew: what they hold may be older, or never have been saved."""
    by_table = {(type(instance), instance._state.db): None for instance in instances}
    for model, alias in by_table:
        keys = [one.pk for one in instances if (type(one), one._state.db) == (model, alias) and one.pk is not None]
        for begun in range(0, len(keys), _BATCH):
            found = model._base_manager.using(alias).filter(pk__in=keys[begun : begun + _BATCH])
            yield from _rows(found, _BATCH)


def kept(field: Field[Any, Any], value: Any) -> Any:
    """Return what a field's value is kept as."""
    if is_known(value):
        return value
    if is_range(value):
        return kept_range(value)
    # A field may have values of a type of its own; what it gives to the database is of one that databases know.
    return field.get_prep_value(value)


def is_range(value: Any) -> bool:
    """Is this a range of PostgreSQL's, of whichever driver?"""
    return hasattr(value, "lower_inc") and hasattr(value, "isempty")


def kept_range(value: Any) -> dict[str, Any]:
    """Return what a range is kept as."""
    bounds = ("[" if value.lower_inc else "(") + ("]" if value.upper_inc else ")")
    return {RANGE: None if value.isempty else [value.lower, value.upper, bounds]}
