"""One result per item, printed as it comes, and the exit code that they make together."""

from __future__ import annotations

import click

from ..redaction import redact
from .output import SAID_LIMIT, Row, cell, cut, to_json

PARTLY = 4
"""The exit code where not everything was done that was asked for, or did not end well."""
_COLUMNS = ("verdict", "id", "task", "task_id", "said")


class Results:
    """Prints results."""

    def __init__(self, *, as_json: bool) -> None:
        self.count = 0
        self._well = True
        self._as_json = as_json

    def add(self, row: Row, *, well: bool, shown: bool = True) -> None:
        """Print a result.

        Args:
            row: with `verdict`, `id`, and more.
            well: it is what was asked for.
            shown: False where people have seen it already; then it only counts.
        """
        self.count += 1
        self._well = self._well and well
        if self._as_json:
            click.echo(to_json(row))
        elif shown:
            told = [cut(cell(value), SAID_LIMIT) for value in map(redact(row).get, _COLUMNS)]
            click.echo("  ".join([told[0].ljust(12), *filter(None, told[1:])]))

    @property
    def exit_code(self) -> int:
        """0 where all went well."""
        return 0 if self._well else PARTLY
