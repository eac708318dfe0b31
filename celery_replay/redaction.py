"""What is never written down: values whose name says that they are secret."""

from __future__ import annotations

import re
from typing import Any

REDACTED = "[redacted]"

_SECRET = re.compile(
    r"pass(word|wd|phrase)|secret|token|authori[sz]ation|api_?key|access_?key|private_?key|cookie|credential|session_?id",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)(?=@)")


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
        return [redact(item) for item in value]
    return redact_text(value) if isinstance(value, str) else value


def redact_text(text: str) -> str:
    """Replace bearer credentials, and passwords in URLs, in free text such as an error message."""
    text = _BEARER.sub(rf"\1 {REDACTED}", text)
    return _URL_PASSWORD.sub(rf"\1:{REDACTED}", text)
