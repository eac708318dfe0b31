"""Rows are put back by one conditional statement each: only where the row still is as an attempt left it.

The statement compares, so whatever happens between a look and the write is seen. Before it the row is read and locked
in the same transaction, and compared as a snapshot compares: a database may find texts equal that are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from django.core.exceptions import FieldError, ValidationError
from django.db import DatabaseError, connections, router, transaction
from django.db.models import Model, QuerySet
from django.db.models.sql import InsertQuery

from celery_replay.exceptions import ConfigurationError
from celery_replay.snapshots.capture import written_down
from celery_replay.snapshots.changes import RecordChange
from celery_replay.snapshots.reversal import Reversal, Way, is_redacted, unwritable
from celery_replay.snapshots.values import Opaque, Redacted, encoded

from .scratch.base import as_range
from .scratch.rows import model_of, own_fields, tables_of
from .state_provider import kept

_CANNOT = (TypeError, ValueError, ValidationError, FieldError, OverflowError)
"""What a user's field raises for a value that is not of its type."""


class _Refused(Exception):
    """A row is not put back; the text says why."""


class _NotAll(Exception):
    """Nothing is to be done, since something can't."""


class Reverting:
    """Puts rows back.

    Args:
        using: the database; by default where the routers write each model.
        version_field: where a model has it, it alone is compared, and raised by one.

    Raises:
        ConfigurationError: there is no such database.
    """

    def __init__(self, using: str, version_field: str) -> None:
        if using and using not in connections.settings:
            raise ConfigurationError(f"there is no database {using!r} in DATABASES")
        self._using = using
        self._version = version_field

    def revert(self, changes: Sequence[RecordChange], *, apply: bool, partly: bool) -> Sequence[Reversal]:
        """Look at rows, or put them back: in one transaction per database, all or nothing unless partly."""
        results = {number: Reversal(change=change) for number, change in enumerate(changes)}
        try:
            with ExitStack() as stack:
                opened: set[str] = set()
                for number in _ordered(results):
                    results[number] = self._one(results[number], apply, stack, opened)
                refused = any(one.refusal for one in results.values())
                if apply and refused and not partly:
                    raise _NotAll
                for alias in opened:
                    _see_constraints(alias)
        except _NotAll:
            pass
        except DatabaseError as error:
            # Rows that refer to others, for one: the database tells at the end.
            said = f"the database refused: {type(error).__name__}: {error}"
            results = {n: one if one.refusal else replace(one, refusal=said) for n, one in results.items()}
        return list(results.values())

    def _one(self, wanted: Reversal, apply: bool, stack: ExitStack, opened: set[str]) -> Reversal:
        try:
            model = _model(wanted.change)
            alias = self._using or router.db_for_write(model)
            if apply and alias not in opened:
                stack.enter_context(transaction.atomic(using=alias))
                opened.add(alias)
            row = _Row(model, alias, wanted, self._version)
            if apply:
                # What the database refuses of one row must not end the transaction of the others.
                with transaction.atomic(using=alias):
                    row.put_back()
            else:
                row.see(locked=False)
        except _Refused as refusal:
            return replace(wanted, refusal=str(refusal))
        except DatabaseError as error:
            return replace(wanted, refusal=f"the database refused: {type(error).__name__}: {error}")
        return wanted


