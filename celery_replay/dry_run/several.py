"""Several dry runs at a time, from one process without threads: a lock that another thread held would stay shut."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ..exceptions import ReplayError
from ..sandbox import child
from .engine import Begun, DryRun

T = TypeVar("T")
_NO_MORE = object()


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_several(
    wanted: Iterable[T], begin: Callable[[T], Begun], jobs: int
) -> Iterator[tuple[T, DryRun | ReplayError]]:
    """Run what is wanted, so many at a time; yield each as it comes to its end, or why it could not begin.

    Whoever takes no more of them ends those that are being done.
    """
    waiting = iter(wanted)
    running: list[tuple[T, Begun]] = []
    try:
        while True:
            while len(running) < jobs and (item := next(waiting, _NO_MORE)) is not _NO_MORE:
                try:
                    running.append((item, begin(item)))  # type: ignore[arg-type]
                except ReplayError as error:
                    yield item, error  # type: ignore[misc]
            if not running:
                return
            child.wait(begun.running for _, begun in running)
            for one in [one for one in running if one[1].look()]:
                running.remove(one)
                yield one[0], _finished(one[1])
    finally:
        for _, begun in running:
            begun.abandon()


def _finished(begun: Begun) -> DryRun | ReplayError:
    try:
        return begun.finish()
    except ReplayError as error:
        return error
