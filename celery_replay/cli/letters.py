"""`replay dlq list`, `show`: jobs that need a human decision."""

from __future__ import annotations

from typing import Any

import click

from ..dead_letters import Decision
from ..records import Letter
from ..replay import message as messages
from ..replay.evidence import evidence_of
from ..replay.lineage import descendants
from ..replay.plan import preview
from ..runtime import Runtime
from ..states import LetterState, Verb
from . import fields, options, plans
from .access import find_group, find_letter, runtime
from .output import nothing_found, print_page, print_record, print_section, printable, to_json
from .payload import payload

_SECTIONS = (
    ("attempts_ended", "attempts that ended", fields.ATTEMPTS),
    ("replayed_as", "replayed as", fields.DESCENDANTS),
    ("history", "history", fields.HISTORY),
)


@click.command("list", epilog=options.example("dlq list --state open --error Timeout --since 7d"))
@options.of_letters
@click.option("--state", type=options.word(LetterState), help="In this state, such as open or resolved.")
@options.continued
@options.as_json
@click.pass_context
def list_(ctx: click.Context, /, group: str, limit: int, as_json: bool, **filters: Any) -> None:
    """List dead letters, newest first."""
    store = runtime(ctx).store
    group_id = find_group(store, group).group_id if group else ""
    letters = store.letters(limit + 1, group_id=group_id, **filters)
    print_page(
        [fields.letter(letter) for letter in letters], fields.LETTERS, limit, as_json=as_json, time="last_failed"
    )


@click.command(epilog=options.example("dlq show 0198f3a1c2d57e3f8a4b5c6d7e8f9012"))
@click.argument("job_id")
@click.option("--reveal", is_flag=True, help="Show the payload as it is. Needs --because; the history tells of it.")
@options.because(needed=False)
@options.actor
@options.as_json
@click.pass_context
def show(ctx: click.Context, job_id: str, reveal: bool, because: str, actor: str, as_json: bool) -> None:
    """Show a dead letter: its evidence, what a replay would do, and what was done to it.

    It is found by its id, by the Celery task id or the trace id of its job, or by those of a replay. Payloads are
    shown with secrets redacted; only JSON is decoded.
    """
    known = runtime(ctx)
    letter = find_letter(known.store, job_id)
    if letter is None:
        nothing_found(f"job {job_id} has no dead letter")
    clear = _revealed(known, letter, because, actor) if reveal else {}
    letter = known.store.letter(letter.submission) or letter
    whole = {**fields.letter(letter), "traceback": letter.traceback, **_whole(known, letter)}
    if as_json:
        click.echo(to_json(whole, clear))
    else:
        _print(letter, whole, clear)


def _whole(known: Runtime, letter: Letter) -> fields.Fields:
    """Collect what hangs on a letter."""
    store = known.store
    (item,) = preview(known, [letter])
    history = store.history(submission=letter.submission)
    return {
        "evidence": {**fields.evidence(evidence_of(store, letter)), "replay": plans.told(item)},
        "attempts_ended": [fields.attempt(attempt) for attempt in store.attempts(letter.submission)],
        "history": [fields.entry(entry) for entry in history],
        "replayed_as": [fields.descendant(one) for one in descendants(store, history)],
        "payload": payload(known, letter.operation, letter.message),
        "mended_payload": payload(known, letter.operation, letter.edited, mended=True),
    }


def _revealed(known: Runtime, letter: Letter, because: str, actor: str) -> fields.Fields:
    """Write down who looks and why, then return the payloads as they are."""
    if not because:
        raise click.UsageError("--reveal needs --because")
    kept = {"payload": letter.message, "mended_payload": letter.edited}
    try:
        read = {name: messages.read(message) for name, message in kept.items() if message is not None}
    except messages.PayloadUnreadable as error:
        raise click.ClickException(printable(error.message)) from error
    known.store.decide(letter.submission, Decision(verb=Verb.REVEALED, actor=actor, text=because))
    return {name: {"args": one.args, "kwargs": one.kwargs, **one.canvas} for name, one in read.items()}


def _print(letter: Letter, whole: fields.Fields, clear: fields.Fields) -> None:
    evidence, payloads = whole.pop("evidence"), {}
    sections = [(title, whole.pop(name), columns) for name, title, columns in _SECTIONS]
    for name in ("payload", "mended_payload"):
        payloads[name] = clear.get(name), whole.pop(name)
    print_record(whole)
    if letter.state.unresolved:
        click.echo("\nevidence")
        print_record(evidence)
    else:
        click.echo(f"\nnothing is to be decided: it is {fields.standing(letter)}")
    for section in sections:
        print_section(*section)
    for name, (as_it_is, redacted) in payloads.items():
        if redacted:
            click.echo(f"\n{name.replace('_', ' ')}")
            print_record(as_it_is or redacted, clear=as_it_is is not None)
    click.echo(f"\nits trace: replay trace show {printable(whole['id'])}")
