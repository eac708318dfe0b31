"""`replay dlq dry-run`: would today's code get these jobs done?"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from ..dry_run import letters as dry_runs
from ..dry_run.comparison import Ends
from ..dry_run.engine import DryRun, Engine
from ..dry_run.several import cores, run_several
from ..dry_run.verdicts import REFUSED, Verdicts
from ..exceptions import ReplayError
from . import options
from . import progress as bars
from .access import runtime
from .results import Results
from .runs import sandboxed
from .selection import Selection, selected
from .triage import named


@click.command("dry-run", epilog=options.example("dlq dry-run --group 1f2e3d4c --note"))
@selected
@sandboxed
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=cores, help="So many at a time; by default one for each core."
)
@click.option("--note", is_flag=True, help="Note what came out with each group.")
@options.actor
@options.as_json
def dry_run(
    ctx: click.Context,
    /,
    selection: Selection,
    timeout: float,
    require_kernel: bool,
    jobs: int,
    note: bool,
    actor: str,
    as_json: bool,
) -> None:
    """Run the jobs of dead letters by today's code, each in a sandbox of its own. Nothing real is changed.

    Each is run as `run --mode dry-run` does, which shows one of them in full; results come as the runs end. The exit
    code is 0 where all would succeed, 4 where some would not.
    """
    here, results, verdicts = runtime(ctx), Results(as_json=as_json), Verdicts()
    letters = selection.find(here.store, results)
    with (
        Engine(ctx.obj.app, timeout_s=timeout, require_kernel=require_kernel) as engine,
        bars.Counter("dry runs", len(letters)) as bar,
    ):
        for letter, ran in run_several(letters, partial(dry_runs.begin, engine, here.store), jobs):
            row = _row(ran)
            results.add({**named(letter), **row}, well=row["verdict"] == Ends.WELL)
            verdicts.add(letter.group_id, ran)
            bar.add()
    groups = dict(verdicts.groups())
    for group_id, sentence in groups.items():
        click.echo(f"group {group_id.partition(':')[2][:8]}: {sentence}", err=True)
    if len(groups) > 1:
        click.echo(f"all: {verdicts.whole()}", err=True)
    if note:
        verdicts.note(here.store, actor)
    ctx.exit(results.exit_code)


def _row(ran: DryRun | ReplayError) -> dict[str, Any]:
    if isinstance(ran, ReplayError):
        return {"verdict": REFUSED, "said": ran.message}
    comparison = ran.comparison
    told = {"parts_at": comparison.parts_at, "failure": comparison.failure}
    return {"verdict": str(comparison.ends), "said": comparison.said, **told}
