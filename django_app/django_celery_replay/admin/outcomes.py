"""What is kept of a dry run, as parts that a template draws. A body may have lied about anything in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.text import capfirst

from celery_replay.dry_run.comparison import Ends
from celery_replay.dry_run.verdicts import REFUSED
from celery_replay.records import HistoryEntry
from celery_replay.states import Outcome

from .display import NONE, badge, label, shown, told, word
from .histories import details_of
from .permissions import PAYLOAD

_TONES = {
    Ends.WELL: ("good", "✓"),
    Ends.SAME: ("bad", "✗"),
    Ends.OTHERWISE: ("bad", "✗"),
    Ends.RETRIES: ("waits", "↻"),
    Ends.DIVERGES: ("waits", "?"),
    Ends.BLOCKED: ("bad", "‖"),
    Ends.DIED: ("bad", "✗"),
    REFUSED: ("waits", "↷"),
}
_TITLES = {
    "unlike_it": "Unlike the real database",
    "not_recorded": "Asked of tables without recorded rows",
    "mail": "Mail, not sent",
}
"""Of what took the place of the framework's own things."""
_STATES = (
    ("state", "What it would change", ("Before", "After")),
    ("state_differs", "What it would leave otherwise than the original did", ("Then", "Now")),
)


def verdict(ends: str) -> object:
    """Return how one ended, in its colour."""
    return label(*_TONES.get(ends, ("quiet", "·")), word(ends))


def ends_of(entry: HistoryEntry) -> str:
    """Return how the dry run ended that an entry tells of."""
    return str(details_of(entry).get("ends", ""))


def outcome(entry: HistoryEntry, *, payload: bool) -> dict[str, object]:
    """Return what a page shows of a dry run.

    Args:
        payload: may the reader see values?
    """
    kept = details_of(entry)
    return {
        "verdict": verdict(ends_of(entry)),
        "said": told(entry.text),
        "sandbox": told(_text(kept.get("sandbox"))),
        "code": shown(_text(kept.get("code")), 100),
        "ran": "steps" in kept,
        "facts": list(_facts(kept)),
        "sides": [_side(kept.get(side)) for side in ("then", "now")],
        "steps": list(_steps(kept)),
        "states": list(_states(kept)) if payload else [],
        "texts": list(_texts(kept)) if payload else [],
        "hidden": "" if payload else PAYLOAD,
    }


def _side(found: Any) -> dict[str, object]:
    side = found if isinstance(found, dict) else {}
    failure = side.get("failure") if isinstance(side.get("failure"), dict) else None
    name = _text(side.get("outcome"))
    return {
        "badge": badge(Outcome.known_or_newer(name)) if name else "no end",
        "failure": told(": ".join(filter(None, (_text(failure.get("type")), _text(failure.get("message"))))))
        if failure
        else "",
    }


def _steps(kept: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    first = True
    for step in _list(kept.get("steps")):
        if isinstance(step, dict):
            same = step.get("same") is True
            then, now = (told(_text(step.get(side))) or "nothing" for side in ("then", "now"))
            yield {"then": then, "now": now, "same": same, "first": first and not same}
            first = first and same
        else:
            yield {"then": told(_text(step)), "now": "", "same": True, "first": False}


def _states(kept: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str], list[dict[str, str]]]]:
    for name, title, sides in _STATES:
        rows = [row for row in _list(kept.get(name)) if isinstance(row, dict)]
        # Where the original changed nothing they are the same.
        if rows and (name == "state" or rows != kept.get("state")):
            yield title, sides, [_row(row) for row in rows]


def _row(row: Mapping[str, Any]) -> dict[str, str]:
    record = " ".join(_text(row.get(name)) for name in ("state", "record"))
    values = {side: told(_text(row.get(side, NONE))) for side in ("before", "after")}
    return {"record": told(record), "field": told(_text(row.get("field"))), **values}


def _facts(kept: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield what would have left the process, and what was not as it had been."""
    blocked = Counter(_attempt(one) for one in _list(kept.get("blocked")))
    for attempt, count in blocked.most_common(20):
        yield "Refused", f"{attempt}{f', {count} times' if count > 1 else ''}"
    for name, title in (
        ("published", "Would publish"),
        ("left_running", "Left running: nobody knows what it would have done"),
        ("unlike", "Unlike then"),
    ):
        if found := _list(kept.get(name)):
            yield title, told(", ".join(map(_text, found)))
    yield from _otherwise(kept)
    if kept.get("began_as_then") is False:
        yield (
            "State",
            "It began with another one than was recorded: does state= declare all rows that the task reads?",
        )
    if kept.get("cut"):
        yield "Cut", "It had more to tell than is kept; `celery replay run … --mode dry-run` shows all of it."
    surroundings = kept.get("surroundings")
    for name, said in surroundings.items() if isinstance(surroundings, dict) else ():
        if said:
            yield _TITLES.get(name) or shown(name.replace("_", " ").capitalize(), 80), told(_text(said))


def _otherwise(kept: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield what was otherwise beside steps and rows, where the state was compared, and what was followed."""
    for name in ("key", "leases", "cache", "effects"):
        both = kept.get(name)
        if isinstance(both, dict) and both.get("same") is False:
            then, now = (", ".join(map(_text, _list(both.get(side)))) or "none" for side in ("then", "now"))
            yield capfirst(name), told(f"then {then}; now {now}")
    at = kept.get("at")
    if isinstance(at, dict):
        reached = "the state differs from" if at.get("differs") else "the state is as recorded at"
        compared = f"{reached} {_text(at.get('compared'))}" if at.get("differs") is not None else "no state to compare"
        yield "Live from", told(f"{_text(at.get('name'))}: {compared if at.get('reached') else 'never reached'}")
    for one in _list(kept.get("followed")):
        if isinstance(one, dict):
            ended = _text(one.get("not_followed") or one.get("outcome") or "no end")
            yield "Followed", told(f"{_text(one.get('task'))}: {ended}")


def _attempt(one: Any) -> str:
    if not isinstance(one, dict):
        return told(_text(one))
    what = " ".join(filter(None, (_text(one.get("what")), _text(one.get("detail")))))
    step = _text(one.get("step"))
    return told(f"{what}{f' in step {step}' if step else ''}")


def _texts(kept: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    now, output = kept.get("now"), kept.get("output")
    result = now.get("result") if isinstance(now, dict) else None
    if result is not None:
        yield "What it would return", told(_text(result), 4_000)
    for name, title in (("stdout", "What it printed"), ("stderr", "What it printed to standard error")):
        if isinstance(output, dict) and (text := _text(output.get(name))):
            yield title, told(text, 4_000)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
