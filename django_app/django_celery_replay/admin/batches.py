"""Work on many letters within one request, which a web server lets live for so long only."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TypeVar

from celery_replay.exceptions import StoreError

from .troubles import said

T = TypeVar("T")

PATIENCE_S = 15
"""How long one request works: web servers end those that take too long, commonly after 30 seconds."""


def in_time(work: Iterable[T]) -> tuple[list[T], str]:
    """Do as much as the time of a request allows; return the results, and what ended it early if something failed."""
    deadline = time.monotonic() + PATIENCE_S
    results: list[T] = []
    try:
        for result in work:
            results.append(result)
            if time.monotonic() > deadline:
                break
    except StoreError as error:
        return results, said(error)
    return results, ""


def early(done: int, of: int, trouble: str) -> str:
    """Say that a part is done, and how to go on."""
    because = f": {trouble}" if trouble else ""
    return f"{done:,} of {of:,} are done{because}. Press again to go on with the others."
