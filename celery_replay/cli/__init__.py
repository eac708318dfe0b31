"""`celery -A proj replay …`."""

from __future__ import annotations

import signal
import sys
from typing import Any

import click

from ..records import Job
from ..runtime import Runtime, runtime_of
from ..steward import Steward
from . import timeline as drawing


@click.group()
def replay() -> None:
    """Look at jobs, and keep them going: celery-replay's commands."""


@replay.command()
@click.pass_context
def steward(ctx: click.Context) -> None:
    """Run a steward on its own: it frees parked jobs, files lost ones, and prunes.

    Every worker spawns one already. Run this where workers come and go, with `replay_steward = "external"`.
    """
    keeper = Steward(_runtime(ctx))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: keeper.stop())
    click.echo("steward: working; stop it with Ctrl-C", err=True)
    keeper.run()


@replay.group()
def trace() -> None:
    """Read traces."""


@trace.command("show")
@click.argument("job_id")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event.")
@click.pass_context
def show(ctx: click.Context, job_id: str, as_json: bool) -> None:
    r"""Show a job's trace, by its Celery task id, submission id or trace id.

    \b
    celery -A shop replay trace show 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11
    """
    runtime = _runtime(ctx)
    job = find_job(runtime, job_id)
    if job is None:
        click.echo(
            f"no job {job_id} in the store; was it published with celery-replay, and is it not pruned?", err=True
        )
        sys.exit(1)
    drawing.show(runtime.store, job, as_json=as_json)


def find_job(runtime: Runtime, name: str) -> Job | None:
    """Find a job by task id, submission or trace."""
    store = runtime.store
    found = store.find_jobs(task_id=name, limit=1) or store.find_jobs(trace_id=name, limit=1)
    return found[0] if found else store.job(name)


def _runtime(ctx: click.Context) -> Runtime:
    app: Any = ctx.obj.app
    app.loader.import_default_modules()
    return runtime_of(app)
