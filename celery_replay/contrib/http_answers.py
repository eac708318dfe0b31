"""Answers over HTTP as data: what a recorded step keeps of one, and how it is called. Adapters make them of answers."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from ..steps import step

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing. Others are effects: put them into steps of your own, with keys."""
BODY_LIMIT = 1_000_000
"""Bytes; a longer body is not kept, and the dry run says that it is missing."""
_ENCODED = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers about the way in which a body came; it is kept as it was read."""

Data = dict[str, Any]
Ask = Callable[[], Data]
AskLater = Callable[[], Awaitable[Data]]


def answered(method: str, url: str, ask: Ask) -> Data:
    """Ask, in a recorded step that is named after the method and the host; in a dry run, give what was recorded."""
    answer: Data = _step(method, urlsplit(url).hostname or "")(url, ask)
    return answer


async def answered_later(method: str, url: str, ask: AskLater) -> Data:
    """Do the same in a coroutine."""
    answer: Data = await _step_later(method, urlsplit(url).hostname or "")(url, ask)
    return answer


@lru_cache(maxsize=1_000)
def _step(method: str, host: str) -> Callable[[str, Ask], Data]:
    @step(recorded=True, name=f"{method} {host}", key="{url}", encode=_kept, decode=_as_it_is)
    def exchange(url: str, ask: Ask) -> Data:
        return ask()

    return exchange


@lru_cache(maxsize=1_000)
def _step_later(method: str, host: str) -> Callable[[str, AskLater], Awaitable[Data]]:
    @step(recorded=True, name=f"{method} {host}", key="{url}", encode=_kept, decode=_as_it_is)
    async def exchange(url: str, ask: AskLater) -> Data:
        return await ask()

    return exchange


def _as_it_is(data: Data) -> Data:
    return data


def data_of(status: int, headers: Iterable[tuple[str, str]], body: bytes, **more: Any) -> Data:
    """Describe an answer."""
    named = [[name, value] for name, value in headers if name.lower() not in _ENCODED]
    return {"status": status, "headers": named, "body": base64.b64encode(body).decode(), **more}


def body_of(data: Data) -> bytes:
    """Return an answer's body."""
    return base64.b64decode(data["body"])


def _kept(data: Data) -> Data:
    if len(data["body"]) * 3 // 4 > BODY_LIMIT:
        raise ValueError(f"an answer of more than {BODY_LIMIT:,} bytes is not kept")
    return data
