"""`replay trace`: what jobs did."""

from __future__ import annotations

from typing import Any

import click

from ..states import Outcome
from . import fields, options
from . import timeline as drawing
from .access import find_job, runtime
from .output import print_page


@click.group(epilog=options.example("trace list --status failed --since 2h"))
def trace() -> None:
    """Read traces."""


@trace.command("list", epilog=options.example("trace list --task shop.tasks.ship_order --since 2h"))
@click.option("--task", default="", help="Of this task.")
@click.option("--status", type=options.word(Outcome), help="That stand here, such as failed, open, succeeded.")
@click.option("--key", default="", help="With this idempotency key.")
@options.paged
@options.as_json
@click.pass_context
def list_(ctx: click.Context, /, task: str, limit: int, as_json: bool, **filters: Any) -> None:
    """List jobs, newest first."""
    jobs = runtime(ctx).store.find_jobs(operation=task, limit=limit + 1, **filters)
    print_page([fields.job(job) for job in jobs], fields.JOBS, limit, as_json=as_json, time="started_at")


@trace.command("show", epilog=options.example("trace show 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11"))
@click.argument("job_id")
@options.as_json
@click.pass_context
def show(ctx: click.Context, job_id: str, as_json: bool) -> None:
    """Show a job's trace, by its Celery task id, submission id or trace id.

    It walks through what was recorded and runs nothing. Where the job failed is marked, and the last line says why.
    """
    store = runtime(ctx).store
    drawing.show(store, find_job(store, job_id), as_json=as_json)
