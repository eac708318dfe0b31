"""`replay trace`: what jobs did."""

from __future__ import annotations

from typing import Any

import click

from ..clock import as_datetime
from ..dead_letters import Decision
from ..exceptions import TriageRefused
from ..states import Outcome, Verb
from . import fields, options
from . import timeline as drawing
from .access import find_job, runtime
from .output import print_page


@click.group(epilog=options.example("trace list --status failed --since 2h"))
def trace() -> None:
    """Read traces, and keep them."""


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
@click.option("--values", is_flag=True, help="With what steps returned and what was too large for an event, redacted.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, job_id: str, values: bool, as_json: bool) -> None:
    """Show a job's trace, by its Celery task id, submission id or trace id.

    It walks through what was recorded and runs nothing. Where the job failed is marked, and the last line says why.
    """
    store = runtime(ctx).store
    drawing.show(store, find_job(store, job_id), as_json=as_json, with_values=values)


@trace.command(epilog=options.example("trace keep 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11 --because 'evidence'"))
@click.argument("job_id")
@options.because()
@options.actor
@click.pass_context
def keep(ctx: click.Context, job_id: str, because: str, actor: str) -> None:
    """Keep a job that ended, with all of its trace, until somebody says otherwise. Its key stays done as long."""
    _keep(ctx, job_id, Decision(verb=Verb.KEPT, actor=actor, text=because))


@trace.command(epilog=options.example("trace unkeep 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11 --because 'case closed'"))
@click.argument("job_id")
@options.because()
@options.actor
@click.pass_context
def unkeep(ctx: click.Context, job_id: str, because: str, actor: str) -> None:
    """Let a kept job go: its retention begins now."""
    _keep(ctx, job_id, Decision(verb=Verb.UNKEPT, actor=actor, text=because))


def _keep(ctx: click.Context, job_id: str, decision: Decision) -> None:
    known = runtime(ctx)
    job = find_job(known.store, job_id)
    until = None if decision.verb is Verb.KEPT else known.store.now() + known.keep_us
    try:
        known.store.keep(job.submission, decision, until)
    except TriageRefused as refusal:
        raise click.ClickException(refusal.message) from refusal
    click.echo("kept until somebody says otherwise" if until is None else f"kept until {as_datetime(until):%Y-%m-%d}")
