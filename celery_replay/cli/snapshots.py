"""`replay snapshot`: what a job's declared state was, and what changed."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..records import Job
from ..snapshots.capture import AFTER, BEFORE
from ..snapshots.changes import ROW, as_rows
from ..snapshots.reading import Taken, taken
from ..snapshots.tree import Tree
from ..snapshots.values import decoded, plain
from ..stores.base import Store
from ..trace import timeline
from . import fields, options
from .access import find_job, runtime
from .output import nothing_found, print_page, print_rows

SNAPSHOTS = ("when", "at", "attempt", "records", "snapshot")
RECORDS = ("state", "record", "fields")


@click.group(epilog=options.example("snapshot diff 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11"))
def snapshot() -> None:
    """Look at the state that tasks declare with `state=`, as it was."""


@snapshot.command("list", epilog=options.example("snapshot list 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11"))
@click.argument("job_id")
@options.as_json
@click.pass_context
def list_(ctx: click.Context, job_id: str, as_json: bool) -> None:
    """List the snapshots of a job, all of its attempts, in their order. Equal states have equal names."""
    store = runtime(ctx).store
    found = _taken(store, find_job(store, job_id))
    print_page([_shown(one) for one in found], SNAPSHOTS, len(found), as_json=as_json)


@snapshot.command(epilog=options.example("snapshot show 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11 --when before"))
@click.argument("job_id")
@click.option("--when", default=AFTER, show_default=True, help="before or after the body, or a name in between.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, job_id: str, when: str, as_json: bool) -> None:
    """Show the records of a snapshot, the last one that was taken then. Secret fields were never written down."""
    store = runtime(ctx).store
    tree = _tree(store, find_job(store, job_id), when)
    rows = [
        {"state": name, "record": record, "fields": plain(decoded(body))}
        for name in tree.names
        for record, body in sorted(tree.records(name).items())
    ]
    print_page(rows, RECORDS, len(rows), as_json=as_json)


@snapshot.command(epilog=options.example("snapshot diff 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11"))
@click.argument("job_id")
@click.argument("other", required=False, metavar="[JOB_ID]")
@click.option("--from", "begin", default=None, help="A moment; by default before the body, or after that of two jobs.")
@click.option("--to", "end", default=AFTER, show_default=True, help="A later moment, or one of the other job.")
@options.as_json
@click.pass_context
def diff(ctx: click.Context, job_id: str, other: str | None, begin: str | None, end: str, as_json: bool) -> None:
    """Show what changed from one snapshot to another, field by field: by default, what a job's last attempt did.

    With two jobs, how the second one's state differs from the first one's. The exit code is 0 where something
    differs, 1 where nothing does.
    """
    store = runtime(ctx).store
    job = find_job(store, job_id)
    before = _tree(store, job, begin or (AFTER if other else BEFORE))
    after = _tree(store, find_job(store, other) if other else job, end)
    rows = list(as_rows(before, after))
    if not rows:
        nothing_found("nothing differs")
    print_rows(rows, ROW, as_json=as_json)


def _taken(store: Store, job: Job) -> Sequence[Taken]:
    return taken(event for event in timeline(store, job.trace_id) if event.job_id in ("", job.task_id))


def _tree(store: Store, job: Job, when: str) -> Tree:
    found = [one for one in _taken(store, job) if one.when == when]
    if not found:
        if not job.attempts:
            nothing_found(
                "this job ran nothing, so nothing was captured: its key had been done before; see `trace show`"
            )
        nothing_found(f"no snapshot {when!r} of this job; does its task declare state=, and what does its trace tell?")
    return Tree(found[-1].reference, store.blobs)


def _shown(one: Taken) -> fields.Fields:
    return {
        "when": one.when,
        "at": fields.moment(one.at),
        "attempt": one.attempt,
        "records": one.records,
        "snapshot": one.reference,
    }
