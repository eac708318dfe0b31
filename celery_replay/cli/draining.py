"""`replay drain`: until nothing is left that nobody but celery-replay would send on."""

from __future__ import annotations

import time

import click

from .. import parking
from ..exceptions import TriageRefused
from ..records import Row
from ..runtime import Runtime
from ..states import RowStatus
from . import options
from .access import runtime
from .output import print_record, to_json
from .progress import Counter
from .status import NO_LEADER, NOT_SHARED

LEFT = 1
"""The exit code where something is left."""
_PERIOD_S = 1.0
_BOUND = 100_000


@click.command(epilog=options.example("drain --timeout 600"))
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait for so long; by default, until it is done."
)
@click.option("--send", is_flag=True, help="Put what is parked on its queues now, whatever it waits for.")
@options.because(needed=False)
@options.actor
@options.as_json
@click.pass_context
def drain(
    ctx: click.Context, timeout: float | None, send: bool, because: str | None, actor: str, as_json: bool
) -> None:
    """Wait until nothing is left that only celery-replay sends on: before it is taken out, or gets another store.

    That is what is parked, what was freed and has not ended, and what waits in this machine's spool for the store. A
    worker and a steward have to run meanwhile. Where jobs are published all the time, some may be parked all the time.

    With --send nothing is waited for. That is for when no worker has the base class any more: nobody looks then
    whether another job of the same key runs.

    The exit code is 0 where nothing is left, 1 where something is.
    """
    known = runtime(ctx)
    if not known.store.shared:
        click.echo(f"! {NOT_SHARED}", err=True)
    if not send:
        left = _wait(known, timeout)
    elif because is None:
        raise click.UsageError("--send needs --because: the history keeps it")
    else:
        left = _send(known, actor, because) + known.spool.size()
    letters = known.store.overview().open_letters
    if as_json:
        click.echo(to_json({"left": left, "counted_up_to": _BOUND, "letters_wait": letters > 0}))
    else:
        print_record({"left": left or "nothing"})
        if letters:
            click.echo("! dead letters wait for a decision, and only the store has their messages")
    ctx.exit(LEFT if left else 0)


def _wait(known: Runtime, timeout: float | None) -> int:
    until = None if timeout is None else time.monotonic() + timeout
    before = 0
    warned = False
    with Counter("gone") as counter:
        while True:
            overview = known.store.overview(_BOUND)
            left = overview.parked + known.spool.size()
            counter.add(max(0, before - left), f"{left} left")
            before = left
            if left and overview.leader is None and not warned:
                click.echo(f"! {NO_LEADER}", err=True)
                warned = True
            if not left or (until is not None and time.monotonic() >= until):
                return left
            time.sleep(_PERIOD_S)


def _send(known: Runtime, actor: str, because: str) -> int:
    """Publish what nobody has published so far; return how much that could not be done with."""
    left = 0
    with Counter("sent", known.store.overview(_BOUND).parked) as counter:
        for row in known.store.every_row():
            sent = row.status not in (RowStatus.PARKED, RowStatus.RELEASED) or _sent(known, row, actor, because)
            left += not sent
            counter.add(sent)
    return left


def _sent(known: Runtime, row: Row, actor: str, because: str) -> bool:
    try:
        freed = known.store.free(row.submission, actor, because)
    except TriageRefused:  # it went on meanwhile
        return True
    return parking.dispatch(known.app, known.store, [freed], known.resend_us) == 1
