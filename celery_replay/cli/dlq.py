"""`replay dlq`: jobs that need a human decision."""

from __future__ import annotations

import click

from . import editing, groups, letters, operations, options, replays, triage, trials


@click.group(epilog=options.example("dlq list"))
def dlq() -> None:
    """Triage dead letters: look at them, replay, mend, discard."""


for _command in (
    letters.list_,
    letters.show,
    groups.groups,
    groups.group,
    trials.dry_run,
    replays.replay,
    *operations.COMMANDS,
    editing.edit,
    *triage.COMMANDS,
):
    dlq.add_command(_command)
