"""What a worker's parent tells its steward. No socket and no thread of ours: a pipe, and files for whole messages."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any, Protocol

from . import parking
from .losses import News
from .redaction import kept_text
from .runtime import plain_app, runtime_of
from .serialization import safe_text
from .tracebacks import name_of


class Listener(Protocol):
    """The steward, or the pipe to it."""

    def hear(self, item: News) -> None:
        """Act on news."""

    def fetch(self, path: Path) -> None:
        """Act on news that waits in the spool."""


listeners: weakref.WeakKeyDictionary[Any, Listener] = weakref.WeakKeyDictionary()
"""The steward of each app's worker in this process."""
forking: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
"""Does each app's worker run its tasks in processes of their own?"""


def described(error: BaseException | None, text: str = "", *, says: bool = True) -> dict[str, Any]:
    """Say in news what was raised.

    Args:
        text: what is to be said of it; else its own words, in which the payload may be.
        says: whether these are told.
    """
    if error is None:
        return {}
    words = text or (kept_text(error, 300) if says else "")
    return {"error_type": safe_text(name_of(error), 250), "error": words}


def announce(app: Any, item: News, message: Any = None) -> None:
    """Tell the steward; with a message, by way of the spool, where it waits until the store has it.

    Args:
        message: as it was received, where the store may not have it.
    """
    listener = listeners.get(plain_app(app))
    if message is None:
        if listener is not None:
            listener.hear(item)
        return
    path = runtime_of(app).spool.put_news(item, *parking.raw(message))
    if listener is not None:
        listener.fetch(path)
