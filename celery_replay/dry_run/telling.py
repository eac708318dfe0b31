"""What is told of a dry run, as data: all of it for whoever waits, and less of it to be kept with its letter."""

from __future__ import annotations

import json
from typing import Any

from .. import dead_letters
from ..redaction import redact, redact_text, secrets_in
from ..serialization import safe_text
from .engine import DryRun
from .moments import Both, Pair

Data = dict[str, Any]

LIMIT = 16_000
"""Characters of JSON that are kept of one."""
CUT = "…[cut]"
_STATES = ("state", "state_then", "state_differs", "began_as_then", "moments", "at")
_PORTIONS = ((100, 1_000), (40, 300), (15, 120))
"""How many items of a list and characters of a text are kept: less where there is too much of it."""


def told_of(ran: DryRun, mode: str) -> Data:
    """Return all that is known. Nothing of it is redacted, but for what steps gave."""
    comparison, found = ran.comparison, ran.found or {}
    return {
        "mode": mode,
        "original": ran.recording.job.submission,
        "task": ran.recording.job.operation,
        "arguments": ran.recording.told or None,
        "sandbox": ran.sandbox,
        "ends": str(comparison.ends),
        "said": comparison.said,
        "then": {"outcome": comparison.outcome_then, "failure": comparison.failure_then},
        "now": {"outcome": comparison.outcome, "failure": comparison.failure, "result": found.get("result")},
        "parts_at": comparison.parts_at,
        "steps": [_paired(pair) for pair in comparison.pairs],
        **{name: _both(getattr(comparison, name)) for name in ("key", "leases", "cache", "effects")},
        "cache_unknown": found.get("cache_unknown"),
        "blocked": [{"what": one.what, "detail": one.detail, "step": one.step} for one in ran.report.blocked],
        **{name: found.get(name) for name in _STATES},
        "published": found.get("published"),
        "followed": found.get("followed"),
        "left_running": found.get("left_running"),
        "unlike": found.get("unlike"),
        "surroundings": found.get("surroundings"),
        "output": {"stdout": ran.report.stdout.text, "stderr": ran.report.stderr.text},
    }


def kept_of(ran: DryRun, mode: str, *, values: bool = True) -> Data:
    """Return what is kept of one: without secrets, and cut where it is too much.

    Args:
        values: False for a task that lets no values into its trace: what came out is kept, and not with what.
    """
    payload = ran.recording.payload
    names = dead_letters.positions(ran.recording.message)
    known = secrets_in(dict(zip(names, payload.args, strict=False)), payload.kwargs)
    told = told_of(ran, mode)
    told["output"] = {name: text[-_PORTIONS[0][1] :] for name, text in told["output"].items()}
    told = told if values else _without_values(told)
    # Each by itself: of too many values the rest is left out.
    return _bounded({name: redact(value, known=known) for name, value in told.items()})


def _without_values(told: Data) -> Data:
    kept = ("mode", "original", "task", "sandbox", "ends", "parts_at", "published", "began_as_then")
    sides = {side: {"outcome": told[side]["outcome"], "failure": _type_of(told[side])} for side in ("then", "now")}
    steps = [
        {"then": _name_of(each["then"]), "now": _name_of(each["now"]), "same": each["same"], "differs": each["differs"]}
        for each in told["steps"]
    ]
    return {**{name: told[name] for name in kept}, **sides, "said": told["ends"].replace("_", " "), "steps": steps}


def _type_of(side: Data) -> Data | None:
    return {"type": side["failure"]["type"], "message": ""} if side["failure"] else None


def _name_of(moment: str | None) -> str | None:
    return None if moment is None else moment.partition(" (")[0]


def _bounded(told: Data) -> Data:
    for items, characters in _PORTIONS:
        cut: Data = _cut(told, items, characters)
        if len(json.dumps(cut)) <= LIMIT:
            return cut
    least = {name: safe_text(told[name], 400) for name in ("mode", "original", "task", "sandbox", "ends", "said")}
    sides = {side: {"outcome": told[side]["outcome"], "failure": None} for side in ("then", "now")}
    return {**least, **sides, "steps": [], "cut": True}


def _cut(value: Any, items: int, characters: int) -> Any:
    if isinstance(value, str):
        return safe_text(value, characters)
    if isinstance(value, list):
        some = [_cut(item, items, characters) for item in value[:items]]
        return [*some, CUT] if len(value) > items else some
    if isinstance(value, dict):
        # What we name ourselves is never so much.
        pairs = {safe_text(key, characters): _cut(value[key], items, characters) for key in [*value][:items]}
        return {**pairs, CUT: CUT} if len(value) > items else pairs
    # Whole numbers have no limit of their own.
    return safe_text(value, characters) if isinstance(value, int) and abs(value) > 10**characters else value


def _paired(pair: Pair) -> Data:
    """Return a pair, with what it gave where that is known."""
    outputs = {name: one.output for name, one in (("then", pair.then), ("now", pair.now)) if one is not None}
    told = {"then": _said(pair.then), "now": _said(pair.now), "same": pair.same, "differs": list(pair.differs)}
    return {**told, "outputs": {name: redact_text(text) for name, text in outputs.items() if text is not None}}


def _both(both: Both) -> Data:
    return {"then": list(both.then), "now": list(both.now), "same": both.same}


def _said(moment: object) -> str | None:
    return None if moment is None else str(moment)
