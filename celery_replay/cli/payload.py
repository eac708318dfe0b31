"""Stored data and messages, decoded without running anything of them: only JSON, never a pickle."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

from ..runtime import Runtime
from ..serialization import unpack

_PROBLEMS = (AttributeError, KeyError, RecursionError, TypeError, ValueError, zlib.error)
DEEPEST = 100
"""How deeply data may be nested that is shown."""
_HEADERS = ("id", "task", "retries", "root_id", "parent_id", "group", "origin", "expires")
"""Others are left out; `argsrepr` and `kwargsrepr` say as plain text what is redacted in the arguments."""


def decoded(text: str | None) -> Any:
    """Show stored JSON as data; what is none, as text."""
    try:
        return None if text is None else _load(text)
    except _PROBLEMS:
        return text


def payload(runtime: Runtime, operation: str, message: bytes | None) -> dict[str, Any] | None:
    """Decode a kept message; None where there is none.

    Returns:
        Where it is JSON, its `arguments`: by their parameters' names where the task is known here, so that the names
        tell which of them are secret.
    """
    if not message:
        return None
    try:
        kept = unpack(message)
        body = base64.b64decode(kept["body"])
        shown = {
            "content_type": kept["content_type"],
            "bytes": len(body),
            "exchange": kept["exchange"],
            "routing_key": kept["routing_key"],
            "headers": {name: kept["headers"][name] for name in _HEADERS if kept["headers"].get(name) is not None},
        }
    except _PROBLEMS:
        return {"content_type": None, "bytes": len(message), "unreadable": "not a message of this version"}
    if shown["content_type"] != "application/json":
        return {**shown, "unreadable": "never decoded here: only JSON is"}
    try:
        args, kwargs, _ = _load(body)
        return {**shown, "arguments": _named(runtime, operation, args, kwargs)}
    except _PROBLEMS:
        return {**shown, "unreadable": "its body is no JSON that Celery wrote"}


def _named(runtime: Runtime, operation: str, args: Any, kwargs: Any) -> dict[str, Any]:
    task = runtime.app.tasks.get(operation)
    bound = runtime.policy(task).bind(args, kwargs) if task is not None else None
    return {"args": args, "kwargs": kwargs} if bound is None else dict(bound)


def _load(text: str | bytes) -> Any:
    data = json.loads(text)
    level = [data]
    for _ in range(DEEPEST):
        inside = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list))]
        level = [value for values in inside for value in values]
        if not level:
            return data
    raise ValueError("data that is nested so deeply can't be walked through")
