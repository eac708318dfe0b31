"""`celery -A proj replay …`.

Celery imports this for each of its own commands, a worker's start among them: what ours need is imported when one of
them is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from ..exceptions import ReplayError

_MODULES = {
    "derived": "derived",
    "dlq": "dlq",
    "drain": "draining",
    "erase": "erasing",
    "export": "exporting",
    "failures": "failures",
    "jobs": "jobs",
    "leases": "leases",
    "parked": "parked",
    "prune": "pruning",
    "run": "runs",
    "snapshot": "snapshots",
    "status": "status",
    "steward": "stewards",
    "trace": "traces",
}
"""Where each command is."""


class Commands(click.Group):
    """celery-replay's commands; they end with a sentence, not a traceback, where the store can't be read."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name them, without importing one."""
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in _MODULES:
            return None
        found: click.Command = getattr(import_module(f".{_MODULES[cmd_name]}", __name__), cmd_name)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except ReplayError as error:
            from .access import Unreadable

            raise Unreadable(error) from error


@click.group(cls=Commands, epilog="\b\nExample:\n  celery -A shop replay status")
def replay() -> None:
    """Look at jobs, and keep them going: celery-replay's commands."""
