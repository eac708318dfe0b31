"""`replay dlq replay`, `follow`, `stop`: dead letters run again, for real."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from ..clock import new_id
from ..records import Letter
from ..replay.following import End, follow, stop
from ..replay.plan import Hindrance, Item, Options, accept_unknown, preview
from ..replay.sending import Order, send
from ..runtime import Runtime
from ..stores.base import Store
from . import fields, options, plans
from .access import runtime
from .output import nothing_found
from .progress import Counter
from .results import PARTLY, Results
from .selection import Selection, selected
from .status import NO_LEADER

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
_MANY = click.IntRange(1)


@click.command(epilog=options.example("dlq replay --group 1f2e3d4c --because 'the bank is back' --rate 5 --wait"))
@selected
@options.because(needed=False)
@options.actor
@click.option("--dry-run", is_flag=True, help="Look only: what would be sent, and why the rest would not.")
@options.yes
@click.option("--rate", type=options.PerSecond(), help="So many per second; a steward sends them.")
@click.option("--include-unknown", type=_MANY, metavar="N", help="Also those whose effects nobody knows: exactly N.")
@click.option("--override-never", is_flag=True, help='Also one that declares replay="never": by its id, alone.')
@click.option("--with-canvas", is_flag=True, help="Send callbacks, errbacks and the rest of a chain on, too.")
@click.option("--canary", type=_MANY, metavar="N", help="Send N first, the rest only if all of these end well.")
@click.option("--stop-after", type=_MANY, metavar="N", help="Call off what is not sent once N have failed again.")
@click.option("--wait", is_flag=True, help="Follow them to their ends.")
@options.as_json
def replay(ctx: click.Context, /, selection: Selection, because: str, actor: str, as_json: bool, **asked: Any) -> None:
    """Replay dead letters: each as a new job, with the task, payload and queue of its own.

    First it shows what would be sent and what would not, with the reasons; then it asks. The letters are those that
    it showed: one that changes meanwhile is left out. What was decided is sent, also if this command dies.

    The exit code is 0 where all were sent or, with --wait, ended well; 4 where some were left out or failed again.
    """
    _check(selection, because, asked)
    known = runtime(ctx)
    results = Results(as_json=as_json)
    items = _plan(known, selection.find(known.store, results), asked)
    ready = [item for item in items if item.ready]
    if asked["dry_run"] or not as_json:
        plans.show(items, as_json=as_json)
    if asked["dry_run"]:
        ctx.exit(results.exit_code if len(ready) == len(items) else PARTLY)
    click.echo(f"{len(ready)} of {len(items)} can be sent", err=True)
    for item in items:
        if not item.ready:
            results.add(plans.shown(item), well=False, shown=False)
    if ready:
        _warn(known.store, asked["rate"])
        options.consent(f"Replay {len(ready)}?", given=asked["yes"])
        order = Order(
            actor=actor, reason=because, rate=asked["rate"], options=Options(with_canvas=asked["with_canvas"])
        )
        run = _Run(known, order, results, asked["stop_after"])
        with _interruptible(ctx, run.operation):
            run.all(ready, canary=asked["canary"] or 0, wait=asked["wait"])
    ctx.exit(results.exit_code)


@click.command("follow", epilog=options.example("dlq follow 0198f3a1c2d57e3f8a4b5c6d7e8f9012"))
@click.argument("operation")
@options.as_json
@click.pass_context
def follow_(ctx: click.Context, operation: str, as_json: bool) -> None:
    """Follow the replays of an operation until none is pending; one result for each letter.

    The exit code is 0 where all ended well, 4 where some did not.
    """
    store, results = runtime(ctx).store, Results(as_json=as_json)
    letters = store.every_letter(operation_id=operation)
    pending = {x.submission: _Pending(row=fields.replayed(x), replay=x.replay) for x in letters}
    if not pending:
        nothing_found(f"no operation {operation}")
    with _interruptible(ctx, operation):
        for _ in _ends(store, pending, results):
            pass
    ctx.exit(results.exit_code)


@click.command("stop", epilog=options.example("dlq stop 0198f3a1c2d57e3f8a4b5c6d7e8f9012 --because 'it fails again'"))
@click.argument("operation")
@options.because()
@options.actor
@options.as_json
@click.pass_context
def stop_(ctx: click.Context, operation: str, because: str, actor: str, as_json: bool) -> None:
    """Call off those replays of an operation that were not sent yet; their letters wait for a decision again.

    The exit code is 0 where all that were pending are called off, 4 where some are on their way.
    """
    results = Results(as_json=as_json)
    for letter, refusal in stop(runtime(ctx).store, operation, actor, because):
        verdict = "pending" if refusal else End.STOPPED
        results.add({**fields.replayed(letter), "verdict": verdict, "said": refusal}, well=not refusal)
    if not results.count:
        nothing_found(f"nothing is pending of operation {operation}")
    ctx.exit(results.exit_code)


def _check(selection: Selection, because: str, asked: Mapping[str, Any]) -> None:
    if not because and not asked["dry_run"]:
        raise click.UsageError("say why with --because, or look only with --dry-run")
    if asked["stop_after"] and not (asked["rate"] and asked["wait"]):
        raise click.UsageError("--stop-after needs --rate and --wait: without them nothing is left to be called off")
    if asked["override_never"] and len(selection.ids) != 1:
        raise click.UsageError("--override-never takes one letter, by its id")


def _plan(known: Runtime, letters: Sequence[Letter], asked: Mapping[str, Any]) -> list[Item]:
    wanted = Options(with_canvas=asked["with_canvas"], override_never=asked["override_never"])
    items = preview(known, letters, wanted)
    accepted = asked["include_unknown"]
    if accepted is None:
        return items
    unknown = sum(item.hindrance is Hindrance.EFFECT_UNKNOWN for item in items)
    if accepted != unknown:
        raise click.UsageError(
            f"of these letters {unknown} are of unknown effect, not {accepted}: look at them, then give "
            + (f"--include-unknown {unknown}" if unknown else "no --include-unknown")
        )
    return accept_unknown(items)


def _warn(store: Store, rate: float | None) -> None:
    if rate and store.overview(1).leader is None:
        click.echo(f"! {NO_LEADER}", err=True)


@contextmanager
def _interruptible(ctx: click.Context, operation: str) -> Iterator[None]:
    """Say how to go on where somebody leaves."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(
            f"left; what was decided goes on. To follow it: dlq follow {operation}; to call off what is not sent: "
            f"dlq stop {operation}",
            err=True,
        )
        ctx.exit(INTERRUPTED)


