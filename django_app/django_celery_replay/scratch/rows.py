"""Rows of Django's models, made again from the records of a snapshot: the inverse of `DjangoState`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db.models import NOT_PROVIDED, Field, Model
from django.utils import timezone

from celery_replay.redaction import REDACTED
from celery_replay.snapshots.tree import Tree
from celery_replay.snapshots.values import Opaque, Redacted, decoded, encoded

from .base import as_range
from .differences import Differences, Kind
from .stand_ins import default, stand_in

Recorded = Mapping[type[Model], Mapping[str, Mapping[str, Any]]]
"""The fields of records, by their models and ids."""
Row = dict[str, Any]
"""What a table's columns are given, by the names of the fields."""


def recorded(tree: Tree, found: Differences) -> Recorded:
    """Read the records of a snapshot that are rows of models; plain data is passed over.

    Raises:
        SnapshotUnreadable: a part of the snapshot is gone or damaged.
    """
    bodies: dict[type[Model], dict[str, bytes]] = {}
    for name in tree.names:
        for record, body in tree.records(name).items():
            if record == name:
                continue
            label = record.partition(":")[0]
            model = model_of(label)
            if model is None:
                found.add(Kind.MODEL_GONE, label, record=record)
            elif bodies.setdefault(model, {}).setdefault(record, body) != body:
                found.add(Kind.READ_TWICE, label, detail=f"state {name}", record=record)
    return {model: {record: decoded(body) for record, body in some.items()} for model, some in bodies.items()}


def model_of(label: str) -> type[Model] | None:
    """Return the model with this label; None where there is none."""
    try:
        # Also one of no installed app's, as long as it is imported.
        return apps.get_registered_model(*label.split("."))
    except (LookupError, TypeError, ValueError):
        return None


def own_fields(model: type[Model]) -> Sequence[Field[Any, Any]]:
    """Return the fields that a model's own table has columns for, but those that the database computes."""
    return [one for one in model._meta.local_concrete_fields if not getattr(one, "generated", False)]


def tables_of(model: type[Model]) -> Sequence[type[Model]]:
    """Return the models whose tables one row of this one is in, parents first."""
    concrete: Any = model._meta.concrete_model
    parents = [one for one in concrete._meta.get_parent_list() if not one._meta.proxy]
    return [*reversed(parents), concrete]


class Decoder:
    """Makes what is to be written of what was recorded, for one model."""

    def __init__(self, model: type[Model], connection: Any, found: Differences) -> None:
        self._label = model._meta.label_lower
        self._connection = connection
        self._found = found
        self._names = {field.attname for field in model._meta.concrete_fields}
        self._fields = [field for table in tables_of(model) for field in own_fields(table)]

    def rows(self, records: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Row]]:
        """Yield each record's id and what is to be written, for the tables of all of its parents."""
        known = {name for fields in records.values() for name in fields}
        # The database itself gives the value, where no row has another one.
        given = [one for one in self._fields if one.attname in known or not has_database_default(one)]
        for one in self._fields:
            if one not in given:
                self._found.add(Kind.NEW_FIELD, self._label, one.attname, "the database's default")
        for number, (record, fields) in enumerate(records.items(), 1):
            for name in fields.keys() - self._names:
                self._found.add(Kind.FIELD_GONE, self._label, name, record=record)
            yield record, {one.attname: self._value(one, record, fields, number) for one in given}

    def _value(self, field: Any, record: str, fields: Mapping[str, Any], number: int) -> Any:
        if field.attname not in fields:
            return self._of_new(field, record, number)
        value = fields[field.attname]
        if value is Redacted.REDACTED:
            return self._of_secret(field, record, number)
        if _redacted_in_part(value):
            self._note(Kind.REDACTED, field, "in part", record)
        try:
            return self._prepared(field, value)
        except Exception as error:  # whatever a user's field makes of a value that is not of its type
            self._note(Kind.NOT_HELD, field, f"{type(error).__name__}: {error}", record)
            return self._stand_in(field, Kind.NOT_HELD, number)

    def _of_new(self, field: Any, record: str, number: int) -> Any:
        try:
            value, said = self._prepared(field, default(field)), "default"
        except Exception:  # there is none, or the function that makes it fails
            value, said = self._stand_in(field, Kind.NEW_FIELD, number), "stand-in"
        self._note(Kind.NEW_FIELD, field, "null" if value is None else said, record)
        return value

    def _of_secret(self, field: Any, record: str, number: int) -> Any:
        if field.primary_key:
            with suppress(Exception):  # a key that can't be read from its text
                return self._prepared(field, field.to_python(record.partition(":")[2]))
        self._note(Kind.REDACTED, field, "", record)
        return self._stand_in(field, Kind.REDACTED, number)

    def _stand_in(self, field: Any, kind: Kind, number: int) -> Any:
        if field.null:
            return None
        try:
            return self._prepared(field, stand_in(field, f"[{kind}]", number))
        except Exception:  # a user's field that takes none of its own type; the row will be left out
            return None

    def _prepared(self, field: Any, value: Any) -> Any:
        if type(value) is Opaque:
            raise TypeError("its type is not known")
        if value is None:
            return self._null(field)
        value = _in_zone(field, as_range(field, value))
        try:
            return self._connection.storable(field.get_db_prep_save(value, self._connection))
        except Exception:  # what was recorded may be what the database had, not what the field gives
            return self._connection.storable(field.get_db_prep_save(field.to_python(value), self._connection))

    def _null(self, field: Any) -> Any:
        if field.null:
            return None
        if field.get_internal_type() == "JSONField":
            return "null"
        raise ValueError("null is not allowed")

    def _note(self, kind: Kind, field: Any, detail: str, record: str) -> None:
        self._found.add(kind, self._label, field.attname, detail, record)


def has_database_default(field: Any) -> bool:
    """Has the column a default of its own? Django knows of these since 5.0."""
    return getattr(field, "db_default", NOT_PROVIDED) is not NOT_PROVIDED


def _redacted_in_part(value: Any) -> bool:
    if isinstance(value, str):
        return REDACTED in value
    return isinstance(value, (list, tuple, dict)) and REDACTED.encode() in encoded(value)


def _in_zone(field: Any, value: Any) -> Any:
    """Make a time one that the project stores today; it may have changed its mind on zones."""
    if not isinstance(value, datetime) or field.get_internal_type() != "DateTimeField":
        return value
    if settings.USE_TZ and value.tzinfo is None:
        return timezone.make_aware(value)
    return timezone.make_naive(value) if value.tzinfo and not settings.USE_TZ else value
