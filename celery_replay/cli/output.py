"""The one way in which commands print: tables for people, aligned text where it is piped, JSON for machines.

What is printed came from outside. Secrets are redacted here, and text reaches a terminal only as what it is: escape
codes, line breaks and marks that turn the direction of writing are spelled out, and nothing is taken for markup.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn

import click

from ..redaction import redact

try:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
except ImportError:
    Console = None  # type: ignore[assignment, misc]

Row = Mapping[str, Any]

NOTHING_FOUND = 1
"""The exit code of a command that found nothing."""
CELL_LIMIT = 80
SAID_LIMIT = 400
DATA_LIMIT = 2_000
"""Characters of a table's cell, of what is said of a result, and of data on a line; JSON has them all."""


def print_rows(rows: Sequence[Row], columns: Sequence[str], *, as_json: bool) -> None:
    """Print rows: as JSON with all their fields, as a table with these columns."""
    if as_json:
        for row in rows:
            click.echo(to_json(row))
        return
    cells = [[cut(cell(row[name]), CELL_LIMIT) for name in columns] for row in map(redact, rows)]
    _print_table([name.replace("_", " ") for name in columns], cells)


def print_page(
    rows: Sequence[Row], columns: Sequence[str], limit: int, *, as_json: bool, time: str = "", key: str = "id"
) -> None:
    """Print a page of rows, and how to go on where more than the limit were found.

    Args:
        time: the field by which older ones can be asked for.
        key: the field that tells those of one time apart.
    """
    if not rows:
        nothing_found("nothing found")
    print_rows(rows[:limit], columns, as_json=as_json)
    if len(rows) > limit and not as_json:
        last = rows[limit - 1]
        end = printable(f"{iso(last[time])}/{last[key]}") if time else ""
        click.echo(f"more: add --before {shlex.quote(end)}" if end else "more: raise --limit", err=True)


def nothing_found(sentence: str) -> NoReturn:
    """End a command that found nothing."""
    click.echo(printable(sentence), err=True)
    raise click.exceptions.Exit(NOTHING_FOUND)


def print_record(record: Row, *, clear: bool = False) -> None:
    """Print one record for people: a line per field that has a value, texts of several lines below.

    Args:
        clear: nothing is redacted; somebody asked for that, and the history tells of it.
    """
    fields = record if clear else redact(record)
    shown = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        lines = value.rstrip("\n").split("\n") if isinstance(value, str) else [cell(value)]
        title = f"{name.replace('_', ' '):{width}}  "
        indent = " " * len(title)
        click.echo("\n".join((indent if number else title) + printable(line) for number, line in enumerate(lines)))


def print_section(title: str, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print a titled table, where there is something in it."""
    if rows:
        click.echo(f"\n{title}")
        print_rows(rows, columns, as_json=False)


def to_json(record: Row, clear: Row | None = None) -> str:
    """Return a record as one line of JSON, which is plain ASCII.

    Args:
        clear: further fields, which are not redacted.
    """
    return json.dumps({**redact(record), **(clear or {})}, default=_plain)


def iso(moment: datetime) -> str:
    """Return a time as ISO text in UTC."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def printable(text: str) -> str:
    """Spell out what a terminal would act upon, or what nobody would see."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def cell(value: Any) -> str:
    """Return a value as one line of text."""
    match value:
        case None | "":
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}Z"
        case timedelta():
            return _duration(value)
        case dict() | list():
            return cut(printable(json.dumps(value, default=_plain, ensure_ascii=False)), DATA_LIMIT)
        case _:
            return printable(str(value))


def cut(text: str, limit: int) -> str:
    """Shorten a text for people, and show that it was."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


def _duration(value: timedelta) -> str:
    seconds = int(value.total_seconds())
    for size, unit, smaller, part in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if abs(seconds) >= size:
            return f"{seconds // size}{unit} {seconds % size // smaller}{part}"
    return f"{seconds}s"


def _print_table(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    if Console is not None and sys.stdout.isatty():
        table = Table(box=None, pad_edge=False, header_style="bold")
        for number, title in enumerate(titles):
            # The first column is the id, to be copied.
            table.add_column(title, no_wrap=number == 0, overflow="fold")
        for row in cells:
            table.add_row(*map(Text, row))
        Console(highlight=False, markup=False, emoji=False).print(table)
        return
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    for row in (titles, *cells):
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
