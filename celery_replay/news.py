"""News from a worker's parent to its steward: a pipe, one JSON line each. Never blocks, never raises."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict

from .lifecycle import News
from .states import Reason

logger = logging.getLogger(__name__)


class Pipe:
    """The parent's end. What does not fit is dropped: the reaper has the last word anyway."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.dropped = 0

    def tell(self, news: News) -> None:
        """Send one item, whole or not at all: lines are shorter than what a pipe takes atomically."""
        line = json.dumps(asdict(news)).encode() + b"\n"
        try:
            if os.write(self.descriptor, line) != len(line):
                self.dropped += 1
        except OSError:
            self.dropped += 1
            logger.warning("replay.news_dropped", extra={"submission": news.submission})


def read(lines: bytes) -> Iterator[News]:
    """Parse complete lines; one that is no news is skipped."""
    for line in lines.splitlines():
        try:
            plain = json.loads(line)
            yield News(**{**plain, "reason": Reason(plain["reason"])})
        except (ValueError, TypeError, KeyError):
            logger.warning("replay.news_unreadable")
