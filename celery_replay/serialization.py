"""Canonical data, digests, and text that any database takes."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from kombu.utils import json as celery_json

from .exceptions import ResultUnavailable

FINGERPRINT_TAG = "b1"
"""Names how fingerprints are made. Those with different tags are never compared."""

TEXT_LIMIT = 20_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>")
_MARK = "…[cut]"


def canonical(value: Any) -> Any:
    """Reduce a value to what is equal on both sides of a JSON round trip.

    Tuples become lists, keys become text; dates, UUIDs, decimals and the like become their text.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {_text_key(key): canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((canonical(item) for item in value), key=repr)
    if isinstance(value, bytes):
        return value.hex()
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if callable(isoformat) else str(value)


def _text_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    plain = canonical(key)
    return plain if isinstance(plain, str) else canonical_json(plain)


def canonical_json(value: Any) -> str:
    """Dump canonical data: sorted keys, no spaces, ASCII."""
    return json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def fingerprint(value: Any) -> str:
    """Digest data so that equal payloads have equal fingerprints, tagged with how it was made."""
    text = canonical_json(value)
    if " at 0x" in text:
        # Of an object that has no text of its own, only its class is the same in another process.
        text = _ADDRESS.sub(">", text)
    return f"{FINGERPRINT_TAG}:{digest(text)}"


def digest(*parts: str) -> str:
    """Digest texts, each kept apart from the next: 32 hexadecimal digits."""
    hasher = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        hasher.update(len(encoded).to_bytes(8, "big"))
        hasher.update(encoded)
    return hasher.hexdigest()


def result_json(value: Any) -> str | None:
    """Encode a return value as Celery's JSON, which keeps dates, UUIDs and decimals; None where it can't."""
    try:
        return str(celery_json.dumps(value))  # type: ignore[no-untyped-call]
    except Exception:  # whatever a user's object does when it is encoded
        return None


def result_value(text: str) -> Any:
    """Decode what `result_json` made.

    Raises:
        ResultUnavailable: it holds a type that is not registered here.
    """
    try:
        return celery_json.loads(text)  # type: ignore[no-untyped-call]
    except Exception as error:  # a decoder that somebody registered may raise anything
        raise ResultUnavailable(f"the recorded result can't be decoded: {error}") from error


def safe_text(value: object, limit: int = TEXT_LIMIT) -> str:
    """Return text that any database takes: NUL and lone surrogates escaped, too long ones cut and marked."""
    text = value if isinstance(value, str) else _shown(value)
    if len(text) > limit:
        text = text[: limit - len(_MARK)] + _MARK
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # a user's __str__ may do anything
        return f"<{type(value).__name__} that can't be shown: {type(error).__name__}>"


def pack(data: Any) -> bytes:
    """Pack JSON data: a mark, then the text, compressed where that saves room."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, default=_shown).encode()
    if len(text) <= 256:
        return b"j" + text
    return b"z" + zlib.compress(text, 1)


def unpack(body: bytes) -> Any:
    """Unpack what `pack` made. Only JSON: nothing in it can be executed."""
    mark, rest = body[:1], body[1:]
    if mark == b"z":
        rest = zlib.decompress(rest)
    return json.loads(rest)
