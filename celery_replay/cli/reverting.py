"""`replay snapshot revert`: what an attempt changed is put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..exceptions import TriageRefused
from ..reverting import apply, look, snapshots_of
from ..snapshots.reversal import COLUMNS, Reversal
from . import options
from .access import find_job, runtime
from .output import nothing_found, print_rows
from .results import PARTLY


@click.command(epilog=options.example("snapshot revert 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11"))
@click.argument("job_id")
@click.option("--attempt", default=0, metavar="N", help="As `trace show` counts them; by default the last one.")
@click.option("--database", "using", default="", help="Where the rows are; by default where the routers write them.")
@click.option("--version-field", default="", metavar="NAME", help="Compare this field alone where a row has it.")
@click.option("--apply", "writes", is_flag=True, help="Write. Without it nothing is changed.")
@click.option("--partly", is_flag=True, help="With --apply: write what can be, though something can't.")
@options.because(needed=False)
@options.actor
@options.yes
@options.as_json
@click.pass_context
def revert(
    ctx: click.Context,
    /,
    job_id: str,
    attempt: int,
    writes: bool,
    partly: bool,
    yes: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Show what would undo a job's last attempt, row by row; with --apply, do it.

    What it changed of the state that its task declares is put back: fields get their former values, rows that it added
    are removed, rows that it removed are added. Each only where all recorded fields still are what the attempt left;
    the database compares as it writes. Where one row can't be put back none is, unless --partly. No signals are sent,
    and nothing outside of these rows is undone: no mail, no payment, no callback.

    The exit code is 0 where all can be put back, or was; 4 where something can't.
    """
    because, actor = given.pop("because"), given.pop("actor")
    if writes and not because:
        raise click.UsageError("--apply needs --because: say it for those who read the history")
    known = runtime(ctx)
    job = find_job(known.store, job_id)
    try:
        pair = snapshots_of(known, job, attempt)
        found = look(known, job, pair, **given)
        if not found:
            nothing_found("this attempt changed nothing of its declared state")
        if writes and _possible(found, partly=partly):
            _print(found, as_json=as_json, shown=not yes)
            options.consent(f"Put {len(found)} records back as they were?", given=yes)
            found = apply(known, job, pair, actor, because, partly=partly, **given)
    except TriageRefused as refusal:
        raise click.ClickException(refusal.message) from refusal
    _print(found, as_json=as_json)
    refused = sum(bool(one.refusal) for one in found)
    click.echo(_verdict(len(found), refused, writes=writes, partly=partly), err=True)
    ctx.exit(PARTLY if refused else 0)


def _possible(found: Sequence[Reversal], *, partly: bool) -> bool:
    refused = [one for one in found if one.refusal]
    return not refused or (partly and len(refused) < len(found))


def _print(found: Sequence[Reversal], *, as_json: bool, shown: bool = True) -> None:
    if shown:
        print_rows([row for one in found for row in one.rows()], COLUMNS, as_json=as_json)


def _verdict(count: int, refused: int, *, writes: bool, partly: bool) -> str:
    if refused and (not writes or not partly or refused == count):
        return f"{refused} of {count} records can't be put back; nothing was written"
    if not writes:
        return f"{count} of {count} records can be put back; nothing was written. With --apply --because TEXT they are"
    return f"{count - refused} of {count} records were put back"
