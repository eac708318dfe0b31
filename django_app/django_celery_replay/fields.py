"""Column types that the records need and Django does not have."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.dateparse import parse_datetime

from celery_replay.clock import Micros, as_datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def as_micros(value: datetime) -> Micros:
    """Return a point in time as the records have it."""
    return (value - _EPOCH) // _MICROSECOND


class TokenField(models.CharField):  # type: ignore[type-arg]
    """Text that is compared for equality only, byte by byte, whatever the database's collation.

    Other `varchar` columns get a second index for LIKE on PostgreSQL, and ignore case on MySQL.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        """Return the column's type."""
        if connection.vendor == "postgresql":
            return f'character varying({self.max_length}) COLLATE "C"'
        if connection.vendor == "mysql":
            return f"varchar({self.max_length}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        return super().db_type(connection)


class MicrosecondsField(models.BigIntegerField):  # type: ignore[type-arg]
    """A point in time, stored as microseconds since the epoch; in Python an aware datetime.

    An integer, because the rules calculate with it and every database keeps it exactly.
    """

    # Those of integers would compare a datetime with a number.
    validators: list[Any] = []

    def from_db_value(self, value: Micros | None, *_: Any) -> datetime | None:
        """Convert what the database has."""
        return None if value is None else as_datetime(value)

    def get_prep_value(self, value: Any) -> Micros | None:
        """Convert for the database; integers are taken as microseconds."""
        value = self.to_python(value)
        return None if value is None else as_micros(value)

    def to_python(self, value: Any) -> datetime | None:
        """Convert integers and ISO text."""
        if value is None or isinstance(value, datetime):
            return value
        if isinstance(value, int):
            return _EPOCH + timedelta(microseconds=value)
        parsed = parse_datetime(value) if isinstance(value, str) else None
        if parsed is None:
            raise ValidationError("%(value)s is no time", params={"value": value})
        return parsed

    def value_to_string(self, obj: models.Model) -> str:
        """Serialize as ISO text."""
        value = self.to_python(self.value_from_object(obj))
        return "" if value is None else value.isoformat()

    def formfield(self, **kwargs: Any) -> forms.Field | None:
        """Edit as a date and time."""
        return models.Field.formfield(self, **{"form_class": forms.DateTimeField, **kwargs})
