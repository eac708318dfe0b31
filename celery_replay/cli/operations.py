"""`replay dlq operations`, `operation`, `follow`, `pause`, `resume`, `abort`: replays of many letters."""

from __future__ import annotations

from typing import Any

import click

from ..dead_letters import Decision
from ..exceptions import TriageRefused
from ..records import Operation
from ..states import Verb
from ..stores.base import Store
from . import fields, options, watching
from .access import runtime
from .output import nothing_found, print_page, print_record, print_section, to_json
from .results import PARTLY, Results
from .triage import REFUSED

_NO_SUCH = "no operation"


@click.command("operations", epilog=options.example("dlq operations"))
@options.continued
@options.as_json
@click.pass_context
def operations(ctx: click.Context, before: Any, limit: int, as_json: bool) -> None:
    """List operations, the newest first: replays of many letters, and how far they have come."""
    found = runtime(ctx).store.operations(limit + 1, before=before)
    rows = [fields.operation(one) for one in found]
    print_page(rows, fields.OPERATIONS, limit, as_json=as_json, time="began_at")


@click.command("operation", epilog=options.example("dlq operation 0198f3a1c2d57e3f8a4b5c6d7e8f9012"))
@click.argument("operation")
@options.as_json
@click.pass_context
def operation_(ctx: click.Context, operation: str, as_json: bool) -> None:
    """Show an operation: how it is sent, what stops it, how far it has come, and who did what with it."""
    store = runtime(ctx).store
    found = _found(store, operation)
    history = [fields.entry(entry) for entry in store.operation_history(found.operation_id)]
    if as_json:
        click.echo(to_json({**fields.operation(found), "history": history}))
        return
    print_record(fields.operation(found))
    print_section("History", history, fields.NOTES_OF)


@click.command("follow", epilog=options.example("dlq follow 0198f3a1c2d57e3f8a4b5c6d7e8f9012"))
@click.argument("operation")
@options.as_json
@click.pass_context
def follow(ctx: click.Context, operation: str, as_json: bool) -> None:
    """Follow an operation until nothing more comes of it; one result for each letter.

    The exit code is 0 where all ended well, 4 where some did not, or were not sent.
    """
    known, results = runtime(ctx), Results(as_json=as_json)
    watching.watch(ctx, known, _found(known.store, operation), results)
    ctx.exit(results.exit_code)


def _command(verb: Verb, name: str, what: str, *, needs_reason: bool) -> click.Command:
    why = " --because 'it fails again'" if needs_reason else ""

    @click.command(name, help=what, epilog=options.example(f"dlq {name} 0198f3a1c2d57e3f8a4b5c6d7e8f9012{why}"))
    @click.argument("operation")
    @options.because(needed=needs_reason)
    @options.actor
    @options.as_json
    @click.pass_context
    def command(ctx: click.Context, operation: str, because: str, actor: str, as_json: bool) -> None:
        store, results = runtime(ctx).store, Results(as_json=as_json)
        found = _found(store, operation)
        decision = Decision(verb=verb, actor=actor, text=because or "", operation_id=operation)
        try:
            after = store.decide_operation(operation, decision)
        except TriageRefused as refusal:
            row = {**fields.operation_result(found), "verdict": REFUSED, "said": refusal.message}
            results.add(row, well=False)
            ctx.exit(PARTLY)
        results.add({**fields.operation_result(after), "verdict": verb}, well=True)

    return command


def _found(store: Store, operation: str) -> Operation:
    found = store.operation(operation)
    if found is None:
        nothing_found(f"{_NO_SUCH} {operation}; those that there are: dlq operations")
    return found


COMMANDS = (
    operations,
    operation_,
    follow,
    _command(
        Verb.PAUSED,
        "pause",
        "Hold an operation: nothing more is sent but the few letters that are being sent now.",
        needs_reason=False,
    ),
    _command(
        Verb.RESUMED,
        "resume",
        "Let an operation go on that was paused, or has stopped itself.",
        needs_reason=False,
    ),
    _command(
        Verb.ABORTED,
        "abort",
        "End an operation: what was not sent waits for a decision, as before; what was sent goes on.",
        needs_reason=True,
    ),
)
