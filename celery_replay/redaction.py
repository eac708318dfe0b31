"""What is never written down: values whose name says that they are secret."""

from __future__ import annotations

import re
from typing import Any

REDACTED = "[redacted]"

_WORDS = (
    r"pass(?:word|wd|phrase)|secret|token|authori[sz]ation|cookie|credential"
    r"|api[_-]?key|access[_-]?key|private[_-]?key|session[_-]?id"
)
_SECRET = re.compile(_WORDS, re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):([^/\s]+)(?=@)")
# Bounded, as the time for text such as "tokentokentoken…" would grow with its square.
_ASSIGNED = re.compile(rf"((?:{_WORDS})[\w-]{{0,40}}=[\"']?)[^\s&;,\"')]+", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Does a field's name say that its value is secret?"""
    return bool(_SECRET.search(name))


def redact(value: Any, name: str = "") -> Any:
    """Replace secret values in data, by the names of their fields; the shape stays."""
    if name and is_secret(name):
        return REDACTED
    if isinstance(value, dict):
        return {key: redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and isinstance(value[0], str):
            # Headers and form fields come as pairs, too.
            return [value[0] if is_secret(value[0]) else redact_text(value[0]), redact(value[1], value[0])]
        # With both arguments: Python 3.13.0 does not count calls that leave one out, and a loop would never end.
        return [redact(item, "") for item in value]
    return redact_text(value) if isinstance(value, str) else value


def redact_text(text: str) -> str:
    """Replace bearer credentials, `password=…` and passwords in URLs, in free text such as an error message."""
    # The look before each is a hundred times as fast as its pattern.
    if " " in text:
        text = _BEARER.sub(rf"\1 {REDACTED}", text)
    if "://" in text:
        text = _URL_PASSWORD.sub(rf"\1:{REDACTED}", text)
    return _ASSIGNED.sub(rf"\1{REDACTED}", text) if "=" in text else text
