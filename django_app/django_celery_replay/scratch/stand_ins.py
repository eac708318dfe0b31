"""Values that stand in for those that are not known."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import NOT_PROVIDED, UniqueConstraint

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001


def default(field: Any) -> Any:
    """Return what a new field has in rows that are older than it: its default or null.

    Raises:
        LookupError: it has neither.
        Exception: whatever a default that is a function raises.
    """
    if field.default is not NOT_PROVIDED:
        return field.get_default()
    if field.null:
        return None
    raise LookupError(field.attname)


def stand_in(field: Any, word: str, number: int) -> Any:
    """Return a value of a field's type that is recognized as none of the project's own.

    Args:
        word: what a text says.
        number: the row's, from one on; values that must differ do so by it.
    """
    differs = _must_differ(field)
    while field.remote_field:
        field = field.target_field
    if field.choices and not differs:
        return field.flatchoices[0][0]
    make = _MAKERS.get(field.get_internal_type())
    if make is not None:
        return make(number if differs else 0)
    if hasattr(field, "base_field"):
        return field.range_type(empty=True) if hasattr(field, "range_type") else []
    if not field.empty_strings_allowed:
        return None
    end = str(number) if differs else ""
    limit = field.max_length
    return (word if limit is None else word[: max(0, limit - len(end))]) + end


def _must_differ(field: Any) -> bool:
    options = field.model._meta
    unique = [one.fields for one in options.constraints if isinstance(one, UniqueConstraint)]
    return bool(field.unique or any(field.name in names for names in [*options.unique_together, *unique]))


def _moment(number: int) -> datetime:
    return (_EPOCH + timedelta(seconds=number)).replace(tzinfo=timezone.utc if settings.USE_TZ else None)


_INTEGERS = ("Integer", "SmallInteger", "BigInteger", "PositiveInteger", "PositiveSmallInteger", "PositiveBigInteger")
_MAKERS: Mapping[str, Callable[[int], Any]] = {
    **dict.fromkeys([f"{name}Field" for name in _INTEGERS], int),
    # No row has such a number, so what refers to one refers to none.
    **dict.fromkeys(["AutoField", "SmallAutoField", "BigAutoField"], lambda number: -number),
    "BooleanField": bool,
    "FloatField": float,
    "DecimalField": Decimal,
    "DateField": lambda number: date(1970, 1, 1) + timedelta(days=number),
    "DateTimeField": _moment,
    "TimeField": lambda number: (_EPOCH + timedelta(microseconds=number)).time() if number else time(0),
    "DurationField": lambda number: timedelta(microseconds=number),
    "UUIDField": lambda number: uuid.UUID(int=number),
    "BinaryField": lambda number: str(number).encode() if number else b"",
    "GenericIPAddressField": lambda number: str(ipaddress.IPv4Address(number)),
    "JSONField": lambda number: number or {},
    "HStoreField": lambda number: {},
}
