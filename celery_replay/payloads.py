"""Kept messages and values, for reading: only JSON is decoded, nothing of it is run, and what is secret is replaced."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .arguments import Parameters, named
from .redaction import REDACTED, is_secret, redact
from .redaction.data import DEEPEST
from .runtime import Runtime
from .serialization import JSON, unpack

NOT_OURS = "It is in a format of another version."
NOT_JSON = "Only JSON is decoded here."
NOT_CELERYS = "It is not as Celery writes it."
TOO_LARGE = "It is too large to be shown."
_PROBLEMS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, zlib.error)
_REPRS = frozenset({"argsrepr", "kwargsrepr"})
"""Headers that repeat the arguments as text, in which no name tells what is secret."""
_BEFORE = 3
"""A callback gets the result first; an errback the request, the exception and the traceback."""
_ROUTE = ("exchange", "routing_key", "priority", "properties")


@dataclass(frozen=True, kw_only=True)
class Message:
    """A kept message, redacted."""

    content_type: str | None = None
    """None where nothing of it can be read."""
    size: int
    """Bytes of its body, where that can be told; else of the whole."""
    route: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """By their parameters' names; as `args` and `kwargs` where those aren't known."""
    canvas: Mapping[str, Any] = field(default_factory=dict)
    """Callbacks, errbacks, chain and chord, where there are any."""
    unreadable: str = ""
    """Why its body can't be shown."""


def message(
    packed: bytes, operation: str, runtime: Runtime | None, *, mended: bool = False, most: int | None = None
) -> Message:
    """Read a kept message.

    Args:
        operation: the task that it is for.
        runtime: knows today's tasks.
        mended: its arguments were given for today's parameters, and not for those of the code that it was sent by.
        most: bytes of a body that are decoded.
    """
    try:
        kept = unpack(packed)
        body = base64.b64decode(kept["body"])
        content_type = str(kept["content_type"])
        route = redact({name: kept.get(name) for name in _ROUTE})
        headers = redact(_without_reprs(dict(kept["headers"])))
    except _PROBLEMS:
        return Message(size=len(packed), unreadable=NOT_OURS)
    described: dict[str, Any] = {"content_type": content_type, "size": len(body), "route": route, "headers": headers}
    if content_type != JSON:
        return Message(**described, unreadable=NOT_JSON)
    if most is not None and len(body) > most:
        return Message(**described, unreadable=TOO_LARGE)
    try:
        args, kwargs, canvas = _load(body)
        names = _Names(runtime)
        then, now = (kept.get("task") or {}).get("parameters"), names.parameters(operation)
        parameters = (now or then) if mended else (then or now)
        given = named(
            parameters, [names.within(item) for item in args], {k: names.within(v) for k, v in kwargs.items()}
        )
        onward = {name: names.within(item) for name, item in canvas.items() if item}
    except _PROBLEMS:
        return Message(**described, unreadable=NOT_CELERYS)
    return Message(**described, arguments=redact(given), canvas=redact(onward))


def value(text: str) -> Any:
    """Read a kept value, such as a result.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    return redact(_load(text))


class _Names:
    """Knows the parameters of tasks."""

    def __init__(self, runtime: Runtime | None) -> None:
        self._runtime = runtime

    def parameters(self, operation: str) -> Parameters | None:
        if self._runtime is None or operation not in self._runtime.app.tasks:
            return None
        found: Parameters | None = self._runtime.policy(self._runtime.app.tasks[operation]).told["parameters"]
        return found

    def within(self, item: Any) -> Any:
        """Name the arguments of all calls in data, such as callbacks and other parts of a canvas."""
        if isinstance(item, list):
            return [self.within(part) for part in item]
        if not isinstance(item, dict):
            return item
        item = {name: self.within(part) for name, part in item.items()}
        parameters = self.parameters(item["task"]) if isinstance(item.get("task"), str) else None
        if parameters is None or not isinstance(item.get("args"), list) or not isinstance(item.get("kwargs"), dict):
            return item
        if not item.get("immutable"):
            return {**item, "args": _wherever(parameters, item["args"])}
        return {"arguments": named(parameters, item.pop("args"), item.pop("kwargs")), **item}


def _wherever(parameters: Parameters, args: list[Any]) -> list[Any]:
    """Redact arguments that come behind those that Celery puts before them: none, one or several, as it goes."""
    names = [(name, kind) for name, kind, *_ in parameters]
    shown = []
    for place, item in enumerate(args):
        possible = [*names[place : place + _BEFORE + 1], *(each for each in names if each[1] == "VAR_POSITIONAL")]
        shown.append(REDACTED if any(is_secret(name) for name, _ in possible) else item)
    return shown


def _without_reprs(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: _without_reprs(part) for name, part in item.items() if name not in _REPRS and part is not None}


def _load(text: str | bytes) -> Any:
    data = json.loads(text)
    level = [data]
    for _ in range(DEEPEST):
        inside = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list))]
        level = [value for values in inside for value in values]
        if not level:
            return data
    raise ValueError("data that is nested so deeply can't be walked through")
