"""How commands come to the store, and what they say when they can't."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ..exceptions import ReplayError
from ..records import Group, Job, Letter
from ..redaction import redact_text
from ..runtime import Runtime, runtime_of
from ..stores.base import Store
from .output import nothing_found, printable

UNREADABLE = 3
"""The exit code of a command that could not read the store."""
_PAGE = 500


class Unreadable(click.ClickException):
    """The store can't be read; the message says why."""

    exit_code = UNREADABLE

    def __init__(self, error: ReplayError) -> None:
        super().__init__(printable(redact_text(str(error))))


def runtime(ctx: click.Context) -> Runtime:
    """Return the runtime of the app that was named, with its tasks imported."""
    app: Any = ctx.obj.app
    app.loader.import_default_modules()
    return runtime_of(app)


def find_job(store: Store, name: str) -> Job:
    """Find a job by task id, submission or trace; end the command where there is none."""
    job = look_for_job(store, name)
    if job is None:
        nothing_found(
            f"no job {name} in the store; is it a whole id (a key is looked for by `trace list --key`), was it "
            "published with celery-replay, and is it not pruned?"
        )
    return job


def look_for_job(store: Store, name: str) -> Job | None:
    """Find a job by task id, submission or trace."""
    named = store.find_jobs(task_id=name, limit=1) or store.find_jobs(trace_id=name, limit=1)
    return named[0] if named else store.job(name)


def find_letter(store: Store, name: str) -> Letter | None:
    """Find the dead letter of a job, by any of its names; a replay's is that of the job that it is about."""
    letter = store.letter(name)
    job = look_for_job(store, name) if letter is None else None
    return store.letter(job.original or job.submission) if job is not None else letter


def find_group(store: Store, name: str) -> Group:
    """Find a group by its id, or by the beginning of it as tables show it; end the command where that names none."""
    found = store.group(name)
    if found is not None:
        return found
    named = [group for group in _groups(store) if name and group.group_id.partition(":")[2].startswith(name)]
    if not named:
        nothing_found(f"no group {name}")
    if len(named) > 1:
        which = ", ".join(group.group_id for group in named)
        raise click.UsageError(f"{printable(name)} begins several groups: {which}")
    return named[0]


def _groups(store: Store) -> Iterator[Group]:
    before = None
    while page := store.groups(_PAGE, unresolved=False, before=before):
        yield from page
        before = page[-1].last_seen, page[-1].group_id
