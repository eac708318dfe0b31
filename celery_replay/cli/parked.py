"""`replay parked`: deliveries that wait for something."""

from __future__ import annotations

from collections.abc import Sequence

import click

from .. import parking
from ..exceptions import TriageRefused
from ..states import Verb
from . import fields, options
from .access import look_for_job, runtime
from .output import print_page
from .results import Results


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


@parked.command(epilog=options.example("parked free 0198f3a1c2d57e3f8a4b5c6d7e8f9012 --because 'the bank is back'"))
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@options.because()
@options.actor
@options.as_json
@click.pass_context
def free(ctx: click.Context, ids: Sequence[str], because: str, actor: str, as_json: bool) -> None:
    """Send parked jobs before their time. Whether they may run is still decided when they arrive.

    The exit code is 0 where all are on their way, 4 where some were not parked.
    """
    known, results = runtime(ctx), Results(as_json=as_json)
    for name in ids:
        job = None if known.store.row(name) else look_for_job(known.store, name)
        submission = job.submission if job else name
        row = {"id": submission, "task": job.operation if job else None}
        try:
            freed = known.store.free(submission, actor, because)
        except TriageRefused as refusal:
            results.add({**row, "verdict": "refused", "said": refusal.message}, well=False)
            continue
        sent = parking.dispatch(known.app, known.store, [freed], known.resend_us)
        said = "" if sent else "the broker can't be reached; a steward sends it"
        results.add({**row, "task": freed.operation, "verdict": Verb.FREED, "said": said}, well=True)
    ctx.exit(results.exit_code)
