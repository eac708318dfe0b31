"""Values of records as JSON that keeps their types, the same bytes for the same value."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from ..exceptions import SnapshotUnreadable
from ..serialization import canonical_bytes, safe_text

TYPE = "$"
"""Under this key a value that JSON does not have names its type; under `v` is what it is made from."""


class Opaque(str):
    """The text of a value whose type can't be kept: it can be shown and compared, and goes into no database."""

    __slots__ = ()


class Redacted(Enum):
    """Stands for a value that is secret, and was not written down."""

    REDACTED = "[redacted]"


def encoded(value: Any) -> bytes:
    """Encode a value; what is of no known type is kept as its text, and marked as such."""
    return canonical_bytes(plain(value))


def decoded(body: bytes) -> Any:
    """Decode what `encoded` made. Nothing in it can be executed.

    Raises:
        SnapshotUnreadable: it is damaged, or of a newer version.
    """
    try:
        return json.loads(body.decode("utf-8", "surrogatepass"), object_hook=_restored)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise SnapshotUnreadable(f"a value can't be read: {type(error).__name__}") from error


def plain(value: Any) -> Any:
    """Reduce a value to what JSON has, types that it does not have being named."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    convert = _CONVERTERS.get(kind)
    return convert(value) if convert is not None else _of_another_type(value)


def is_known(value: Any) -> bool:
    """Does a value of this type come back as it was?"""
    return type(value) in _ATOMS or type(value) in _CONVERTERS


def _of_another_type(value: Any) -> Any:
    """Take an enum for its value, and a subclass for what it is a subclass of."""
    if value is Redacted.REDACTED:
        return _named("redacted", None)
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    for kind, convert in _CONVERTERS.items():
        if isinstance(value, kind):
            return convert(value)
    return _named("opaque", safe_text(value))


def _named(name: str, value: Any) -> dict[str, Any]:
    return {TYPE: name, "v": value}


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    if TYPE not in value and {*map(type, value)} <= _TEXT:
        return {key: item if type(item) in _ATOMS else plain(item) for key, item in value.items()}
    return _named("dict", _sorted([plain(key), plain(item)] for key, item in value.items()))


def _sorted(items: Any) -> list[Any]:
    return sorted(items, key=canonical_bytes)


def _moment(value: datetime) -> dict[str, Any]:
    # The same instant is the same value, wherever its clock stands.
    elsewhere = value.tzinfo is not None and value.tzinfo is not timezone.utc
    return _named("datetime", (value.astimezone(timezone.utc) if elsewhere else value).isoformat())


_TEXT = frozenset({str})
_ATOMS = frozenset({str, int, bool, type(None)})
# A datetime is a date, so it comes first.
_CONVERTERS: dict[type, Callable[[Any], Any]] = {
    float: lambda value: float(value) if math.isfinite(value) else _named("float", repr(float(value))),
    datetime: _moment,
    Decimal: lambda value: _named("decimal", str(value)),
    date: lambda value: _named("date", value.isoformat()),
    time: lambda value: _named("time", value.isoformat()),
    timedelta: lambda value: _named("timedelta", [value.days, value.seconds, value.microseconds]),
    UUID: lambda value: _named("uuid", value.hex),
    bytes: lambda value: _named("bytes", base64.b64encode(value).decode()),
    bytearray: lambda value: _named("bytes", base64.b64encode(value).decode()),
    memoryview: lambda value: _named("bytes", base64.b64encode(value).decode()),
    list: lambda value: [plain(item) for item in value],
    tuple: lambda value: _named("tuple", [plain(item) for item in value]),
    set: lambda value: _named("set", _sorted(plain(item) for item in value)),
    frozenset: lambda value: _named("set", _sorted(plain(item) for item in value)),
    dict: _mapping,
    Mapping: _mapping,
}
_RESTORERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "datetime": datetime.fromisoformat,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda parts: timedelta(*parts),
    "uuid": UUID,
    "bytes": base64.b64decode,
    "tuple": tuple,
    "set": set,
    "dict": dict,
    "opaque": Opaque,
    "redacted": lambda _: Redacted.REDACTED,
}


def _restored(found: dict[str, Any]) -> Any:
    return _RESTORERS[found[TYPE]](found["v"]) if TYPE in found else found
