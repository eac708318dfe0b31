"""`replay dlq investigate`, `quarantine`, `reopen`, `discard`, `assign`, `note`: decisions about dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..dead_letters import Decision
from ..exceptions import TriageRefused
from ..records import Letter, evolve
from ..states import Verb
from ..stores.base import Store
from . import fields, options
from .access import find_group, runtime
from .results import Results
from .selection import Selection, selected

REFUSED = "refused"


def named(letter: Letter) -> fields.Fields:
    """Say in a result which letter it is about."""
    return {"id": letter.submission, "task": letter.operation}


def decide(store: Store, letter: Letter, decision: Decision, results: Results, **more: Any) -> None:
    """Apply a decision to a letter as it was when it was selected, and print the result."""
    row = {**named(letter), "verdict": decision.verb, "said": "", **more}
    try:
        store.decide(letter.submission, evolve(decision, revision=letter.revision))
    except TriageRefused as refusal:
        results.add({**row, "verdict": REFUSED, "said": refusal.message}, well=False)
    else:
        results.add(row, well=True)


def _decide_each(ctx: click.Context, selection: Selection, decision: Decision, results: Results, ask: str) -> None:
    store = runtime(ctx).store
    letters = selection.find(store, results)
    if ask and selection.wide:
        options.consent(f"{ask} {len(letters)} dead letters?", given=ctx.params["yes"])
    for letter in letters:
        decide(store, letter, decision, results)
    ctx.exit(results.exit_code)


def _command(verb: Verb, name: str, what: str, *, needs_reason: bool) -> click.Command:
    """Make the command of a decision that changes nothing but the state."""

    @click.command(name, help=what, epilog=options.example(f"dlq {name} --group 1f2e3d4c --because 'a known fault'"))
    @selected
    @options.because(needed=needs_reason)
    @options.actor
    @options.yes
    @options.as_json
    def command(
        ctx: click.Context, /, selection: Selection, because: str, actor: str, as_json: bool, **_: object
    ) -> None:
        decision = Decision(verb=verb, actor=actor, text=because or "")
        ask = name.capitalize() if needs_reason else ""
        _decide_each(ctx, selection, decision, Results(as_json=as_json), ask)

    return command


@click.command(epilog=options.example("dlq assign 0198f3a1c2d57e3f8a4b5c6d7e8f9012 ann"))
@selected
@click.argument("user")
@options.because(needed=False)
@options.actor
@options.as_json
def assign(ctx: click.Context, /, selection: Selection, user: str, because: str, actor: str, as_json: bool) -> None:
    """Say whose dead letters these are; '' takes them from whoever had them."""
    decision = Decision(verb=Verb.ASSIGNED, actor=actor, text=because or "", assignee=user)
    _decide_each(ctx, selection, decision, Results(as_json=as_json), "")


@click.command(epilog=options.example("dlq note --group 1f2e3d4c 'the bank knows of it'"))
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.argument("text")
@click.option("--group", default="", help="About a whole group.")
@options.actor
@options.as_json
@click.pass_context
def note(ctx: click.Context, ids: Sequence[str], text: str, group: str, actor: str, as_json: bool) -> None:
    """Write a note about dead letters, or about a whole group."""
    if bool(ids) is bool(group):
        raise click.UsageError("about what? Name ids of letters, or a --group; then the text")
    store, results = runtime(ctx).store, Results(as_json=as_json)
    decision = Decision(verb=Verb.NOTED, actor=actor, text=text)
    if group:
        found = find_group(store, group)
        store.note_group(found.group_id, decision)
        results.add({"id": found.group_id, "task": found.operation, "verdict": decision.verb, "said": ""}, well=True)
    for letter in Selection(ids=ids).find(store, results) if ids else ():
        decide(store, letter, decision, results)
    ctx.exit(results.exit_code)


COMMANDS = (
    _command(
        Verb.INVESTIGATED,
        "investigate",
        "Mark dead letters as being looked into: commands that take a filter leave them alone.",
        needs_reason=False,
    ),
    _command(
        Verb.QUARANTINED,
        "quarantine",
        "Keep dead letters from being replayed, until somebody reopens them.",
        needs_reason=True,
    ),
    _command(
        Verb.REOPENED,
        "reopen",
        "Let dead letters wait for a decision again: those under investigation, in quarantine, or discarded.",
        needs_reason=False,
    ),
    _command(
        Verb.DISCARDED,
        "discard",
        "Decide that nothing is to be done about dead letters. They stay, and can be reopened until they are pruned.",
        needs_reason=True,
    ),
    assign,
    note,
)
