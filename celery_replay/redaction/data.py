"""Secrets in data: by the names of fields, at any depth, and in all text."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from celery.exceptions import SoftTimeLimitExceeded

from ..serialization import safe_text
from .names import is_secret
from .text import REDACTED, redact_text

DEEPEST = 100
"""How deeply data may be nested; what lies deeper is left out."""
MOST = 200_000
"""How many values are walked through; the others are left out."""
LEFT_OUT = "…[cut]"
_PLAIN = frozenset({int, float, bool, type(None)})
_LABELS = (("key", "value"), ("name", "value"), ("Key", "Value"), ("Name", "Value"))
"""Fields with the name of a value, and with the value, as lists of settings have them."""
_SHORTEST = 6
"""A shorter value may stand anywhere by chance."""
_LONGEST = 10_000
_MOST_SECRETS = 50
_SECRETS_AMONG = 2_000


def redact(value: Any, name: str = "", known: Collection[str] = ()) -> Any:
    """Replace secret values in data, by the names of their fields; the shape stays, but tuples become lists.

    Never raises for what it is given.

    Args:
        name: that of the value itself.
        known: texts that are known to be secret.
    """
    if name and is_secret(name):
        return REDACTED
    kind = type(value)
    if kind in _PLAIN:
        return value
    return redact_text(value, known) if kind is str else _Walk(known).of(value)


class _Walk:
    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self._left = MOST
        self._path: set[int] = set()

    def of(self, value: Any, name: str = "") -> Any:
        self._left -= 1
        if name and is_secret(name):
            return REDACTED
        kind = type(value)
        if kind in _PLAIN:
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bytes):
            return self._text(value.decode("latin-1")).encode("latin-1")
        if isinstance(value, (list, tuple)):
            return self._within(value, self._list)
        return self._within(value, self._dict) if isinstance(value, Mapping) else value

    def _text(self, value: str) -> str:
        text = value if type(value) is str else str.__str__(value)
        shown = redact_text(text, self._known)
        return value if shown == text else shown

    def _within(self, value: Any, walk: Callable[[Any], Any]) -> Any:
        if len(self._path) >= DEEPEST or id(value) in self._path:
            return LEFT_OUT
        self._path.add(id(value))
        try:
            return walk(value)
        except SoftTimeLimitExceeded:
            raise  # it is meant for the body
        except Exception as error:  # whatever a user's object does
            return f"<{type(value).__name__} that can't be shown: {type(error).__name__}>"
        finally:
            self._path.discard(id(value))

    def _list(self, value: list[Any] | tuple[Any, ...]) -> list[Any]:
        shown: list[Any] = []
        for name, item in _items(value):
            if self._left <= 0:
                return [*shown, LEFT_OUT]
            shown.append(item if not name and type(item) in _PLAIN else self.of(item, name))
        return shown

    def _dict(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        shown: dict[Any, Any] = {}
        named = _named_by_others(value)
        for key, item in value.items():
            if self._left <= 0:
                shown[LEFT_OUT] = LEFT_OUT
                break
            name = _name(named.get(key, key) if named else key)
            shown[self._text(key) if isinstance(key, str) else key] = self.of(item, name)
        return shown


def _items(value: list[Any] | tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return the items of a sequence with their names, where it has any: named tuples, and pairs of name and value."""
    names = getattr(value, "_fields", None)
    if isinstance(names, tuple) and len(names) == len(value):
        return list(zip(map(str, names), value, strict=True))
    if len(value) == 2 and isinstance(value[0], (str, bytes)):
        return [("", value[0]), (_name(value[0]), value[1])]
    return [("", item) for item in value]


def _named_by_others(value: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the names of a mapping's values whose names stand in another field."""
    if "value" not in value and "Value" not in value:
        return {}
    return {content: value[label] for label, content in _LABELS if label in value and content in value}


def _name(key: Any) -> str:
    if isinstance(key, str):
        return key
    return key.decode("latin-1") if isinstance(key, bytes) else safe_text(key, 100)


def secrets_in(*data: Any) -> tuple[str, ...]:
    """Return the texts that stand in data under secret names, as they may be written elsewhere; the longest first."""
    found: dict[str, None] = {}
    try:
        for value in _secret_values(data):
            found.update(dict.fromkeys(_written(value)))
            if len(found) >= _MOST_SECRETS:
                break
    except SoftTimeLimitExceeded:
        raise
    except Exception:  # whatever a user's object does; what was found before it counts
        return tuple(sorted(found, key=len, reverse=True))
    return tuple(sorted(found, key=len, reverse=True))


def _secret_values(data: Any) -> Iterator[Any]:
    waiting = [("", item, False) for item in data]
    for _ in range(_SECRETS_AMONG):
        if not waiting:
            return
        name, value, inside = waiting.pop()
        inside = inside or (bool(name) and is_secret(name))
        if isinstance(value, (list, tuple)):
            waiting += ((name, item, inside) for name, item in _items(value))
        elif isinstance(value, Mapping):
            named = _named_by_others(value)
            waiting += ((_name(named.get(key, key)), item, inside) for key, item in value.items())
        elif inside:
            yield value


def _written(value: Any) -> list[str]:
    """Return a secret as messages may have it: as it is, escaped in quotes, escaped in an address."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, int) and not isinstance(value, bool):
        value = safe_text(value, _LONGEST)
    if not isinstance(value, str) or not _SHORTEST <= len(value) <= _LONGEST:
        return []
    safe = safe_text(value, _LONGEST)
    ways = (value, safe, repr(value)[1:-1], json.dumps(value)[1:-1], quote(safe, safe=""), quote_plus(safe))
    return list(dict.fromkeys(ways))
