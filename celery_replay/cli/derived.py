"""`replay derived`: data that is made from events is checked, and made again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from kombu.utils.json import loads

from ..clock import new_id
from ..dead_letters import Decision
from ..derivations import Derived, declared, held, history_of, problems
from ..states import Verb
from . import options
from .access import runtime
from .output import nothing_found, print_page, printable, to_json
from .results import PARTLY

COLUMNS = ("name", "of", "parameters")


@click.group("derived", epilog=options.example("derived list"))
def derived() -> None:
    """Check what the project declares as derived data, and make it again."""


@derived.command("list", epilog=options.example("derived list"))
@options.as_json
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List what is declared, and of which entity it is."""
    runtime(ctx)
    rows = [{"name": one.name, "of": one.of, "parameters": list(one.parameters)} for one in declared().values()]
    print_page(rows, COLUMNS, len(rows), as_json=as_json)


def _entity(command: Any) -> Any:
    text = "The value in its template, or NAME=VALUE for each where it has several; JSON or text."
    return click.option("--entity", "given", multiple=True, required=True, metavar="VALUE", help=text)(command)


@derived.command(epilog=options.example("derived check 'order totals' --entity 7"))
@click.argument("name")
@_entity
@options.as_json
@click.pass_context
def check(ctx: click.Context, name: str, given: Sequence[str], as_json: bool) -> None:
    """Check one entity's derived data. The exit code is 0 where all is well, 4 where something is wrong."""
    runtime(ctx)
    one = _named(name)
    values = _values(one, given)
    ctx.exit(_told(one, values, as_json=as_json))


@derived.command(epilog=options.example("derived rebuild 'order totals' --entity 7 --because 'it was off'"))
@click.argument("name")
@_entity
@click.option("--incomplete", is_flag=True, help="Also from a history of which a part is gone.")
@click.option("--anyway", is_flag=True, help="Also while a job has the entity.")
@options.because()
@options.actor
@options.yes
@options.as_json
@click.pass_context
def rebuild(ctx: click.Context, /, name: str, given: Sequence[str], yes: bool, as_json: bool, **more: Any) -> None:
    """Make one entity's derived data again from its events, in the order of its leases' fences; then check it.

    Refused while a job has the entity, and where leases are known of which no event is left. The history of
    operations keeps who did it, and why.
    """
    store = runtime(ctx).store
    one = _named(name)
    values = _values(one, given)
    resource = one.resource(values)
    holder = held(store, resource)
    if holder and not more["anyway"]:
        raise click.ClickException(f"{resource} is held by {holder}: wait for its end, or give --anyway")
    history = history_of(store, one, values)
    if history.missing and not more["incomplete"]:
        raise click.ClickException(
            f"of {history.missing} leases on {resource} no event is left: what is made of the others may be wrong; "
            "give --incomplete if that does not matter"
        )
    options.consent(f"Make {one.name} of {resource} again?", given=yes)
    one.rebuild(list(history.events), **values)
    attempts = len({event.attempt for event in history.events})
    told = {"derived": one.name, "entity": resource, "attempts": attempts, "missing": history.missing}
    decision = Decision(
        verb=Verb.REBUILT, actor=more["actor"], text=more["because"], details=json.dumps(told), operation_id=new_id()
    )
    store.write_down([("", decision)])
    ctx.exit(_told(one, values, as_json=as_json, **told))


def _told(one: Derived, values: dict[str, Any], *, as_json: bool, **more: Any) -> int:
    found = problems(one, values)
    if as_json:
        click.echo(to_json({"derived": one.name, "entity": one.resource(values), **more, "problems": found}))
    else:
        if more:
            click.echo(f"made again from the events of {more['attempts']} attempts")
        click.echo("\n".join(map(printable, found)) or "nothing is wrong")
    return PARTLY if found else 0


def _named(name: str) -> Derived:
    known = declared()
    if name not in known:
        nothing_found(f"no derived data {name!r}; declared are: {', '.join(known) or 'none'}")
    return known[name]


def _values(one: Derived, given: Sequence[str]) -> dict[str, Any]:
    names = one.parameters
    if len(names) == 1 and len(given) == 1 and not given[0].startswith(f"{names[0]}="):
        return {names[0]: _value(given[0])}
    pairs = [text.partition("=") for text in given]
    values = {name: _value(text) for name, equals, text in pairs if equals}
    if values.keys() != set(names) or len(values) != len(given):
        raise click.UsageError(f"--entity: {one.name} is of {one.of}; give {', '.join(f'{n}=VALUE' for n in names)}")
    return values


def _value(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        return text
