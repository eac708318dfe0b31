"""Which dead letters a command is about: those that are named, or those that a filter finds now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import islice
from typing import Any

import click

from ..records import Letter
from ..states import LetterState
from ..stores.base import Store
from . import options
from .access import find_group, find_letter
from .output import nothing_found
from .results import Results

_MOST = 100_000


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What was asked for."""

    ids: Sequence[str]
    filters: Mapping[str, Any] = field(default_factory=dict)
    limit: int = 1000

    @property
    def wide(self) -> bool:
        """Was a filter given, so that nobody named each of the letters?"""
        return not self.ids

    def find(self, store: Store, results: Results) -> list[Letter]:
        """Return the letters as they are now, oldest first; a name that leads nowhere is a bad result.

        Those that are named come whatever their state is; a filter finds those that wait for a decision.
        """
        if self.ids:
            found = {name: find_letter(store, name) for name in self.ids}
            letters = list({letter.submission: letter for letter in found.values() if letter is not None}.values())
            for name in [name for name, letter in found.items() if letter is None and letters]:
                results.add({"verdict": "not_found", "id": name, "said": "it has no dead letter"}, well=False)
        else:
            letters = list(islice(store.every_letter(**self._wanted(store)), self.limit + 1))
            if len(letters) > self.limit:
                click.echo(f"more than {self.limit:,} match: these are the newest; raise --limit", err=True)
                letters = letters[: self.limit]
        if not letters:
            nothing_found("nothing found")
        return sorted(letters, key=lambda letter: (letter.first_seen, letter.submission))

    def _wanted(self, store: Store) -> dict[str, Any]:
        group = self.filters.get("group")
        named = {name: value for name, value in self.filters.items() if name != "group"}
        return {**named, "group_id": find_group(store, group).group_id if group else ""}


def selected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ids and filters to a command, which gets them as its `selection`."""

    @wraps(command)
    def select(ctx: click.Context, /, ids: Sequence[str], limit: int, **given: Any) -> Any:
        filters = {name: given.pop(name) for name in _FILTERS}
        if bool(ids) is any(filters.values()):
            raise click.UsageError("which letters? Name their ids, or give a filter such as --group; not both.")
        state = filters["state"] or LetterState.OPEN
        selection = Selection(ids=ids, filters={**filters, "state": state}, limit=limit)
        return command(ctx, selection=selection, **given)

    state = click.option(
        "--state", type=options.word(LetterState), help="In this state; by default a filter finds open ones."
    )
    limit = click.option(
        "--limit",
        type=click.IntRange(1, _MOST),
        default=1000,
        show_default=True,
        help="Of those that a filter finds at most so many, the newest.",
    )
    ids = click.argument("ids", nargs=-1, metavar="[ID]...")
    return ids(options.of_letters(state(limit(click.pass_context(select)))))


_FILTERS = ("operation", "group", "reason", "error", "effect", "operation_id", "since", "state")
