"""Payloads for reading: JSON only, redacted. Nothing here decodes anything else, least of all a pickle."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from celery_replay.redaction import redact
from celery_replay.runtime import runtime_of
from celery_replay.serialization import unpack

from ..conf import celery_app
from .display import shown, size

DECODED_LIMIT = 512 * 1024
"""Bytes of a body that are decoded for a page; of a larger one its size is told."""

_REPRS = frozenset({"argsrepr", "kwargsrepr"})
"""Headers that repeat the arguments as text, in which no name tells what is secret."""
_UNREADABLE = (ValueError, LookupError, TypeError, RecursionError, zlib.error)


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a payload."""

    title: str
    note: str = ""
    """What is to be said of it."""
    text: str = ""
    """Its content, as far as it can be shown."""


def value(title: str, text: str | None) -> Part:
    """Show a recorded value: a result or a step's output."""
    if text is None:
        return Part(title=title, note="None is kept.")
    if len(text) > DECODED_LIMIT:
        return Part(title=title, note=f"Too large to be shown: {len(text):,} characters of JSON.")
    try:
        return Part(title=title, text=_pretty(redact(json.loads(text))))
    except _UNREADABLE:
        return Part(title=title, note=f"{len(text):,} characters that are no JSON.")


def message(packed: bytes | None, operation: str) -> list[Part]:
    """Show a message that `parking.keep` has kept.

    Args:
        operation: the task that it is for. Where this process knows it, arguments are shown by their names, so that
            the names tell which of them are secret.
    """
    if not packed:
        return [Part(title="Message", note="None is kept.")]
    try:
        return list(_parts(unpack(packed), operation))
    except _UNREADABLE:
        return [Part(title="Message", note=f"It can't be read: {size(len(packed))} in a format of another version.")]


def _parts(kept: dict[str, Any], operation: str) -> Iterator[Part]:
    yield _body(base64.b64decode(kept["body"]), str(kept["content_type"]), operation)
    yield Part(title="Headers", text=_pretty(redact(_without_reprs(kept["headers"]))))
    route = {name: kept.get(name) for name in ("exchange", "routing_key", "priority", "properties")}
    yield Part(title="Route", text=_pretty(redact(route)))


def _body(raw: bytes, content_type: str, operation: str) -> Part:
    what = f"{shown(content_type, 100)}, {size(len(raw))}"
    if content_type != "application/json":
        return Part(title="Arguments", note=f"{what}. Only JSON is decoded here.")
    if len(raw) > DECODED_LIMIT:
        return Part(title="Arguments", note=f"{what}. Too large to be shown.")
    try:
        args, kwargs, embedded = json.loads(raw)
        canvas = {name: item for name, item in embedded.items() if item}
        text = _pretty(redact({**_named(operation, args, kwargs), **canvas}))
    except (*_UNREADABLE, AttributeError):
        return Part(title="Arguments", note=f"{what}, and not as Celery writes it.")
    return Part(title="Arguments", note=f"{what}.", text=text)


def _named(operation: str, args: Any, kwargs: Any) -> dict[str, Any]:
    app = celery_app()
    task = app.tasks.get(operation) if app else None
    bound = runtime_of(app).policy(task).bind(args, kwargs) if task else None
    return {"args": args, "kwargs": kwargs} if bound is None else {"arguments": dict(bound)}


def _without_reprs(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_reprs(item) for name, item in value.items() if name not in _REPRS}


def _pretty(value: Any) -> str:
    return shown(json.dumps(value, indent=2, ensure_ascii=False, default=shown))
