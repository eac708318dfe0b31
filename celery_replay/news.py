"""News from a worker's parent to its steward: a pipe, one JSON line each. Never blocks, never raises."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .logs import logger_of
from .losses import News

logger = logger_of(__name__)


class Pipe:
    """The parent's end. What does not fit is dropped: the reaper has the last word anyway."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.dropped = 0

    def hear(self, item: News) -> None:
        """Send one item, whole or not at all: a pipe takes lines up to a length atomically."""
        self._send(item.plain(), item.submission)

    def fetch(self, path: Path) -> None:
        """Say that news waits in the spool."""
        self._send({"spooled": path.name}, path.name)

    def _send(self, plain: dict[str, Any], about: str) -> None:
        line = json.dumps(plain, ensure_ascii=False).encode() + b"\n"
        try:
            if len(line) > select.PIPE_BUF:
                raise OSError(f"{len(line)} bytes are too long for a pipe")
            os.write(self.descriptor, line)
        except OSError:
            self.dropped += 1
            logger.warning("replay.news_dropped", exc_info=True, extra={"submission": about})


def read(lines: bytes) -> Iterator[News | str]:
    """Parse complete lines: news, and names of files in the spool; a line that is neither is skipped."""
    for line in lines.splitlines():
        try:
            plain = json.loads(line)
            yield str(plain["spooled"]) if "spooled" in plain else News.of(plain)
        except (ValueError, TypeError, KeyError):
            logger.warning("replay.news_unreadable")
