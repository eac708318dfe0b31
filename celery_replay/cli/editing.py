"""`replay dlq edit`: payloads mended, to be replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click
from kombu.utils import json

from ..dead_letters import Decision
from ..policy import TaskPolicy
from ..records import Letter, evolve
from ..redaction import redact
from ..replay import fitting, mending
from ..replay.fitting import Mended, PayloadUnfit
from ..replay.message import PayloadUnreadable
from ..runtime import Runtime
from ..serialization import canonical_json
from ..states import Verb
from . import options
from .access import runtime
from .output import printable
from .plans import FEW
from .results import Results
from .selection import Selection, selected
from .triage import REFUSED, decide, named

Change = Callable[[Letter, TaskPolicy], Mended]


@click.command(epilog=options.example("dlq edit 0198f3a1c2d57e3f8a4b5c6d7e8f9012 --set 'amount=5' --unset carrier"))
@selected
@click.option("--set", "news", multiple=True, metavar="NAME=JSON", help="Give an argument another value.")
@click.option("--unset", "gone", multiple=True, metavar="NAME", help="Take an argument away.")
@click.option("--args", metavar="JSON", help="Replace the positional arguments, by a list.")
@click.option("--kwargs", metavar="JSON", help="Replace the named arguments, by an object.")
@click.option("--editor", is_flag=True, help="Edit the arguments in $EDITOR; what is [redacted] there stays as it is.")
@click.option("--undo", is_flag=True, help="Go back to the original payload.")
@click.option("--dry-run", is_flag=True, help="Show the difference only.")
@options.because(needed=False)
@options.actor
@options.as_json
def edit(ctx: click.Context, /, selection: Selection, because: str, actor: str, as_json: bool, **how: Any) -> None:
    """Mend the payloads of dead letters: their replays will send what is given here.

    The original is kept. A payload that the task could not be called with today is refused. Differences are shown
    with secrets redacted.
    """
    change = None if how["undo"] else _change(how, selection)
    known, results = runtime(ctx), Results(as_json=as_json)
    letters = selection.find(known.store, results)
    decision = Decision(verb=Verb.EDITED, actor=actor, text=because or "")
    for letter in letters:
        if change is None:
            decide(known.store, letter, decision, results)
            continue
        try:
            mended = change(letter, _policy(known, letter))
        except (PayloadUnfit, PayloadUnreadable) as refusal:
            results.add({**named(letter), "verdict": REFUSED, "said": refusal.message}, well=False)
            continue
        difference = _difference(mended)
        if not as_json and len(letters) <= FEW:
            _print(difference)
        if how["dry_run"] or not difference:
            verdict = "would_change" if difference else "unchanged"
            results.add({**named(letter), "verdict": verdict, "said": "", "changed": difference}, well=True)
            continue
        details = canonical_json({"changed": list(difference)})
        news = evolve(decision, edited=mended.message, details=details)
        decide(known.store, letter, news, results, changed=difference)
    ctx.exit(results.exit_code)


def _policy(known: Runtime, letter: Letter) -> TaskPolicy:
    task = known.app.tasks.get(letter.operation)
    if task is None:
        raise PayloadUnfit(f"task {letter.operation} is not registered here: nobody can say what it takes")
    return known.policy(task)


def _change(how: Mapping[str, Any], selection: Selection) -> Change:
    """Return what makes the mended payload of a letter."""
    by_name, whole = how["news"] or how["gone"], how["args"] is not None or how["kwargs"] is not None
    if [bool(by_name), whole, how["editor"]].count(True) != 1:
        raise click.UsageError("say how: --set and --unset, or --args and --kwargs, or --editor, or --undo")
    if how["editor"]:
        if len(selection.ids) != 1:
            raise click.UsageError("--editor takes one letter, by its id")
        return _by_hand
    if by_name:
        news = dict(options.pair(text, "--set") for text in how["news"])
        return lambda letter, policy: fitting.changed(letter, policy, news, how["gone"])
    args = None if how["args"] is None else options.from_json(how["args"], list, "--args")
    kwargs = None if how["kwargs"] is None else options.from_json(how["kwargs"], dict, "--kwargs")
    return lambda letter, policy: fitting.replaced(letter, policy, args, kwargs)


def _difference(mended: Mended) -> dict[str, Any]:
    """Return what changes, by the arguments' names; what is not there is left out."""
    sides = {"was": mended.before, "now": mended.after}
    return {name: {side: told[name] for side, told in sides.items() if name in told} for name in mended.changed}


def _print(difference: Mapping[str, Any]) -> None:
    for name, sides in difference.items():
        shown = {side: json.dumps(redact({name: value})[name], ensure_ascii=False) for side, value in sides.items()}
        was, now = (printable(shown.get(side, "(absent)")) for side in ("was", "now"))
        click.echo(f"    {printable(name)}: {was} → {now}")


def _by_hand(letter: Letter, policy: TaskPolicy) -> Mended:
    """Let somebody edit the arguments; secrets stay on this side."""
    original = dict(fitting.arguments_of(letter, policy))
    shown = redact(original)
    text = _editable(shown)
    while True:
        text = click.edit(text, extension=".json") or _editable(shown)
        try:
            edited = json.loads(text)
        except (ValueError, TypeError) as error:
            click.confirm(f"this is no JSON ({error}). Edit it again?", abort=True, err=True, default=True)
            continue
        if isinstance(edited, dict):
            break
        click.confirm("this is no JSON object. Edit it again?", abort=True, err=True, default=True)
    news = mending.restored(shown, edited, original)
    return fitting.changed(letter, policy, news, [name for name in original if name not in edited])


def _editable(data: Any) -> str:
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return "".join(sign if sign.isprintable() or sign == "\n" else _escaped(sign) for sign in text) + "\n"


def _escaped(sign: str) -> str:
    return str(json.dumps(sign))[1:-1]
