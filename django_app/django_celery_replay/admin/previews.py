"""What a replay would do, letter by letter, as lines that a template draws."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from celery_replay.redaction import redact
from celery_replay.replay.binding import Binding
from celery_replay.replay.plan import Hindrance, Item

from ..models import DeadLetter
from ..text import token
from .display import NONE, badge, label, shown, told, word

_ABSENT = object()
_EFFECTS = 50
"""Kinds of side effects that are shown."""


def totals(items: Sequence[Item]) -> list[tuple[object, int]]:
    """Count what would be sent and what would not, and the effects of what may be sent."""
    verdicts = Counter(item.hindrance for item in items)
    effects = Counter(item.effect for item in items if item.hindrance in (None, Hindrance.EFFECT_UNKNOWN))
    counted: list[tuple[object, int]] = [(verdict(kind), count) for kind, count in verdicts.most_common()]
    return [*counted, *((effect(kind), count) for kind, count in effects.most_common())]


def effects(items: Iterable[Item]) -> Iterator[tuple[int, str, SafeString, str]]:
    """Count what becomes of side effects: how many, the step, how certain that is, and why."""
    found = Counter(effect for item in items for effect in item.effects)
    for known, count in found.most_common(_EFFECTS):
        yield count, shown(known.name, 100), badge(known.certainty), told(known.because)


def verdict(hindrance: Hindrance | None) -> SafeString:
    """Say whether a letter would be sent."""
    if hindrance is None:
        return label("good", "✓", "is sent")
    if hindrance is Hindrance.EFFECT_UNKNOWN:
        return label("waits", "?", "only if accepted")
    return label("bad", "✗", f"left out: {word(hindrance)}")


def effect(value: Any) -> SafeString:
    """Say what is known of a letter's side effects."""
    return format_html("effect {}", badge(value))


def lines(model_admin: Any, items: Iterable[Item], *, payload: bool) -> Iterator[dict[str, object]]:
    """Tell of each letter whether it would be sent, and why not.

    Args:
        payload: may the reader see arguments?
    """
    for item in items:
        letter = item.letter
        name = f"{shown(letter.operation, 80)} {shown(letter.key or letter.submission, 60)}"
        yield {
            "verdict": verdict(item.hindrance),
            "letter": model_admin.link(DeadLetter, token(letter.submission), name),
            "effect": badge(item.effect),
            "effects": [(shown(known.name, 100), badge(known.certainty)) for known in item.effects],
            "route": shown(item.route, 200),
            "said": told(item.said),
            "notes": [told(note) for note in item.notes],
            "mended": letter.edited is not None,
            "binding": list(_values(item.binding)) if payload and item.binding and item.binding.problem else (),
        }


def _values(binding: Binding) -> Iterator[tuple[str, str, str, bool]]:
    """Show each parameter's value by the code that failed and by today's, and whether they differ."""
    was, now = binding.was or {}, binding.now or {}
    for name in dict.fromkeys([*was, *now]):
        then, today = was.get(name, _ABSENT), now.get(name, _ABSENT)
        yield shown(name, 80), _value(name, then), _value(name, today), then != today


def _value(name: str, value: Any) -> str:
    if value is _ABSENT:
        return NONE
    return shown(json.dumps(redact(value, name), ensure_ascii=False, default=shown), 300)
