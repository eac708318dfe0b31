"""Canonical data, digests, and text that any database takes."""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from typing import Any

from kombu.utils import json as celery_json

from .exceptions import ResultUnavailable

FINGERPRINT_TAG = "b1"
"""Names how fingerprints are made. Those with different tags are never compared."""

JSON = "application/json"
"""The only content of messages that is ever decoded again."""
TEXT_LIMIT = 20_000
_ADDRESS = re.compile(r"(<[^<>]*) at 0x[0-9a-fA-F]+>")
_BYTES_ADDRESS = re.compile(_ADDRESS.pattern.encode())
_MARK = "…[cut]"
_ATOMS = frozenset({str, int, bool, type(None)})
_PLAIN = _ATOMS | {float, list, tuple}


def _found(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


_orjson = _found("orjson")
# Cheap to look for; where neither this nor 0.0000 is, `_FLOAT` finds nothing.
_PERHAPS_FLOAT = re.compile(rb"e[-1-9]")
_FLOAT = re.compile(rb"[:,\[]-?(?:0\.0000|\d(?:\.\d+)?e[-1-9])")
"""A number that orjson writes in its own way: Python has 1e-05 for 0.00001."""
_ORJSON_OPTIONS = (
    _orjson.OPT_SORT_KEYS | _orjson.OPT_PASSTHROUGH_DATETIME | _orjson.OPT_PASSTHROUGH_DATACLASS if _orjson else 0
)


def canonical(value: Any) -> Any:
    """Reduce a value to what is equal on both sides of a JSON round trip.

    Tuples become lists, keys become text; dates, UUIDs, decimals and the like become their text.
    """
    kind = type(value)
    # Abstract classes are slow to ask, and nearly all there is are plain dictionaries and lists.
    if kind is dict or (kind not in _PLAIN and isinstance(value, Mapping)):
        return {
            key if type(key) is str else _text_key(key): item if type(item) in _ATOMS else canonical(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [item if type(item) in _ATOMS else canonical(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((canonical(item) for item in value), key=repr)
    return _canonical_atom(value)


def _canonical_atom(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return canonical(value.value)
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
    """Dump canonical data: sorted keys, no spaces."""
    return _CANONICAL.encode(canonical(value))


def canonical_bytes(value: Any) -> bytes:
    """Dump canonical data as UTF-8, the same with orjson and without."""
    text = _fast_json(value)
    return canonical_json(value).encode("utf-8", "surrogatepass") if text is None else text


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint(value: Any) -> str:
    """Digest data so that equal payloads have equal fingerprints, tagged with how it was made."""
    text = canonical_bytes(value)
    if b"x" in text and b" at 0x" in text:  # one letter is found at once, a word takes its time
        # Of an object that has no text of its own, only its class is the same in another process.
        text = _BYTES_ADDRESS.sub(rb"\1>", text)
    return f"{FINGERPRINT_TAG}:{bytes_digest(text)}"


def bytes_digest(body: bytes) -> str:
    """Name bytes by what they say: 32 hexadecimal digits."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def _fast_json(value: Any) -> bytes | None:
    """Return `canonical_json` by orjson, which is ten times as fast; None where that would write something else."""
    if _orjson is None:
        return None
    try:
        encoded: bytes = _orjson.dumps(value, canonical, _ORJSON_OPTIONS)
    except TypeError:  # keys that are no text, large integers, lone surrogates
        return None
    if (b"0.0000" in encoded or _PERHAPS_FLOAT.search(encoded)) and _FLOAT.search(encoded):
        return None
    return encoded


def has_address(text: str) -> bool:
    """Does a text name an object by its address, as Python does by default? In another process it is another one."""
    return " at 0x" in text and _ADDRESS.search(text) is not None


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
        return _RESULT.encode(value)
    except Exception:  # whatever a user's object does when it is encoded
        return None


_RESULT = celery_json.JSONEncoder()
"""What `celery_json.dumps` makes for every call; types that are registered later are known to it, too."""


def result_value(text: str) -> Any:
    """Decode what `result_json` made.

    Raises:
        ResultUnavailable: it holds a type that is not registered here.
    """
    try:
        return celery_json.loads(text)
    except Exception as error:  # a decoder that somebody registered may raise anything
        raise ResultUnavailable(f"the recorded result can't be decoded: {error}") from error


def safe_text(value: object, limit: int = TEXT_LIMIT) -> str:
    """Return text that any database takes: NUL and lone surrogates escaped, too long ones cut and marked."""
    if type(value) is str and len(value) <= limit and value.isascii() and "\x00" not in value:
        return value
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


def plain_json(data: Any) -> bytes:
    """Write JSON data for ourselves, as quickly as it can be done here; what is no such data becomes text."""
    if _orjson is not None:
        try:
            text: bytes = _orjson.dumps(data, _shown, _PLAIN_OPTIONS)
        except TypeError:  # keys that are no text, large integers, lone surrogates
            text = b"null"
        # Perhaps a number that JSON does not have: Python reads the one that it writes itself.
        if b"null" not in text:
            return text
    return _PACKED.encode(data).encode()


def pack(data: Any) -> bytes:
    """Pack JSON data: a mark, then the text, compressed where that saves room."""
    return packed(plain_json(data))


def packed(text: bytes) -> bytes:
    """Pack JSON text."""
    if len(text) <= _NOT_WORTH_IT:
        return b"j" + text
    # zlib's usual window takes ten times as long to set up as a small text takes to compress.
    small = len(text) < _WINDOW * 4
    packer = zlib.compressobj(1, zlib.DEFLATED, _WINDOW_BITS, 5) if small else zlib.compressobj(1)
    return b"z" + packer.compress(text) + packer.flush()


_NOT_WORTH_IT = 640
"""Bytes: the trace of a job without events of its own is shorter, and half of it saved is not worth its compression."""
_WINDOW_BITS = 12
_WINDOW = 1 << _WINDOW_BITS
_PLAIN_OPTIONS = _orjson.OPT_PASSTHROUGH_DATETIME | _orjson.OPT_PASSTHROUGH_DATACLASS if _orjson else 0
_PACKED = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, default=_shown)


def unpack(body: bytes) -> Any:
    """Unpack what `pack` made. Only JSON: nothing in it can be executed."""
    return json.loads(unpacked(body))


def unpacked(body: bytes) -> bytes:
    """Return the text that was packed."""
    return zlib.decompress(body[1:]) if body[:1] == b"z" else body[1:]


def unzipped(body: bytes) -> bytes:
    """Return what `pack` made as if it had not been compressed, for whoever compresses it along with more."""
    return b"j" + zlib.decompress(body[1:]) if body[:1] == b"z" and len(body) < _WINDOW * 4 else body
