"""How far a long command has come: a bar on a terminal, a line now and then elsewhere; always on standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType

import click

try:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
except ImportError:
    Progress = None  # type: ignore[assignment, misc]

_EVERY_S = 5.0
"""Seconds between two lines."""


class Counter:
    """Counts what was done, and shows it.

    Args:
        title: what is being done.
        total: how many there are, if that is known.
    """

    def __init__(self, title: str, total: int | None = None) -> None:
        self.title = title
        self.total = total
        self.count = 0
        self._note = ""
        self._said = time.monotonic()
        self._bar = _bar() if Progress is not None and sys.stderr.isatty() else None

    def __enter__(self) -> Counter:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, count: int = 1, note: str = "") -> None:
        """Count, and say a word about it."""
        self.count += count
        self._note = note or self._note
        if self._bar is not None:
            self._bar.update(self._task, completed=self.count, note=self._note)
        elif time.monotonic() - self._said >= _EVERY_S:
            self._said = time.monotonic()
            of = "" if self.total is None else f" of {self.total}"
            click.echo(" ".join(filter(None, (f"{self.title}: {self.count}{of}", self._note))), err=True)


def _bar() -> Progress:
    # Results go to standard output, also while the bar is drawn; through the bar only where both are one terminal.
    shared = sys.stdout.isatty()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    note = TextColumn("{task.fields[note]}", markup=False)
    return Progress(*columns, note, console=Console(stderr=True), transient=True, redirect_stdout=shared)
