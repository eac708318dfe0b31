"""`replay prune`: what is past its retention goes."""

from __future__ import annotations

import click

from ..clock import micros
from ..stores.base import Store
from ..stores.placing import AGAIN_US
from ..trace import summarised
from . import options
from .access import runtime
from .output import to_json
from .progress import Counter

_MOST = 100_000


@click.command(epilog=options.example("prune --dry-run"))
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@options.as_json
@click.pass_context
def prune(ctx: click.Context, dry_run: bool, as_json: bool) -> None:
    """Delete jobs past their retention, and what hangs on them. A steward that leads does so every minute.

    With `replay_detail_retention` the details of jobs that succeeded go before. Jobs whose letters wait for a decision
    stay, and so do those whose traces are kept, with all that they have.
    """
    known = runtime(ctx)
    store, detail_us = known.store, micros(known.settings.detail_retention)
    if dry_run:
        found = store.going(detail_us, summarised, _MOST)
        objects = len(store.unreferred_blobs())
        if as_json:
            told = {"past_retention": found.jobs, "traces": found.traces, "thinned": found.thinned}
            click.echo(to_json({**told, "bytes": found.bytes, "objects": objects, "counted_up_to": _MOST, "pruned": 0}))
            return
        click.echo(f"{found.jobs} jobs are past their retention, with {found.traces} traces")
        if detail_us:
            click.echo(f"{found.thinned} traces have details that are not kept longer")
        click.echo(f"{found.bytes:,} bytes of events and large values")
        if store.elsewhere is not None:
            click.echo(f"{objects} objects in {store.elsewhere.place} are referred to by nothing")
        return
    total = store.forgettable(_MOST)
    with Counter("pruned", total) as counter:
        while count := store.prune():
            counter.add(count)
        gone = counter.count
    thinned, swept = _thin(store, detail_us), _sweep(store)
    if as_json:
        told = {"past_retention": total, "counted_up_to": _MOST, "pruned": gone}
        click.echo(to_json({**told, "thinned": thinned, "objects_looked_at": swept}))
        return
    click.echo(f"{gone} jobs deleted")
    if detail_us:
        click.echo(f"{thinned} traces reduced to counts")


def _thin(store: Store, detail_us: int) -> int:
    total, after = 0, ""
    while detail_us:
        count, after = store.thin(detail_us, summarised, after)
        total += count
        if not after:
            break
    return total


def _sweep(store: Store) -> int:
    at, total = store.now() + AGAIN_US - 1, 0
    while count := store.sweep_blobs(at=at):
        total += count
    return total
