"""What the demo shows: with rich on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import Any

from .witness import Sighting

try:
    from rich.console import Console
    from rich.status import Status
    from rich.table import Table
except ImportError:
    Console = None  # type: ignore[assignment, misc]

Row = tuple[str, list[str]]


class Screen:
    """Plain lines, for pipes and logs."""

    def __init__(self) -> None:
        self._shown = ""

    def say(self, text: str) -> None:
        print(text, flush=True)

    def progress(self, name: str, seen: Sighting, kills: int) -> None:
        """Show how far a round is."""
        if f"{name} {kills}" != self._shown:
            self._shown = f"{name} {kills}"
            self.say(describe(name, seen, kills))

    def table(self, head: list[str], rows: list[Row]) -> None:
        """Print the columns side by side."""
        width = max(len(label) for label, _ in rows)
        for label, cells in [("", head), *rows]:
            print(label.ljust(width), *(cell.rjust(14) for cell in cells))

    def close(self) -> None:
        """Leave the terminal as it was."""


class RichScreen(Screen):
    """A live line and a coloured table."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console()
        self._status: Status | None = None

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def progress(self, name: str, seen: Sighting, kills: int) -> None:
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(describe(name, seen, kills))

    def table(self, head: list[str], rows: list[Row]) -> None:
        self.close()
        table = Table("", *head)
        for column in table.columns[1:]:
            column.justify = "right"
        for label, cells in rows:
            table.add_row(label, *(paint(cell) for cell in cells))
        self._console.print(table)

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def paint(cell: str) -> Any:
    return f"[bold red]{cell}[/]" if cell.endswith("!") else cell


def describe(name: str, seen: Sighting, kills: int) -> str:
    """Put a sighting into one line."""
    return (
        f"{name}: charged {len(seen.charges)}/{seen.orders}, shipped {seen.shipped}/{seen.orders}, "
        f"points for {seen.awarded}/{len(seen.accounts)} customers, workers killed: {kills}"
    )


def make_screen() -> Screen:
    """Return the best screen for where we print."""
    return RichScreen() if Console is not None and sys.stdout.isatty() else Screen()
