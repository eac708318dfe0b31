"""`replay steward`: a steward outside of any worker."""

from __future__ import annotations

import signal

import click

from ..steward import Steward, see_that_it_works
from . import options
from .access import runtime


@click.command(epilog=options.example("steward"))
@click.pass_context
def steward(ctx: click.Context) -> None:
    r"""Run a steward on its own: it frees parked jobs, files lost ones, and prunes.

    Every worker spawns one already. Run this where workers come and go, with `replay_steward = "external"`.
    """
    found = runtime(ctx)
    see_that_it_works(found.store)
    keeper = Steward(found)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: keeper.stop())
    click.echo("steward: working; stop it with Ctrl-C", err=True)
    keeper.run()
