"""How commands come to the store, and what they say when they can't."""

from __future__ import annotations

from typing import Any

import click

from ..exceptions import ReplayError
from ..records import Job
from ..redaction import redact_text
from ..runtime import Runtime, runtime_of
from ..stores.base import Store
from .output import nothing_found, printable

UNREADABLE = 3
"""The exit code of a command that could not read the store."""


class Unreadable(click.ClickException):
    """The store can't be read; the message says why."""

    exit_code = UNREADABLE


class Commands(click.Group):
    """A group whose commands end with a sentence, not a traceback, where the store can't be read."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except ReplayError as error:
            raise Unreadable(printable(redact_text(str(error)))) from error


def runtime(ctx: click.Context) -> Runtime:
    """Return the runtime of the app that was named, with its tasks imported."""
    app: Any = ctx.obj.app
    app.loader.import_default_modules()
    return runtime_of(app)


def find_job(store: Store, name: str) -> Job:
    """Find a job by task id, submission or trace; end the command where there is none."""
    named = store.find_jobs(task_id=name, limit=1) or store.find_jobs(trace_id=name, limit=1)
    job = named[0] if named else store.job(name)
    if job is None:
        nothing_found(f"no job {name} in the store; was it published with celery-replay, and is it not pruned?")
    return job
