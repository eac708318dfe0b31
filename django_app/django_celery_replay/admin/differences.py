"""A mended payload beside the original, line by line, with secrets redacted in both."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass

from celery_replay.replay import mending
from celery_replay.replay.message import PayloadUnreadable

from .display import shown

_KINDS = {"+": "added", "-": "removed"}
_LONGEST = 400
MOST = 2_000
"""Lines that are compared."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How two payloads differ."""

    lines: list[tuple[str, str, str]]
    """Kind, sign and text of each line."""
    unseen: bool
    """Do they differ in what is not shown: in a secret, or beyond the lines that are compared?"""


def difference(original: bytes, mended: bytes) -> Difference | None:
    """Compare the payloads of two kept messages; None where one of them can't be read."""
    try:
        before, after = mending.plain(original), mending.plain(mended)
        shown_before, shown_after = _written(mending.readable(original)), _written(mending.readable(mended))
    except PayloadUnreadable:
        return None
    compared = difflib.unified_diff(shown_before[:MOST], shown_after[:MOST], lineterm="", n=3)
    lines = [_line(line) for line in compared if not line.startswith(("---", "+++"))]
    return Difference(lines=lines, unseen=_written(before) != _written(after) and not lines)


def _written(form: mending.Form) -> list[str]:
    """Write a payload with a line for each value."""
    return json.dumps({"args": form.args, "kwargs": form.kwargs}, indent=2, ensure_ascii=False).split("\n")


def _line(text: str) -> tuple[str, str, str]:
    sign, rest = text[:1], text[1:]
    if sign == "@":
        return "gap", "…", ""
    return _KINDS.get(sign, "same"), sign, shown(rest, _LONGEST)
