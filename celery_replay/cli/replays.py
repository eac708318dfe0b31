"""`replay dlq replay`: dead letters run again, for real, as an operation that stewards send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..operations import AT_ONCE, OF_LAST, SHARE, Conditions
from ..records import Letter
from ..replay import driving
from ..replay.plan import ALL, Hindrance, Item, Options, accept_unknown, preview
from ..runtime import Runtime
from . import options, plans, watching
from .access import runtime
from .results import PARTLY, Results
from .selection import Selection, selected

_MANY = click.IntRange(1)
_SHARE = click.FloatRange(0, 1)


@click.command(epilog=options.example("dlq replay --group 1f2e3d4c --because 'the bank is back' --canary 5 --rate 5"))
@selected
@options.because(needed=False)
@options.actor
@click.option("--dry-run", is_flag=True, help="Look only: what would be sent, and why the rest would not.")
@options.yes
@options.allowing
@click.option("--include-unknown", type=_MANY, metavar="N", help="Also those whose effects nobody knows: exactly N.")
@options.against_rules
@click.option("--canary", type=_MANY, metavar="N", help="Send N first, the rest only if all of these end well.")
@click.option("--rate", type=options.PerSecond(), help="So many per second.")
@click.option("--at-once", type=_MANY, default=AT_ONCE, show_default=True, help="So many may be under way at a time.")
@click.option("--stop-after", type=_MANY, metavar="N", help="Stop once N have failed again.")
@click.option(
    "--stop-above",
    type=_SHARE,
    default=SHARE,
    show_default=True,
    help="Stop once more than this share of the last ones has failed again; 1: never.",
)
@click.option("--of-last", type=_MANY, default=OF_LAST, show_default=True, help="How many the last ones are.")
@click.option("--wait/--detach", default=True, show_default=True, help="Follow them to their ends.")
@options.as_json
def replay(ctx: click.Context, /, selection: Selection, because: str, actor: str, as_json: bool, **asked: Any) -> None:
    """Replay dead letters: each as a new job, with the task, payload and queue of its own.

    First it shows what would be sent and what would not, with the reasons; then it asks. The letters are those that
    it showed: one that changes meanwhile is left out. They become an operation, which a steward sends, also if this
    command dies; it can be paused, resumed and aborted, and it stops itself where too many fail again.

    The exit code is 0 where all ended well or, with --detach, are to be sent; 4 where some were left out, failed
    again, or are not sent yet as the operation does not run.
    """
    _check(selection, because, asked)
    known = runtime(ctx)
    results = Results(as_json=as_json)
    wanted = Options(
        with_canvas=asked["with_canvas"], override_never=asked["override_never"], allow=asked["allow"] or None
    )
    items = _plan(known, selection.find(known.store, results), wanted, asked["include_unknown"])
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
        options.consent(f"Replay {len(ready)}?", given=asked["yes"])
        operation = driving.start(
            known, items, actor=actor, reason=because, conditions=_conditions(asked), options=wanted
        )
        click.echo(f"operation {operation.operation_id}", err=True)
        watching.warn(known, follows=asked["wait"])
        if asked["wait"]:
            watching.watch(
                ctx, known, operation, results, {item.letter.submission: plans.shown(item) for item in ready}
            )
        else:
            for item in ready:
                row = {**plans.shown(item), "operation": operation.operation_id, "verdict": watching.CHOSEN}
                results.add(row, well=True)
    ctx.exit(results.exit_code)


def _check(selection: Selection, because: str, asked: Mapping[str, Any]) -> None:
    if not because and not asked["dry_run"]:
        raise click.UsageError("say why with --because, or look only with --dry-run")
    if asked["override_never"] and len(selection.ids) != 1:
        raise click.UsageError("--override-never takes one letter, by its id")
    if asked["allow"] and asked["include_unknown"]:
        raise click.UsageError(
            "accept side effects by their names (--allow) or by number (--include-unknown), not both"
        )
    if ALL in asked["allow"] and selection.wide:
        raise click.UsageError(f"--allow {ALL} takes letters by their ids; over a filter, give --include-unknown N")


def _conditions(asked: Mapping[str, Any]) -> Conditions:
    return Conditions(
        rate=asked["rate"],
        at_once=asked["at_once"],
        canary=asked["canary"] or 0,
        stop_after=asked["stop_after"],
        stop_above=asked["stop_above"],
        of_last=asked["of_last"],
        with_canvas=asked["with_canvas"],
        allow=asked["allow"] or None,
    )


def _plan(known: Runtime, letters: Sequence[Letter], wanted: Options, accepted: int | None) -> list[Item]:
    items = preview(known, letters, wanted)
    if accepted is None:
        return items
    unknown = sum(item.hindrance is Hindrance.EFFECT_UNKNOWN for item in items)
    if accepted != unknown:
        raise click.UsageError(
            f"of these letters {unknown} are of unknown effect, not {accepted}: look at them, then give "
            + (f"--include-unknown {unknown}" if unknown else "no --include-unknown")
        )
    return accept_unknown(items)
