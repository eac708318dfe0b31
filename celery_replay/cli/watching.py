"""How commands follow an operation: one result for each of its letters, as their replays end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import click

from ..records import HistoryEntry, Operation
from ..replay import driving
from ..replay.following import PERIOD_S
from ..replay.operations import awaited_of
from ..runtime import Runtime
from ..states import OperationState, Verb
from . import fields
from .output import printable
from .progress import Counter
from .results import Results
from .status import NO_LEADER

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
_ALONE = "no steward leads now: until one does, this command sends what is due, as long as it runs"
CHOSEN = "chosen"
NOT_SENT = "not_sent"
_SEEN_AT_ONCE = 300
"""Entries of the history in one look; what came faster than that is found at the end."""
_SHOWN = (Verb.RESOLVED, Verb.FAILED_AGAIN, Verb.LEFT_OUT)
HINTS = {
    OperationState.PAUSED: "it is paused: dlq resume {id} lets it go on, dlq abort {id} ends it",
    OperationState.STOPPED: "it stopped itself ({said}): dlq resume {id} lets it go on, dlq abort {id} ends it",
    OperationState.ABORTED: "it was aborted; what was not sent waits for a decision",
}


def warn(known: Runtime, *, follows: bool) -> None:
    """Say that nobody sends it but whoever follows it, where that is so."""
    if known.store.overview(1).leader is None:
        click.echo(f"! {_ALONE if follows else NO_LEADER}", err=True)


def watch(
    ctx: click.Context,
    known: Runtime,
    operation: Operation,
    results: Results,
    plan: Mapping[str, fields.Fields] = MappingProxyType({}),
) -> None:
    """Follow an operation until nothing more comes of it; where no steward leads, send it meanwhile.

    Args:
        plan: what was shown of its letters, to be told with the results.
    """
    watcher = _Watcher(known, operation, results, plan)
    with _interruptible(ctx, operation.operation_id), Counter("ended", operation.total) as counter:
        while True:
            current = known.store.operation(operation.operation_id) or operation
            over = not current.active
            watcher.tell(counter, everything=over)
            if over:
                break
            if known.store.overview(1).leader is not None or not driving.drive(known, current):
                time.sleep(PERIOD_S)
    if current.state is not OperationState.FINISHED:
        watcher.tell_rest(current)
        hint = HINTS[current.state].format(id=current.operation_id, said=printable(current.said))
        click.echo(f"! {hint}", err=True)


@contextmanager
def _interruptible(ctx: click.Context, operation: str) -> Iterator[None]:
    """Say how to go on where somebody leaves."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(
            f"left; a steward goes on with it. To follow it: dlq follow {operation}; to hold it: "
            f"dlq pause {operation}; to end it: dlq abort {operation}",
            err=True,
        )
        ctx.exit(INTERRUPTED)


class _Watcher:
    """Prints what happens to an operation's letters, each once."""

    def __init__(
        self, known: Runtime, operation: Operation, results: Results, plan: Mapping[str, fields.Fields]
    ) -> None:
        self._plan = plan
        self._store = known.store
        self._operation = operation
        self._results = results
        self._told: set[str] = set()
        self._tasks: dict[str, str] = {}

    def tell(self, counter: Counter, *, everything: bool) -> None:
        """Print what came since the last time."""
        limit = 3 * self._operation.total + 1_000 if everything else _SEEN_AT_ONCE
        for entry in self._store.history(operation_id=self._operation.operation_id, limit=limit):
            if entry.entry_id not in self._told and entry.submission:
                self._told.add(entry.entry_id)
                self._one(entry, counter)

    def _one(self, entry: HistoryEntry, counter: Counter) -> None:
        if entry.verb is Verb.REPLAYED:
            self._tasks[entry.submission] = str(json.loads(entry.details).get("task_id", ""))
        elif entry.verb in _SHOWN and not (entry.verb is Verb.LEFT_OUT and self._is_of_the_plan(entry)):
            counter.add()
            row = {
                **self._row(entry.submission),
                "task_id": self._tasks.get(entry.submission, ""),
                "verdict": entry.verb,
                "said": entry.text,
            }
            self._results.add(row, well=entry.verb is Verb.RESOLVED)

    def tell_rest(self, operation: Operation) -> None:
        """Print those that it has not come to."""
        said = f"the operation is {operation.state}"
        for letter in awaited_of(self._store, operation):
            self._results.add({**self._row(str(letter["letter"])), "verdict": NOT_SENT, "said": said}, well=False)

    def _row(self, submission: str) -> fields.Fields:
        shown = self._plan.get(submission)
        if shown is None:
            letter = self._store.letter(submission)
            shown = {"id": submission, "task": letter.operation if letter is not None else ""}
        return {**shown, "operation": self._operation.operation_id}

    @staticmethod
    def _is_of_the_plan(entry: HistoryEntry) -> bool:
        """Was it left out before the operation began? That was said with the plan."""
        return "hindrance" in json.loads(entry.details)
