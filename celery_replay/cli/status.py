"""`replay status`: one glance."""

from __future__ import annotations

import click

from .. import message_leases
from ..exceptions import ReplayError
from ..redaction import redact_text
from ..runtime import Runtime
from ..stores.base import SCHEMA_VERSION
from . import fields, options
from .access import runtime
from .output import cell, print_record, printable, to_json

ATTENTION = 1
"""The exit code where something wants a look."""
FIELDS = (
    "healthy", "reachable", "attention", "store", "schema_version", "open_letters", "parked", "counted_up_to",
    "parked_since", "parked_for", "leader", "leads_until", "message_lease",
)  # fmt: skip
NO_LEADER = "no steward leads: nothing releases parked jobs or files lost ones; is a worker running?"
NOT_SHARED = "this store is in the memory of one process: the jobs of others can't be seen from here"


@click.command(epilog=options.example("status"))
@options.as_json
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show whether the store answers and a steward leads, and what waits for attention.

    The exit code is 0 where all is well, 1 where the store can't be read or no steward leads.
    """
    glance = _glance(runtime(ctx))
    if as_json:
        click.echo(to_json(glance))
    else:
        _print(glance)
    ctx.exit(0 if glance["healthy"] else ATTENTION)


def _glance(known: Runtime) -> fields.Fields:
    glance: fields.Fields = dict.fromkeys(FIELDS)
    glance["message_lease"] = message_leases.describe(known.app.conf, wanted=known.settings.message_lease)
    try:
        store = known.store
        glance["store"] = store.place
        overview = store.overview()
    except ReplayError as error:
        return {**glance, "healthy": False, "reachable": False, "attention": [str(error)]}
    attention = [] if store.shared else [NOT_SHARED]
    if overview.leader is None:
        attention.append(NO_LEADER)
    return {
        **glance,
        "healthy": not attention,
        "reachable": True,
        "attention": attention,
        "schema_version": SCHEMA_VERSION,
        "open_letters": overview.open_letters,
        "parked": overview.parked,
        "counted_up_to": overview.bound,
        "parked_since": fields.moment(overview.parked_since),
        "parked_for": fields.between(overview.parked_since, overview.now),
        "leader": overview.leader,
        "leads_until": fields.moment(overview.leads_until),
    }


def _print(glance: fields.Fields) -> None:
    shown = {"store": glance["store"], "reachable": glance["reachable"]}
    if glance["reachable"]:
        oldest = f", the oldest for {cell(glance['parked_for'])}" if glance["parked"] else ""
        shown |= {
            "schema version": glance["schema_version"],
            "open letters": _count(glance, "open_letters"),
            "parked": _count(glance, "parked") + oldest,
            "leader": glance["leader"] or "none",
        }
    shown["message lease"] = glance["message_lease"]
    print_record(shown)
    for sentence in glance["attention"]:
        click.echo(f"! {printable(redact_text(sentence))}")


def _count(glance: fields.Fields, name: str) -> str:
    return f"{glance[name]}{'+' if glance[name] == glance['counted_up_to'] else ''}"
