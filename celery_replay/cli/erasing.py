"""`replay erase`: a person's data goes, the records of what was done stay."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..erasing import erase as erase_job
from ..erasing import family, jobs_of_key
from ..exceptions import TriageRefused
from ..records import Job
from ..states import Verb
from ..stores.base import Store
from . import options
from .access import find_job, runtime
from .output import nothing_found
from .results import Results


@click.command(epilog=options.example("erase --key 'ship:42' --task shop.tasks.ship_order --because 'request 7'"))
@click.option("--key", default="", help="All jobs with this idempotency key.")
@click.option("--task", default="", help="With --key: only those of this task.")
@click.option("--job", "names", multiple=True, metavar="ID", help="This job and its replays; may be given again.")
@options.because()
@options.actor
@options.yes
@options.as_json
@click.pass_context
def erase(
    ctx: click.Context,
    /,
    key: str,
    task: str,
    names: Sequence[str],
    because: str,
    actor: str,
    yes: bool,
    as_json: bool,
) -> None:
    """Erase payloads, results, errors, keys, notes and what events say; it can't be undone.

    Ids, outcomes, times and the key's digest stay, so that a duplicate still finds that the job was done. Jobs that
    run, wait or are being replayed are refused. Not reached are the broker, Celery's result backend, logs, and what is
    said in --because.

    The exit code is 0 where all are erased, 4 where some were refused.
    """
    known, results = runtime(ctx), Results(as_json=as_json)
    jobs = _meant(known.store, key, task, names)
    options.consent(f"Erase the data of {len(jobs)} jobs for good?", given=yes)
    for job in jobs:
        row = {"id": job.submission, "task": job.operation}
        try:
            left = erase_job(known, job, actor, because)
        except TriageRefused as refusal:
            results.add({**row, "verdict": "refused", "said": refusal.message}, well=False)
        else:
            results.add({**row, "verdict": Verb.ERASED, "said": left}, well=not left)
    ctx.exit(results.exit_code)


def _meant(store: Store, key: str, task: str, names: Sequence[str]) -> list[Job]:
    if bool(key) is bool(names) or (task and not key):
        raise click.UsageError("whose data? Give --key, perhaps with --task, or --job")
    if key:
        return list(jobs_of_key(store, key, task)) or nothing_found("nothing found")
    jobs = [job for name in names for job in family(store, find_job(store, name))]
    return list({job.submission: job for job in jobs}.values())
