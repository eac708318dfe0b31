"""`replay prune`: what is past its retention goes."""

from __future__ import annotations

import click

from . import options
from .access import runtime
from .output import to_json
from .progress import Counter

_MOST = 100_000


@click.command(epilog=options.example("prune --dry-run"))
@click.option("--dry-run", is_flag=True, help="Count only.")
@options.as_json
@click.pass_context
def prune(ctx: click.Context, dry_run: bool, as_json: bool) -> None:
    """Delete jobs past their retention, and what hangs on them. A steward that leads does so every minute.

    Jobs whose letters wait for a decision stay.
    """
    store = runtime(ctx).store
    total = store.forgettable(_MOST)
    gone = 0
    if not dry_run:
        with Counter("pruned", total) as counter:
            while count := store.prune():
                counter.add(count)
            gone = counter.count
    if as_json:
        click.echo(to_json({"past_retention": total, "counted_up_to": _MOST, "pruned": gone}))
    elif dry_run:
        click.echo(f"{total}{'+' if total == _MOST else ''} jobs are past their retention")
    else:
        click.echo(f"{gone} jobs deleted")
