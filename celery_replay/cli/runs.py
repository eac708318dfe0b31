"""`replay run`: a recorded job once more, without doing anything."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from ..dry_run.comparison import Ends
from ..dry_run.engine import Engine
from ..dry_run.recording import Recording, recording_of
from ..dry_run.retelling import without_letter
from ..dry_run.telling import told_of
from ..dry_run.variation import AS_RECORDED, Variation
from ..records import evolve
from ..runtime import Runtime
from ..stores.base import Store
from . import options, real, reports
from . import timeline as drawing
from .access import find_job, find_letter, runtime
from .output import to_json
from .results import PARTLY
from .variations import varied


def sandboxed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what is said of a sandbox; a command that is asked to end cleans up."""

    @wraps(command)
    def ends_well(*args: Any, **kwargs: Any) -> Any:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        return command(*args, **kwargs)

    timeout = click.FloatRange(0.1)
    limited = click.option("--timeout", type=timeout, default=60.0, show_default=True, help="Seconds a job may take.")
    required = click.option("--require-kernel", is_flag=True, help="Refuse where the kernel can't enforce the sandbox.")
    return limited(required(ends_well))


@click.command(epilog=options.example("run 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11 --mode dry-run"))
@click.argument("job_id")
@click.option(
    "--mode",
    type=click.Choice(["trace", "dry-run", "fork", real.MODE]),
    default="trace",
    show_default=True,
    help="trace runs nothing; dry-run runs today's code in a sandbox as recorded, fork with changes; real does it all.",
)
@varied
@sandboxed
@real.described
@options.as_json
@click.pass_context
def run(
    ctx: click.Context,
    job_id: str,
    mode: str,
    variation: Variation,
    timeout: float,
    require_kernel: bool,
    wanted: real.Wanted,
    as_json: bool,
) -> None:
    """Run a recorded job again, by its task id, submission or trace, or its dead letter's. Nothing real is changed.

    A dry run goes by the payload, the state and the outputs that are recorded. `--mode real` replays the dead letter
    with all its effects, once somebody has said why; for many at once, see `dlq replay`.
    The exit code is 0 where it would succeed, or has; 4 where it would not, or has not.
    """
    here = runtime(ctx)
    if evolve(variation, ignore=()) != AS_RECORDED and mode != "fork":
        raise click.UsageError("this changes what is run: give --mode fork")
    if wanted.given and mode != real.MODE:
        raise click.UsageError("this is about a real replay: give --mode real, or leave its options out")
    if mode == real.MODE:
        real.run(ctx, here, job_id, wanted, as_json=as_json)
        return
    if mode == "trace":
        drawing.show(here.store, find_job(here.store, job_id), as_json=as_json)
        return
    recording = recorded(here, job_id, depth=variation.follow)
    with Engine(ctx.obj.app, timeout_s=timeout, require_kernel=require_kernel) as engine:
        ran = engine.run(recording, variation)
    if as_json:
        click.echo(to_json(told_of(ran, mode)))
    else:
        reports.show(ran, mode)
    ctx.exit(0 if ran.comparison.ends is Ends.WELL and reports.all_well(ran) else PARTLY)


def recorded(here: Runtime, name: str, *, depth: int = 0) -> Recording:
    """Read what is recorded of a job, or of the one that it is a replay of.

    Args:
        depth: how deep what it had published is read, too.
    """
    store: Store = here.store
    job = find_job(store, name)
    letter = find_letter(store, job.submission)
    if letter is None:
        task = here.app.tasks.get(job.operation)
        return without_letter(store, job, here.policy(task) if task is not None else None, depth=depth)
    original = store.job(letter.submission) or job
    return recording_of(store, original, letter.to_send, mended=letter.edited is not None, depth=depth)
