"""`replay jobs`: the records of jobs."""

from __future__ import annotations

from typing import Any

import click

from ..records import Job
from ..runtime import Runtime
from . import fields, options
from .access import find_job, runtime
from .output import print_page, print_record, print_section, to_json
from .payload import payload

Fields = fields.Fields


@click.group(epilog=options.example("jobs find --key ship:42"))
def jobs() -> None:
    """Look jobs up."""


@jobs.command(epilog=options.example("jobs find --key ship:42"))
@click.option("--key", default="", help="By idempotency key: all of its duplicates.")
@click.option("--task-id", default="", help="By Celery's task id.")
@click.option("--trace", "trace_id", default="", help="By trace.")
@options.paged
@options.as_json
@click.pass_context
def find(ctx: click.Context, /, limit: int, as_json: bool, **filters: Any) -> None:
    """Find jobs, newest first; by key it shows which of them ran, and which got whose result."""
    if not any(filters[name] for name in ("key", "task_id", "trace_id")):
        raise click.UsageError("say what to find: --key, --task-id or --trace")
    found = runtime(ctx).store.find_jobs(limit=limit + 1, **filters)
    print_page([fields.job(job) for job in found], fields.DUPLICATES, limit, as_json=as_json, time="started_at")


@jobs.command(epilog=options.example("jobs show 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11"))
@click.argument("job_id")
@options.as_json
@click.pass_context
def show(ctx: click.Context, job_id: str, as_json: bool) -> None:
    """Show all that is known of a job, by its Celery task id, submission id or trace id.

    Its arguments are shown with secrets redacted, where its message is kept.
    """
    known = runtime(ctx)
    whole = _whole(known, find_job(known.store, job_id))
    if as_json:
        click.echo(to_json(whole))
        return
    parts = {name: whole.pop(name) for name in ("attempts_ended", "steps", "dead_letter", "parked", "payload")}
    print_record(whole)
    print_section("attempts that ended", parts["attempts_ended"], fields.ATTEMPTS)
    print_section("side-effect steps", parts["steps"], fields.STEPS)
    for name in ("dead_letter", "parked", "payload"):
        if parts[name]:
            click.echo(f"\n{name.replace('_', ' ')}")
            print_record(parts[name])


def _whole(known: Runtime, job: Job) -> Fields:
    """Collect what hangs on a job."""
    store = known.store
    letter, row = store.letter(job.submission), store.row(job.submission)
    message = (letter and letter.message) or (row and row.message) or job.message
    owner = store.owners([row.subject]).get(row.subject) if row else None
    return {
        **fields.job(job),
        "attempts_ended": [fields.attempt(attempt) for attempt in store.attempts(job.submission)],
        "steps": [fields.step(step) for step in store.steps(job.identity)],
        "dead_letter": fields.letter(letter) if letter else None,
        "parked": fields.parked(row, owner, store.now()) if row else None,
        "payload": payload(known, job.operation, message),
    }
