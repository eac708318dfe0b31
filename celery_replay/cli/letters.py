"""`replay dlq`: jobs that need a human decision."""

from __future__ import annotations

from typing import Any

import click

from ..records import Letter
from ..states import LetterState, Reason
from ..stores.base import Store
from . import fields, options
from .access import find_job, runtime
from .output import nothing_found, print_page, print_record, print_section, printable, to_json
from .payload import payload


@click.group(epilog=options.example("dlq list --task shop.tasks.ship_order"))
def dlq() -> None:
    """Read dead letters."""


@dlq.command("list", epilog=options.example("dlq list --state open --error Timeout --since 7d"))
@click.option("--task", default="", help="Of this task.")
@click.option("--reason", type=options.word(Reason), help="For this reason, such as exception or worker_lost.")
@click.option("--state", type=options.word(LetterState), help="In this state, such as open or resolved.")
@click.option("--error", default="", help="With this in the error's type or message.")
@options.paged
@options.as_json
@click.pass_context
def list_(ctx: click.Context, /, task: str, limit: int, as_json: bool, **filters: Any) -> None:
    """List dead letters, newest first."""
    letters = runtime(ctx).store.letters(limit + 1, operation=task, **filters)
    print_page(
        [fields.letter(letter) for letter in letters], fields.LETTERS, limit, as_json=as_json, time="last_failed"
    )


@dlq.command(epilog=options.example("dlq show 0198f3a1c2d57e3f8a4b5c6d7e8f9012"))
@click.argument("job_id")
@options.as_json
@click.pass_context
def show(ctx: click.Context, job_id: str, as_json: bool) -> None:
    """Show a dead letter's evidence, by its id, the Celery task id or the trace id.

    The original message is shown with secrets redacted; only JSON is decoded.
    """
    known = runtime(ctx)
    letter = _find(known.store, job_id)
    message = payload(known, letter.operation, letter.message)
    attempts = [fields.attempt(attempt) for attempt in known.store.attempts(letter.submission)]
    evidence = {**fields.letter(letter), "traceback": letter.traceback}
    if as_json:
        click.echo(to_json({**evidence, "attempts_ended": attempts, "payload": message}))
        return
    print_record(evidence)
    print_section("attempts that ended", attempts, fields.ATTEMPTS)
    if message:
        click.echo("\nmessage")
        print_record(message)
    click.echo(f"\nits trace: replay trace show {printable(letter.submission)}")


def _find(store: Store, name: str) -> Letter:
    letter = store.letter(name) or store.letter(find_job(store, name).submission)
    if letter is None:
        nothing_found(f"job {name} has no dead letter")
    return letter