class _Row:
    """One row, and what is to become of it."""

    def __init__(self, model: type[Model], alias: str, wanted: Reversal, version_field: str) -> None:
        self._model = model
        self._alias = alias
        self._change = wanted.change
        self._way = wanted.way
        self._fields = {field.attname: field for field in model._meta.concrete_fields}
        self._version = version_field if version_field in self._fields else ""
        recorded = self._change.after or self._change.before or {}
        gone = recorded.keys() - self._fields.keys()
        if gone:
            raise _Refused(f"the model has no field {min(gone)} any more")

    def put_back(self) -> None:
        """Write, if the row is as it was left."""
        self.see(locked=True)
        if self._way is Way.INSERT:
            self._insert()
            return
        rows = self._same_rows()
        count = rows._raw_delete(self._alias) if self._way is Way.DELETE else rows.update(**self._news())
        if count != 1:
            raise _Refused("it was changed since")

    def see(self, *, locked: bool) -> None:
        """Look whether the row is as it was left.

        Raises:
            _Refused: it is not, or what it is to be was not recorded.
        """
        if self._way is Way.UPDATE:
            self._refuse_unwritable([field.name for field in self._change.fields])
        elif self._way is Way.INSERT:
            self._refuse_unwritable([field.attname for field in own_fields(self._model)])
        rows = self._base.filter(**self._key(self._change.after or self._change.before or {}))
        if locked and connections[self._alias].features.has_select_for_update:
            rows = rows.select_for_update()
        current = rows.values(*self._fields).first()
        if self._way is Way.INSERT:
            if current is not None:
                raise _Refused("there is a row with its key again")
        elif current is None:
            raise _Refused("it is gone")
        else:
            self._compare(current, self._change.after or {})

    def _refuse_unwritable(self, names: Sequence[str]) -> None:
        refusal = unwritable(self._change.before or {}, names)
        if refusal:
            raise _Refused(refusal)

    def _compare(self, current: Mapping[str, Any], left: Mapping[str, Any]) -> None:
        for name in [self._version] if self._version else left:
            now = written_down(name, kept(self._fields[name], current[name]))
            if left[name] is not Redacted.REDACTED and encoded(now) != encoded(left[name]):
                raise _Refused(f"{name} was changed since")

    @property
    def _base(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = QuerySet(self._model, using=self._alias)
        return rows

    def _key(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        fields: Any = getattr(self._model._meta, "pk_fields", [self._model._meta.pk])
        names = [field.attname for field in fields]
        if any(recorded.get(name) in (None, Redacted.REDACTED) for name in names):
            raise _Refused("its key was not recorded")
        return {name: self._value(name, recorded[name]) for name in names}

    def _same_rows(self) -> QuerySet[Any]:
        left = self._change.after or {}
        rows: QuerySet[Any] = self._base.filter(**self._key(left))
        for name, value in left.items() if not self._version else [(self._version, left[self._version])]:
            if value is None:
                rows = rows.filter(**{f"{name}__isnull": True})
            elif self._can_be_compared(name, value):
                rows = rows.filter(**{name: self._value(name, value)})
        return rows

    def _can_be_compared(self, name: str, value: Any) -> bool:
        """Does the database find this equal to what it gave? Of JSON others than PostgreSQL compare the text."""
        if is_redacted(value) or isinstance(value, Opaque):
            return False
        as_text = self._fields[name].get_internal_type() == "JSONField"
        return not as_text or connections[self._alias].vendor == "postgresql"

    def _news(self) -> dict[str, Any]:
        before = self._change.before or {}
        own = {field.attname for field in own_fields(self._model)}
        names = [field.name for field in self._change.fields if field.name in own and field.name != self._version]
        news = {name: self._value(name, before[name]) for name in names}
        if self._version:
            # A version never goes back: who has read the one that is there must not write.
            news[self._version] = (self._change.after or {})[self._version] + 1
        return news

    def _insert(self) -> None:
        before = self._change.before or {}
        fields = [field for field in own_fields(self._model) if field.attname in before]
        row = self._model(**{field.attname: self._value(field.attname, before[field.attname]) for field in fields})
        query = InsertQuery(self._model)
        # Raw: nothing is set to now.
        query.insert_values(fields, [row], raw=True)
        query.get_compiler(using=self._alias).execute_sql()

    def _value(self, name: str, value: Any) -> Any:
        field: Any = self._fields[name]
        try:
            value = as_range(field, value)
            return value if value is None else field.to_python(value)
        except _CANNOT as error:
            raise _Refused(f"{name} does not take what was recorded: {error}") from error


def _model(change: RecordChange) -> type[Model]:
    label = change.record.partition(":")[0]
    model = model_of(label) if change.record != change.state else None
    if model is None:
        raise _Refused("it is no row of a model that is here")
    if len(tables_of(model)) > 1:
        raise _Refused("it lies in several tables: put it back by hand")
    return model


def _ordered(results: Mapping[int, Reversal]) -> list[int]:
    """Order rows: what is referred to is added first and removed last."""
    depths: dict[str, int] = {}

    def depth(model: type[Model], seen: frozenset[type[Model]] = frozenset()) -> int:
        label = model._meta.label_lower
        if label not in depths:
            targets = {field.related_model for field in model._meta.concrete_fields if field.is_relation}
            others = [t for t in targets if isinstance(t, type) and t is not model and t not in seen]
            depths[label] = 1 + max((depth(t, seen | {model}) for t in others), default=0)
        return depths[label]

    def key(number: int) -> tuple[int, int]:
        one = results[number]
        model = model_of(one.change.record.partition(":")[0])
        deep = depth(model) if model is not None else 0
        turn = {Way.INSERT: 0, Way.UPDATE: 1, Way.DELETE: 2}[one.way]
        return turn, -deep if one.way is Way.DELETE else deep

    return sorted(results, key=key)


def _see_constraints(alias: str) -> None:
    """Let the database say now what it would say at the commit; MariaDB has said it already."""
    if connections[alias].vendor == "postgresql":
        connections[alias].check_constraints()
