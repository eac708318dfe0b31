"""News from a worker's parent to its steward: a pipe, one JSON line each. Never blocks, never raises."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Iterator
from dataclasses import asdict

from .lifecycle import News
from .logs import logger_of
from .states import Reason

logger = logger_of(__name__)


class Pipe:
    """The parent's end. What does not fit is dropped: the reaper has the last word anyway."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.dropped = 0

    def tell(self, news: News) -> None:
        """Send one item, whole or not at all: a pipe takes lines up to a length atomically."""
        line = json.dumps(asdict(news), ensure_ascii=False).encode() + b"\n"
        try:
            if len(line) > select.PIPE_BUF:
                raise OSError(f"{len(line)} bytes are too long for a pipe")
            os.write(self.descriptor, line)
        except OSError:
            self.dropped += 1
            logger.warning("replay.news_dropped", exc_info=True, extra={"submission": news.submission})


def read(lines: bytes) -> Iterator[News]:
    """Parse complete lines; one that is no news is skipped."""
    for line in lines.splitlines():
        try:
            plain = json.loads(line)
            yield News(**{**plain, "reason": Reason(plain["reason"])})
        except (ValueError, TypeError, KeyError):
            logger.warning("replay.news_unreadable")
