"""`manage.py celery_replay …`: the commands of `celery -A proj replay …`, for the project's app."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import click
from celery import _state
from celery.app.utils import find_app
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from celery_replay.cli import Commands

_OF_DJANGO = ("--settings", "--pythonpath")
"""Options of any command, which Django has followed by now."""
_EXAMPLE = "\b\nExample:\n  manage.py celery_replay -A shop.celery:app dlq list --state open"


class Project:
    """Stands where Celery's own command line has its context.

    Args:
        name: the app's, as `celery -A` takes it; by default CELERY_REPLAY_APP, else the app that the project loads.
    """

    def __init__(self, name: str) -> None:
        self._name = name or getattr(settings, "CELERY_REPLAY_APP", "")

    @cached_property
    def app(self) -> Any:
        """The app, looked for when a command needs it."""
        if not self._name:
            if _state.default_app is None:
                raise click.UsageError("which Celery app? Give -A, or set CELERY_REPLAY_APP")
            return _state.default_app
        try:
            return find_app(self._name)
        except (ImportError, AttributeError, ValueError) as error:
            raise click.UsageError(f"the Celery app {self._name!r} can't be loaded: {error}") from error


@click.group(cls=Commands, epilog=_EXAMPLE)
@click.option("-A", "--app", default="", help="The Celery app, as `celery -A` takes it: package.module:app.")
@click.pass_context
def celery_replay(ctx: click.Context, app: str) -> None:
    """Look at jobs, and keep them going: the commands of `celery -A proj replay`.

    The Celery app is the one that -A names, else the one that the setting CELERY_REPLAY_APP names, else the one that
    the project itself loads, as Celery's guide for Django has it in the project's __init__.py.
    """
    ctx.obj = Project(app)


class Command(BaseCommand):
    """Hands its arguments on."""

    help = "Look at jobs: the commands of `celery -A proj replay`."

    def run_from_argv(self, argv: list[str]) -> None:
        """Run as a program: options and help are those of the commands."""
        parser = CommandParser(add_help=False, allow_abbrev=False)
        for option in _OF_DJANGO:
            parser.add_argument(option)
        _, arguments = parser.parse_known_args(argv[2:])
        celery_replay.main(arguments, prog_name=f"{Path(argv[0]).name} {argv[1]}")
