"""Which large values are to go elsewhere: noted as they are written, from the first time on that somebody asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .links import Link

_KEPT_S = 86_400
"""For how long values are noted after somebody has asked last: where `replay_blobs` was taken off, nobody asks."""


def begin(run: Callable[[Callable[[Link], Any]], Any]) -> None:
    """Let values be noted, and note those that are there already; where that was done before, let it go on."""
    if run(lambda link: link.do("SET", "elsewhere", "looking", "EX", _KEPT_S, "NX")) is None:
        state = run(lambda link: link.do("GETEX", "elsewhere", "EX", _KEPT_S))
        if state == b"noted":
            return
    cursor = b"0"
    while True:
        cursor = run(lambda link, at=cursor: _note(link, at))  # type: ignore[misc]
        if cursor == b"0":
            break
    run(lambda link: link.do("SET", "elsewhere", "noted", "EX", _KEPT_S))


def _note(link: Link, cursor: bytes) -> bytes:
    pattern = b"".join(b"[" + bytes([c]) + b"]" if c in b"*?[" else bytes([c]) for c in link.prefix) + b"x:*"
    last, keys = link.ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1_000)
    if keys:
        link.do("SADD", "unplaced", *(key[len(link.prefix) + 2 :] for key in keys))
    return bytes(last)
