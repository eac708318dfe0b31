"""`replay snapshot`: what a job's declared state was, and what changed."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..records import Job
from ..snapshots.capture import AFTER, BEFORE
from ..snapshots.changes import ROW, as_rows
from ..snapshots.reading import Taken, numbered
from ..snapshots.tree import Tree
from ..snapshots.values import decoded, plain
from ..stores.base import Store
from ..trace import timeline
from . import fields, options
from .access import find_job, runtime
from .output import nothing_found, print_page, print_rows
from .reverting import revert

SNAPSHOTS = ("when", "at", "number", "attempt", "fence", "records", "snapshot")
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
    print_page([_shown(number, one) for number, one in found], SNAPSHOTS, len(found), as_json=as_json)


@snapshot.command(epilog=options.example("snapshot show 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11 --when before"))
@click.argument("job_id")
@click.option("--when", default=AFTER, show_default=True, help="before or after the body, or a name in between.")
@click.option("--attempt", default=0, metavar="N", help="Of this attempt, as `trace show` counts them.")
@options.as_json
@click.pass_context
def show(ctx: click.Context, job_id: str, when: str, attempt: int, as_json: bool) -> None:
    """Show the records of a snapshot, the last one that was taken then. Secret fields were never written down."""
    store = runtime(ctx).store
    tree = _tree(store, find_job(store, job_id), when, attempt)
    rows = [
        {"state": name, "record": record, "fields": plain(decoded(body))}
        for name in tree.names
        for record, body in sorted(tree.records(name).items())
    ]
    print_page(rows, RECORDS, len(rows), as_json=as_json)


@snapshot.command(epilog=options.example("snapshot diff 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11 --attempt 1 --with 2"))
@click.argument("job_id")
@click.argument("other", required=False, metavar="[JOB_ID]")
@click.option("--from", "begin", default=None, help="A moment; by default before the body, or after that of two.")
@click.option("--to", "end", default=AFTER, show_default=True, help="A later moment, or one of the other.")
@click.option("--attempt", default=0, metavar="N", help="Of this attempt, as `trace show` counts them.")
@click.option("--with", "against", default=0, metavar="N", help="Compared with this attempt, of the other job if any.")
@options.as_json
@click.pass_context
def diff(
    ctx: click.Context,
    /,
    job_id: str,
    other: str | None,
    begin: str | None,
    end: str,
    attempt: int,
    against: int,
    as_json: bool,
) -> None:
    """Show what changed from one snapshot to another, field by field: by default, what a job's last attempt did.

    With two attempts or two jobs, such as a job and its replay, how what the second one left differs from what the
    first one left. What a fork left is compared with its original where the fork runs: `run --mode fork`. The exit code
    is 0 where something differs, 1 where nothing does.
    """
    store = runtime(ctx).store
    job = find_job(store, job_id)
    two = bool(other or against)
    before = _tree(store, job, begin or (AFTER if two else BEFORE), attempt)
    after = _tree(store, find_job(store, other) if other else job, end, against if two else attempt)
    rows = list(as_rows(before, after))
    if not rows:
        nothing_found("nothing differs")
    print_rows(rows, ROW, as_json=as_json)


snapshot.add_command(revert)


def _taken(store: Store, job: Job) -> Sequence[tuple[int, Taken]]:
    return numbered(job, timeline(store, job.trace_id), store.attempts(job.submission))


def _tree(store: Store, job: Job, when: str, attempt: int = 0) -> Tree:
    found = [one for number, one in _taken(store, job) if one.when == when and attempt in (0, number)]
    if not found:
        if not job.attempts:
            nothing_found(
                "this job ran nothing, so nothing was captured: its key had been done before; see `trace show`"
            )
        which = f"attempt #{attempt} of this job" if attempt else "this job"
        nothing_found(f"no snapshot {when!r} of {which}; does its task declare state=, and what does its trace tell?")
    return Tree(found[-1].reference, store.blobs)


def _shown(number: int, one: Taken) -> fields.Fields:
    return {
        "when": one.when,
        "at": fields.moment(one.at),
        "number": number,
        "attempt": one.attempt,
        "fence": one.fence,
        "records": one.records,
        "snapshot": one.reference,
    }
