"""`replay parked`: deliveries that wait for something."""

from __future__ import annotations

import click

from . import fields, options
from .access import runtime
from .output import print_page


@click.group(epilog=options.example("parked list"))
def parked() -> None:
    """Look into the parking lot."""


@parked.command("list", epilog=options.example("parked list --limit 20"))
@options.limited
@options.as_json
@click.pass_context
def list_(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List who waits for whom, why, how long, and when the steward looks again; the oldest first."""
    store = runtime(ctx).store
    rows = store.rows(limit + 1)
    owners, now = store.owners(row.subject for row in rows), store.now()
    shown = [fields.parked(row, owners.get(row.subject), now) for row in rows]
    print_page(shown, fields.PARKED, limit, as_json=as_json)