@dataclass(frozen=True, kw_only=True)
class _Pending:
    """A replay that has not ended."""

    row: fields.Fields
    replay: str


def _ends(store: Store, pending: Mapping[str, _Pending], results: Results) -> Iterator[End]:
    """Print results as replays end, and yield their ends."""
    if not pending:
        return
    with Counter("ended", len(pending)) as counter:
        for ended in follow(store, {submission: one.replay for submission, one in pending.items()}):
            counter.add(0 if ended is None else 1)
            if ended is not None:
                row = {**pending[ended.submission].row, "verdict": ended.end, "said": ended.said}
                results.add(row, well=ended.end is End.RESOLVED)
                yield ended.end


class _Run:
    """One operation: sends, follows, and stops itself.

    Args:
        patience: how many may fail again until what is not sent is called off.
    """

    def __init__(self, known: Runtime, order: Order, results: Results, patience: int | None) -> None:
        self.operation = new_id()
        self._known = known
        self._order = order
        self._results = results
        self._patience = patience

    def all(self, ready: Sequence[Item], *, canary: int, wait: bool) -> None:
        """Send them, and print one result for each."""
        click.echo(f"operation {self.operation}", err=True)
        first, rest = ready[:canary], ready[canary:]
        if self._wave(first, wait=True):
            self._wave(rest, wait=wait)
            return
        for item in rest:
            said = "those that were sent first did not all end well"
            self._results.add({**plans.shown(item), "verdict": plans.LEFT_OUT, "said": said}, well=False)

    def _wave(self, items: Sequence[Item], *, wait: bool) -> bool:
        """Send some, wait for their ends if that is wanted, and return whether all of them are good."""
        if not items:
            return True
        pending = {}
        with Counter("sent", len(items)) as counter:
            for sent in send(self._known, items, self._order, self.operation):
                counter.add()
                row = {**plans.shown(sent.item), "operation": self.operation, "task_id": sent.task_id}
                if sent.ok and wait:
                    pending[sent.item.letter.submission] = _Pending(row=row, replay=sent.submission)
                else:
                    verdict = "sent" if sent.ok else plans.LEFT_OUT
                    self._results.add({**row, "verdict": verdict, "said": sent.said}, well=sent.ok)
        well = [self._heard(end) for end in _ends(self._known.store, pending, self._results)]
        return all(well)

    def _heard(self, end: End) -> bool:
        if end is End.FAILED_AGAIN and self._patience is not None:
            self._patience -= 1
            if self._patience == 0:
                click.echo("! too many failed again: what is not sent is called off", err=True)
                for _ in stop(self._known.store, self.operation, self._order.actor, "too many failed again"):
                    pass
        return end is End.RESOLVED
