"""`replay dlq dry-run`: would today's code get these jobs done?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from ..dead_letters import Decision
from ..dry_run.comparison import Ends
from ..dry_run.engine import DryRun, Engine
from ..dry_run.recording import recording_of
from ..exceptions import ReplayError
from ..records import Letter
from ..states import Verb
from ..stores.base import Store
from . import options
from . import progress as bars
from .access import runtime
from .results import Results
from .runs import sandboxed
from .selection import Selection, selected
from .triage import REFUSED, named


@click.command("dry-run", epilog=options.example("dlq dry-run --group 1f2e3d4c --note"))
@selected
@sandboxed
@click.option("--note", is_flag=True, help="Note what came out with each group.")
@options.actor
@options.as_json
def dry_run(
    ctx: click.Context,
    /,
    selection: Selection,
    timeout: float,
    require_kernel: bool,
    note: bool,
    actor: str,
    as_json: bool,
) -> None:
    """Run the jobs of dead letters by today's code, one after the other, each in a sandbox. Nothing real is changed.

    Each is run as `run --mode dry-run` does, which shows one of them in full. The exit code is 0 where all would
    succeed, 4 where some would not.
    """
    here, results = runtime(ctx), Results(as_json=as_json)
    letters = selection.find(here.store, results)
    counted: Counter[tuple[str, str]] = Counter()
    with (
        Engine(ctx.obj.app, timeout_s=timeout, require_kernel=require_kernel) as engine,
        bars.Counter("dry runs", len(letters)) as bar,
    ):
        for letter in letters:
            verdict, said, row = _tried(here.store, engine, letter)
            results.add({**named(letter), "verdict": verdict, "said": said, **row}, well=verdict == Ends.WELL)
            counted[letter.group_id, _summed(verdict, said)] += 1
            bar.add()
    for group in dict.fromkeys(group for group, _ in counted):
        told = ", ".join(f"{count} {what}" for (of, what), count in counted.most_common() if of == group)
        click.echo(f"group {group.partition(':')[2][:8]}: {told}", err=True)
        if note:
            here.store.note_group(group, Decision(verb=Verb.NOTED, actor=actor, text=f"dry run: {told}"))
    ctx.exit(results.exit_code)


def _tried(store: Store, engine: Engine, letter: Letter) -> tuple[str, str, dict[str, Any]]:
    job = store.job(letter.submission)
    if job is None:
        return REFUSED, "its job is not known any more", {}
    try:
        ran: DryRun = engine.run(recording_of(store, job, letter.to_send, mended=letter.edited is not None))
    except ReplayError as error:
        return REFUSED, error.message, {}
    comparison = ran.comparison
    return str(comparison.ends), comparison.said, {"parts_at": comparison.parts_at, "failure": comparison.failure}


_SUMMED = {
    Ends.WELL: "would succeed",
    Ends.SAME: "would fail in the same way",
    Ends.OTHERWISE: "would fail in another way",
    Ends.RETRIES: "would be retried",
    Ends.BLOCKED: "tried what a dry run may not",
    Ends.DIED: "did not come to an end",
    REFUSED: "could not be run",
}


def _summed(verdict: str, said: str) -> str:
    """Put alike what ends alike: those that diverge, by where they do."""
    return _SUMMED.get(verdict, said)
