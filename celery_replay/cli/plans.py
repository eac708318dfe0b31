"""How a plan of replays is shown: what would be sent, what not and why, before anything is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from ..replay.plan import Hindrance, Item
from . import fields
from .output import print_rows, print_section, printable, to_json

READY = "ready"
LEFT_OUT = "left_out"
FEW = 20
"""So many are shown one by one."""
_KINDS = ("verdict", "hindrance", "task", "route", "effect", "said")
_EFFECTS = ("letters", "side_effect", "certainty", "because")
_ITEMS = ("id", "verdict", "task", "effect", "replays", "edited", "route")
_HINTS = {
    Hindrance.EFFECT_UNKNOWN: "{n} left out whose effects nobody knows: look at them, then give --include-unknown {n}",
    Hindrance.EFFECT_NOT_ALLOWED: "{n} left out for side effects that are not on the list: --allow them, too",
    Hindrance.NEVER: "{n} left out by their task's own word: one by one, with --override-never",
    Hindrance.SIGNATURE: "{n} left out that today's code would take for something else: mend them with dlq edit",
}


def shown(item: Item) -> fields.Fields:
    """Show one letter of a plan."""
    letter, binding = item.letter, item.binding
    return {
        "id": letter.submission,
        "task": letter.operation,
        "verdict": READY if item.ready else LEFT_OUT,
        "hindrance": item.hindrance,
        "said": item.said,
        "effect": item.effect,
        "effects": [
            {"name": effect.name, "certainty": effect.certainty, "because": effect.because} for effect in item.effects
        ],
        "rule": item.rule,
        "route": item.route,
        "edited": letter.edited is not None,
        "replays": letter.replays,
        "notes": item.notes,
        "binding": {"was": binding.was, "now": binding.now} if binding else None,
        "operation": None,
        "task_id": None,
    }


def told(item: Item) -> str:
    """Say in a sentence what would become of a letter."""
    if item.ready:
        return f"{READY}, to be sent to {item.route}"
    return f"{LEFT_OUT} ({item.hindrance}): {item.said}"


def show(items: Sequence[Item], *, as_json: bool) -> None:
    """Show a plan: how many of each kind, and one by one where they are few."""
    rows = [shown(item) for item in items]
    if as_json:
        for row in rows:
            click.echo(to_json(row))
        return
    kinds = Counter(tuple(str(row[name] or "") for name in _KINDS) for row in rows)
    counted = [{"letters": count, **dict(zip(_KINDS, kind, strict=True))} for kind, count in kinds.most_common()]
    print_rows(counted, ("letters", *_KINDS), as_json=False)
    if 1 < len(rows) <= FEW:
        click.echo()
        print_rows(rows, _ITEMS, as_json=False)
    effects = Counter(effect for item in items for effect in item.effects)
    told = [
        {"letters": n, "side_effect": e.name, "certainty": e.certainty, "because": e.because}
        for e, n in effects.most_common()
    ]
    print_section("side effects", told, _EFFECTS)
    notes = Counter(note for item in items for note in item.notes)
    hindrances = Counter(item.hindrance for item in items)
    for line in (
        *(f"of {count}: {printable(note)}" for note, count in notes.most_common()),
        *(hint.format(n=hindrances[kind]) for kind, hint in _HINTS.items() if hindrances[kind]),
    ):
        click.echo(f"! {line}")
