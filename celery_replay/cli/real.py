"""`replay run LETTER --mode real`: one dead letter run again, for real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from ..clock import new_id
from ..exceptions import TriageRefused
from ..replay.following import End, follow
from ..replay.message import PayloadUnreadable
from ..replay.plan import Options, preview
from ..replay.sending import Order, choose, send
from ..runtime import Runtime
from . import options, plans
from .access import find_letter
from .output import nothing_found
from .results import PARTLY, Results

MODE = "real"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What was said of a real replay."""

    because: str
    actor: str
    yes: bool
    allow: Sequence[str]
    with_canvas: bool
    override_never: bool
    wait: bool

    @property
    def given(self) -> bool:
        """Was anything said that is about a real replay alone?"""
        return bool(self.because or self.yes or self.allow or self.with_canvas or self.override_never or not self.wait)


def described(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a real replay to a command, which gets them as its `wanted`."""

    @wraps(command)
    def take(*args: Any, **given: Any) -> Any:
        wanted = Wanted(**{name: given.pop(name) for name in Wanted.__dataclass_fields__})
        return command(*args, wanted=wanted, **given)

    wait = click.option("--wait/--detach", default=True, show_default=True, help="Real: follow it to its end.")
    because = options.because(needed=False)
    return because(options.actor(options.yes(options.allowing(options.against_rules(wait(take))))))


def run(ctx: click.Context, known: Runtime, name: str, wanted: Wanted, *, as_json: bool) -> None:
    """Show what would become of each side effect, ask, send the letter, and follow it."""
    letter = find_letter(known.store, name)
    if letter is None:
        nothing_found(f"job {name} has no dead letter: only those are run again for real")
    if not wanted.because:
        raise click.UsageError(
            f"say why with --because; to look only, give --mode dry-run, or dlq replay {name} --dry-run"
        )
    chosen = Options(
        with_canvas=wanted.with_canvas, override_never=wanted.override_never, allow=tuple(wanted.allow) or None
    )
    (item,) = preview(known, [letter], chosen)
    results = Results(as_json=as_json)
    if not as_json:
        plans.show([item], as_json=False)
    if not item.ready:
        results.add(plans.shown(item), well=False, shown=False)
        ctx.exit(results.exit_code)
    options.consent("Replay it for real?", given=wanted.yes)
    order = Order(actor=wanted.actor, reason=wanted.because, with_canvas=wanted.with_canvas, operation_id=new_id())
    row = plans.shown(item)
    try:
        begun = send(known, choose(known, item, chosen), order)
    except (TriageRefused, PayloadUnreadable) as refusal:
        results.add({**row, "verdict": plans.LEFT_OUT, "said": refusal.message}, well=False)
        ctx.exit(PARTLY)
    row["task_id"] = begun.task_id
    if not wanted.wait:
        results.add({**row, "verdict": "sent"}, well=True)
    for ended in follow(known.store, {letter.submission: begun.submission}) if wanted.wait else ():
        if ended is not None:
            results.add({**row, "verdict": ended.end, "said": ended.said}, well=ended.end is End.RESOLVED)
    ctx.exit(results.exit_code)
