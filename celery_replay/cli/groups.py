"""`replay dlq groups`, `group`: dead letters by their cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..clock import Micros
from ..records import Group
from ..states import Reason
from ..stores.base import Store
from ..stores.units import HOUR
from . import fields, options
from .access import find_group, runtime
from .output import print_page, print_record, print_section, to_json

HOURS = 24
_STEPS = "▁▂▃▄▅▆▇█"


@click.command(epilog=options.example("dlq groups --task shop.tasks.ship_order --since 7d"))
@click.option("--task", default="", help="Of this task.")
@click.option("--reason", type=options.word(Reason), help="For this reason, such as exception or worker_lost.")
@click.option("--all", "with_resolved", is_flag=True, help="Also those of which no letter waits for a decision.")
@options.paged
@options.as_json
@click.pass_context
def groups(ctx: click.Context, /, task: str, with_resolved: bool, limit: int, as_json: bool, **filters: Any) -> None:
    """List groups of dead letters with one cause, those that failed last first.

    A group is a task, a reason, an error's type, and the functions that it came through.
    """
    store = runtime(ctx).store
    found = store.groups(limit + 1, operation=task, unresolved=not with_resolved, **filters)
    rows = _rows(store, found)
    if not as_json:
        rows = [{**row, "last_24_hours": bar(row["last_24_hours"])} for row in rows]
    print_page(rows, fields.GROUPS, limit, as_json=as_json, time="last_seen", key="group_id")


@click.command(epilog=options.example("dlq group 1f2e3d4c"))
@click.argument("group_id")
@options.as_json
@click.pass_context
def group(ctx: click.Context, group_id: str, as_json: bool) -> None:
    """Show a group: where its letters come from, and what was noted about it."""
    store = runtime(ctx).store
    found = find_group(store, group_id)
    (row,) = _rows(store, [found])
    notes = [fields.entry(entry) for entry in store.notes(found.group_id)]
    if as_json:
        click.echo(to_json({**row, "notes": notes}))
        return
    print_record({**row, "frames": found.frames, "last_24_hours": bar(row["last_24_hours"])})
    print_section("notes", notes, fields.NOTES)
    click.echo(f"\nits letters: replay dlq list --group {row['group']}")


def _rows(store: Store, found: Sequence[Group]) -> list[fields.Fields]:
    now = store.now()
    trends = store.trend([group.group_id for group in found], now - HOURS * HOUR)
    return [fields.group(group, hourly(trends[group.group_id], now)) for group in found]


def hourly(trend: Mapping[Micros, int], now: Micros) -> list[int]:
    """Return the counts of the last hours, this one last."""
    latest = now - now % HOUR
    return [trend.get(latest - ago * HOUR, 0) for ago in reversed(range(HOURS))]


def bar(counts: Sequence[int]) -> str:
    """Draw counts, the highest as a full block."""
    top = max(counts, default=0)
    return "".join(_STEPS[(count * len(_STEPS) - 1) // top] if count else "·" for count in counts)
