"""`replay leases`: who has which resource, who waits for it, who had it before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import click

from .. import parking
from ..clock import Micros
from ..exceptions import TriageRefused
from ..records import Lease
from ..states import Verb
from ..stores.base import Store
from ..templates import resource_name
from . import fields, options
from .access import runtime
from .output import nothing_found, print_page, print_record, print_section, to_json
from .results import Results

_LINE = 100
"""How many who wait are counted, or shown."""


@click.group(epilog=options.example("leases list"))
def leases() -> None:
    """Look at leases on resources."""


@leases.command("list", epilog=options.example("leases list --limit 20"))
@options.limited
@options.as_json
@click.pass_context
def list_(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List who has which resource, since when, and whether that is unusual; those first who have it longest.

    A holder is alive until its lease lapses, which its heartbeat prevents. What its task usually takes is the time
    within which 95 in 100 of its last 1,000 leases were given back.
    """
    store = runtime(ctx).store
    found = store.leases(limit + 1)
    usual, now = cache(store.usual_hold), store.now()
    shown = [_shown(store, lease, usual(lease.operation), now) for lease in found]
    print_page(shown, fields.LEASES, limit, as_json=as_json)


def _shown(store: Store, lease: Lease, usual: Micros | None, now: Micros) -> fields.Fields:
    waiting = len(store.line(lease.resource, _LINE)) if lease.waiters else 0
    return fields.lease(lease, usual, waiting, now)


@leases.command(epilog=options.example("leases show order:7"))
@click.argument("resource")
@options.as_json
@click.pass_context
def show(ctx: click.Context, resource: str, as_json: bool) -> None:
    """Show a resource: who has it, who waits in which order, and its last holders with their fences.

    An overlap is one who went on after another one had the resource: it names the fences of those whom it met. What a
    holder does that was never heard of again nobody knows.
    """
    store, name = runtime(ctx).store, resource_name(resource)
    found = store.lease(name)
    if found is None:
        nothing_found(f"nobody has {resource}, and nobody had it within the retention")
    now = store.now()
    head = _shown(store, found, store.usual_hold(found.operation), now)
    line = [fields.parked(row, None, now) for row in store.line(name, _LINE)]
    holders = [fields.holder(holder) for holder in store.holders(name)]
    if as_json:
        click.echo(to_json({**head, "line": line, "holders": holders}))
        return
    print_record(head)
    print_section("waiting, in their order", line, fields.LINE)
    print_section("last holders", holders, fields.HOLDERS)


@leases.command(epilog=options.example("leases release order:7 --because 'its node is gone'"))
@click.argument("resources", nargs=-1, required=True, metavar="RESOURCE...")
@click.option("--force", is_flag=True, help="Also from a holder that may be alive.")
@options.because()
@options.actor
@options.as_json
@click.pass_context
def release(ctx: click.Context, resources: Sequence[str], force: bool, because: str, actor: str, as_json: bool) -> None:
    """Take resources from holders that are dead, that is, whose leases have lapsed by the store's clock.

    Who waits is called at once. A holder that lives all the same has lost its job: it is told at its next step, and
    its writes are refused where they are fenced. The history of its job keeps who did this, and why.

    The exit code is 0 where all were free afterwards, 4 where some were refused.
    """
    known, results = runtime(ctx), Results(as_json=as_json)
    for resource in resources:
        row: fields.Fields = {"resource": resource, "id": None, "task": None}
        try:
            lease, called = known.store.free_lease(resource_name(resource), actor, because, force=force)
        except TriageRefused as refusal:
            said = f"{resource}: {refusal.message}"
            results.add({**row, "verdict": "refused", "said": said}, well=False)
            continue
        parking.dispatch(known.app, known.store, called, known.resend_us)
        row |= {"id": lease.submission, "task": lease.operation, "verdict": Verb.LEASE_FREED, "said": resource}
        results.add({**row, "fence": lease.fence}, well=True)
    ctx.exit(results.exit_code)
