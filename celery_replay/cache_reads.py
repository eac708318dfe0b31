"""What an attempt read from caches, as its trace tells: a decision may rest on something that was no longer so."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded

from .logs import logger_of
from .records import Event
from .redaction import REDACTED, is_secret, redact, redact_text
from .serialization import bytes_digest, canonical_bytes, digest, pack, safe_text, unpack
from .snapshots.values import decoded, encoded, plain
from .states import Capture
from .trace import Recorder

logger = logger_of(__name__)

CACHE_READ = "cache_read"
MOST = 1_000
"""Reads that an attempt tells of; a body that reads more is not slowed by it."""
VALUE_LIMIT = 10_000
"""Bytes of JSON of a value that is kept."""
_WALKED = 1_000
"""Items and characters by the hundred that are looked at; a value with more is large without having been written."""
_PARTS = re.compile(r"[^A-Za-z0-9_-]+")
_OPAQUE = (b'"$":"opaque"', b'"$":"redacted"')
_CONTAINERS = (Mapping, list, tuple, set, frozenset)


class CacheReads:
    """Notes one attempt's reads. What was found before in the same place is not told again."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._found: dict[str, str] = {}
        self._told = 0

    def note(self, cache: str, key: str, version: Any, value: Any, *, hit: bool) -> None:
        """Note a read; never raises for what it is given."""
        if self._recorder.capture is Capture.NONE or self._told >= MOST:
            return
        try:
            self._note(cache, key, version, value, hit)
        except SoftTimeLimitExceeded:
            raise  # it is meant for the body
        except Exception:  # whatever a user's object does
            logger.warning("replay.cache_read_not_noted", exc_info=True)

    def _note(self, cache: str, key: str, version: Any, value: Any, hit: bool) -> None:
        call = call_of(cache, key, version)
        text = canonical_bytes(value) if hit and not _is_large(value) else None
        found = f"{hit} {'' if text is None else bytes_digest(text)}"
        if self._found.get(call) == found:
            return
        self._found[call] = found
        self._told += 1
        known = self._recorder.secrets()
        shown = shown_key(key, known)
        told, body = _described(value, text, secret=shown == REDACTED, known=known) if hit else ({}, None)
        about = {
            "cache": safe_text(cache, 100),
            "key": shown,
            "version": _plain_version(version),
        }
        more: dict[str, Any] = {}
        if body is not None:
            kept = pack({"call": call, "value": body.decode("utf-8", "surrogatepass")})
            reference = bytes_digest(kept)
            more = {"output_ref": reference, "blobs": {reference: kept}}
        self._recorder.record("cache_read", plain={**about, "hit": hit, **told, "call_digest": call}, **more)


def call_of(cache: str, key: str, version: Any) -> str:
    """Name a place in a cache; its key may be secret."""
    return digest("cache", cache, key, str(version))


def shown_key(key: str, known: Collection[str] = ()) -> str:
    """Return a key as it may be shown; one with a secret name in it is not shown at all."""
    if any(map(is_secret, (key, *_PARTS.split(key)))):
        return REDACTED
    return redact_text(safe_text(key, 250), known)


def _plain_version(version: Any) -> Any:
    return version if version is None or type(version) is int else safe_text(version, 100)


def _described(
    value: Any, text: bytes | None, *, secret: bool, known: Collection[str]
) -> tuple[dict[str, Any], bytes | None]:
    """Return the digest of a value, or why there is none; and the value, where it can be kept.

    Args:
        text: the value as JSON; None where it is large.
    """
    if text is None:
        return {"value": "large"}, None
    if secret or canonical_bytes(redact(value, known=known)) != text:
        return {"value": "secret"}, None
    told = {"value_digest": bytes_digest(text)}
    body = encoded(value)
    if any(mark in body for mark in _OPAQUE):
        return {"value": "no data"}, None
    return (told, body) if len(body) <= VALUE_LIMIT else ({**told, "value": "large"}, None)


def _is_large(value: Any) -> bool:
    """Look only as far as needed: a value of any size must not cost more than that."""
    left, waiting = _WALKED, [value]
    while waiting:
        item = waiting.pop()
        left -= 1
        if isinstance(item, (str, bytes)):
            left -= len(item) // 100
        elif isinstance(item, _CONTAINERS):
            left -= len(item)
            if left > 0:
                waiting += [*item.keys(), *item.values()] if isinstance(item, Mapping) else item
        if left <= 0:
            return True
    return False


@dataclass(frozen=True, kw_only=True)
class CacheRead:
    """One read, as it is recorded."""

    call: str
    """Names the place."""
    cache: str = "default"
    key: str = ""
    """Redacted."""
    version: Any = None
    hit: bool
    body: bytes | None = None
    """The value, encoded; None where there was none, or it was not kept."""

    @property
    def value(self) -> Any:
        """Decode the value; nothing in it can be executed.

        Raises:
            SnapshotUnreadable: it is damaged, or of a newer version.
        """
        assert self.body is not None
        return decoded(self.body)

    @property
    def shown(self) -> Any:
        """Return the value as JSON data."""
        return None if self.body is None else plain(self.value)


def reads_in(events: Iterable[Event], blobs: Mapping[str, bytes]) -> list[CacheRead]:
    """Return the reads that events tell of, in their order.

    Args:
        blobs: by the events' references; what is gone or damaged is a value that was not kept.
    """
    return [_read(event, blobs.get(event.output_ref or "")) for event in events if event.name == CACHE_READ]


def _read(event: Event, kept: bytes | None) -> CacheRead:
    said = event.attributes
    call = str(said.get("call_digest"))
    body = None
    if kept is not None:
        try:
            found = unpack(kept)
            body = str(found["value"]).encode("utf-8", "surrogatepass") if found["call"] == call else None
        except Exception:  # a stored value may be of any version
            logger.warning("replay.cache_read_unreadable", exc_info=True)
    return CacheRead(
        call=call,
        cache=str(said.get("cache")),
        key=str(said.get("key")),
        version=said.get("version"),
        hit=bool(said.get("hit")),
        body=body,
    )
