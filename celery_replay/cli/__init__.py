"""`celery -A proj replay …`."""

from __future__ import annotations

import signal

import click

from ..steward import Steward, see_that_it_works
from . import editing, erasing, groups, jobs, leases, letters, parked, pruning, replays, status, traces, triage
from .access import Commands, runtime
from .options import example


@click.group(cls=Commands, epilog=example("status"))
def replay() -> None:
    """Look at jobs, and keep them going: celery-replay's commands."""


@replay.command(epilog=example("steward"))
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


for _command in (
    letters.list_,
    letters.show,
    groups.groups,
    groups.group,
    replays.replay,
    replays.follow_,
    replays.stop_,
    editing.edit,
    *triage.COMMANDS,
):
    letters.dlq.add_command(_command)
for _command in (
    status.status,
    traces.trace,
    jobs.jobs,
    letters.dlq,
    parked.parked,
    leases.leases,
    erasing.erase,
    pruning.prune,
):
    replay.add_command(_command)
