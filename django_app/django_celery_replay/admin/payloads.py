"""Payloads for reading: JSON only, redacted. Nothing here decodes anything else, least of all a pickle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from celery_replay import payloads

from ..conf import runtime
from .display import shown, size

DECODED_LIMIT = 512 * 1024
"""Bytes of a body that are decoded for a page; of a larger one its size is told."""


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
        return Part(title=title, text=_pretty(payloads.value(text)))
    except (RecursionError, ValueError):
        return Part(title=title, note=f"{len(text):,} characters that are no JSON.")


def message(packed: bytes | None, operation: str) -> list[Part]:
    """Show a message that was kept for a task."""
    if not packed:
        return [Part(title="Message", note="None is kept.")]
    read = payloads.message(packed, operation, runtime(), most=DECODED_LIMIT)
    if read.content_type is None:
        return [Part(title="Message", note=f"{size(read.size)}. {read.unreadable}")]
    return list(_parts(read))


def _parts(read: payloads.Message) -> Iterator[Part]:
    note = f"{shown(read.content_type, 100)}, {size(read.size)}. {read.unreadable}".rstrip()
    yield Part(title="Arguments", note=note, text="" if read.unreadable else _pretty(read.arguments))
    if read.canvas:
        yield Part(title="Canvas", text=_pretty(read.canvas))
    yield Part(title="Headers", text=_pretty(read.headers))
    yield Part(title="Route", text=_pretty(read.route))


def _pretty(value: Any) -> str:
    return shown(json.dumps(value, indent=2, ensure_ascii=False, default=shown))
