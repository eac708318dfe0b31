"""Stored data and messages as commands show them."""

from __future__ import annotations

from typing import Any

from .. import payloads
from ..runtime import Runtime


def decoded(text: str | None) -> Any:
    """Show stored JSON as data; what is none, as text."""
    try:
        return None if text is None else payloads.value(text)
    except (RecursionError, ValueError):
        return text


def payload(runtime: Runtime, operation: str, message: bytes | None, *, mended: bool = False) -> dict[str, Any] | None:
    """Show a kept message; None where there is none."""
    if not message:
        return None
    read = payloads.message(message, operation, runtime, mended=mended)
    shown: dict[str, Any] = {"content_type": read.content_type, "bytes": read.size}
    if read.content_type is not None:
        route = {name: read.route[name] for name in ("exchange", "routing_key")}
        shown = {**shown, **route, "headers": read.headers}
    if read.unreadable:
        return {**shown, "unreadable": read.unreadable}
    return {**shown, "arguments": read.arguments, **({"canvas": read.canvas} if read.canvas else {})}
