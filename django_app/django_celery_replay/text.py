"""Text that every database takes, and that comes back as it was."""

from __future__ import annotations

import hashlib

MARK = "\u2400:"
"""Stands before text that had to be escaped."""


def stored(text: str) -> str:
    """Escape NUL and lone surrogates, which databases refuse; `restored` undoes it."""
    if text.isascii():
        return text if "\x00" not in text else _escaped(text)
    if "\x00" in text or text.startswith(MARK):
        return _escaped(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _escaped(text)
    return text


def _escaped(text: str) -> str:
    return MARK + text.encode("unicode_escape").decode("ascii")


def restored(text: str) -> str:
    """Return what `stored` was given."""
    if not text.startswith(MARK):
        return text
    return text[len(MARK) :].encode("ascii").decode("unicode_escape")


def token(text: str, limit: int = 255) -> str:
    """Return `stored` text for an indexed column: too long a one is cut, and told from others by its digest."""
    kept = stored(text)
    if len(kept) <= limit:
        return kept
    digest = hashlib.blake2b(kept.encode(), digest_size=16).hexdigest()
    # What was escaped can't be cut anywhere and still be read back.
    start = kept[: limit - 33] if kept is text else ""
    return f"{start}~{digest}"
