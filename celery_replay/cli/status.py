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
    "parked_since", "parked_for", "leader", "leads_until", "grants_paused_since", "grants_paused_until",
    "journal_waiting", "journal_waiting_for", "message_lease",
)  # fmt: skip
NO_LEADER = "no steward leads: nothing releases parked jobs or files lost ones; is a worker running?"
PAUSED = (
    "the store may have lost what it knew: until {until} jobs that take resources wait; see what a Redis loses in "
    "docs/explanation/guarantees.md"
)
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
        troubles = [*store.troubles()]
        backlog = store.backlog()
        overview = store.overview()
    except ReplayError as error:
        return {**glance, "healthy": False, "reachable": False, "attention": [str(error)]}
    attention = [] if store.shared else [NOT_SHARED]
    if overview.leader is None:
        attention.append(NO_LEADER)
    attention += troubles
    if backlog is not None:
        glance["journal_waiting"] = backlog.count
        glance["journal_waiting_for"] = fields.between(overview.now - backlog.age_us, overview.now)
    paused = overview.paused
    since, until = (fields.moment(paused.since), fields.moment(paused.until)) if paused else (None, None)
    if until is not None:
        attention.append(PAUSED.format(until=until))
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
        "grants_paused_since": since,
        "grants_paused_until": until,
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
        if glance["grants_paused_until"]:
            shown["grants paused"] = f"{glance['grants_paused_since']} to {glance['grants_paused_until']}"
    if glance["journal_waiting"] is not None:
        oldest = f", the oldest for {cell(glance['journal_waiting_for'])}" if glance["journal_waiting"] else ""
        shown["waiting for the journal"] = f"{glance['journal_waiting']}{oldest}"
    shown["message lease"] = glance["message_lease"]
    print_record(shown)
    for sentence in glance["attention"]:
        click.echo(f"! {printable(redact_text(sentence))}")


def _count(glance: fields.Fields, name: str) -> str:
    return f"{glance[name]}{'+' if glance[name] == glance['counted_up_to'] else ''}"
