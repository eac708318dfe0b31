"""Operations: the replay of many dead letters. When the next may be sent, what stops it, what people decide. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

from .clock import SECOND, Micros, micros
from .exceptions import TriageRefused
from .records import Operation, Portion, evolve
from .serialization import canonical_json, pack, unpack
from .states import OperationState, Verb

PORTION = 200
"""How many letters of an operation are kept in one record."""
AT_ONCE = 100
"""How many replays of an operation may be under way, where nobody says otherwise."""
SHARE = 0.5
OF_LAST = 20
"""It stops itself where more than this share of so many has failed again, where nobody says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """How an operation is sent, and what stops it."""

    rate: float | None = None
    """Replays that are sent per second."""
    at_once: int = AT_ONCE
    """So many may be under way: sent, and not ended."""
    canary: int = 0
    """So many go first; the rest only if all of these end well."""
    stop_after: int | None = None
    """It stops itself once so many have failed again."""
    stop_above: float = SHARE
    """It stops itself once more than this share of the last ones has failed again."""
    of_last: int = OF_LAST
    """How many the last ones are."""
    with_canvas: bool = False
    """Callbacks, errbacks and the rest of a chain are sent on, too."""
    allow: tuple[str, ...] | None = None
    """The side effects that may be done; None where nobody made a list."""

    def told(self) -> str:
        """Return what differs from the defaults, as JSON."""
        defaults = asdict(Conditions())
        return canonical_json({name: value for name, value in asdict(self).items() if value != defaults[name]})


def conditions(operation: Operation) -> Conditions:
    """Read an operation's conditions; those of a newer version are left out."""
    told: Mapping[str, object] = json.loads(operation.options)
    known = {field.name for field in fields(Conditions)}
    found = {name: value for name, value in told.items() if name in known}
    allow = found.get("allow")
    if isinstance(allow, list):
        found["allow"] = tuple(map(str, allow))
    return Conditions(**found)  # type: ignore[arg-type]


def portions(operation_id: str, letters: Iterable[object]) -> list[Portion]:
    """Freeze what is known of each letter."""
    known = list(letters)
    return [
        Portion(operation_id=operation_id, number=start // PORTION, body=pack(known[start : start + PORTION]))
        for start in range(0, len(known), PORTION)
    ]


def letters_of(portion: Portion) -> list[dict[str, object]]:
    """Return what was frozen of each letter of a portion."""
    found: list[dict[str, object]] = unpack(portion.body)
    return found


def pending(operation: Operation) -> dict[str, str]:
    """Return the replays that have not ended, by their letters."""
    return dict(json.loads(operation.pending))


def due(operation: Operation, now: Micros) -> int:
    """Say how many letters may be sent now."""
    if operation.state is not OperationState.RUNNING:
        return 0
    wanted = conditions(operation)
    most = min(wanted.at_once - len(pending(operation)), operation.total - operation.position)
    if wanted.canary and not operation.proven:
        most = min(most, wanted.canary - operation.tried)
    if wanted.rate:
        late = min(now - operation.due_at, SECOND)
        most = min(most, 0 if late < 0 else 1 + int(late * wanted.rate / SECOND))
    return max(most, 0)


def sent(operation: Operation, letter: str, replay: str, now: Micros) -> Operation:
    """Count one that was sent. What was missed of a rate is made up for a second of it."""
    rate = conditions(operation).rate
    due_at = max(operation.due_at, now - SECOND) + micros(1 / rate) if rate else operation.due_at
    return evolve(
        operation,
        position=operation.position + 1,
        sent=operation.sent + 1,
        tried=operation.tried + 1,
        pending=_listed({**pending(operation), letter: replay}),
        due_at=due_at,
    )


def left_out(operation: Operation) -> Operation:
    """Count one that was not sent."""
    return evolve(operation, position=operation.position + 1, left_out=operation.left_out + 1)


def ended(operation: Operation, letter: str, *, well: bool | None) -> Operation:
    """Count the end of one that was sent.

    Args:
        well: None where nothing can be said of it.
    """
    waiting = pending(operation)
    waiting.pop(letter, None)
    counted = {True: "resolved", False: "failed", None: "gone"}[well]
    recent = operation.recent if well is None else f"{operation.recent}{'g' if well else 'b'}"
    return evolve(
        operation,
        **{counted: getattr(operation, counted) + 1},
        bad=operation.bad + (well is not True),
        recent=recent[-conditions(operation).of_last :],
        pending=_listed(waiting),
    )


def judged(operation: Operation) -> Operation:
    """Say whether it goes on, stops itself, or has come to its end."""
    if operation.state not in (OperationState.RUNNING, OperationState.PAUSED):
        return operation
    if operation.position >= operation.total:
        over = operation.pending == "[]"
        return evolve(operation, state=OperationState.FINISHED, said="") if over else operation
    wanted = conditions(operation)
    trying = bool(wanted.canary) and not operation.proven
    why = _canary(operation) if trying else _too_bad(operation, wanted)
    if why:
        return evolve(operation, state=OperationState.STOPPED, said=why)
    proven = trying and operation.tried >= wanted.canary and operation.pending == "[]"
    return evolve(operation, proven=True) if proven else operation


def _canary(operation: Operation) -> str:
    return f"of the first {operation.tried}, {operation.bad} did not end well" if operation.bad else ""


def _too_bad(operation: Operation, wanted: Conditions) -> str:
    if wanted.stop_after is not None and operation.bad >= wanted.stop_after:
        return f"{operation.bad} did not end well"
    bad = operation.recent.count("b")
    if len(operation.recent) >= wanted.of_last and bad > wanted.stop_above * wanted.of_last:
        return f"of the last {wanted.of_last}, {bad} failed again"
    return ""


_DECISIONS: Mapping[Verb, tuple[tuple[OperationState, ...], OperationState]] = {
    Verb.PAUSED: ((OperationState.RUNNING,), OperationState.PAUSED),
    Verb.RESUMED: ((OperationState.PAUSED, OperationState.STOPPED), OperationState.RUNNING),
    Verb.ABORTED: (
        (OperationState.RUNNING, OperationState.PAUSED, OperationState.STOPPED), OperationState.ABORTED,
    ),
}  # fmt: skip
"""From which states each decision can be taken, and to which state it leads."""


def allows(state: OperationState, verb: Verb) -> bool:
    """Can this be decided about an operation in this state?"""
    return state in _DECISIONS[verb][0]


def decide(operation: Operation, verb: Verb, text: str, now: Micros) -> Operation:
    """Apply what somebody decides.

    Raises:
        TriageRefused: its state does not allow it.
    """
    allowed, state = _DECISIONS[verb]
    if operation.state not in allowed:
        raise TriageRefused(f"operation {operation.operation_id} is {operation.state}, not {' or '.join(allowed)}")
    after = evolve(operation, state=state, said=text)
    if operation.state is OperationState.STOPPED and verb is Verb.RESUMED:
        # Whoever lets it go on has seen what stopped it: that does not count twice.
        after = evolve(after, tried=0, bad=0, recent="")
    # What was not sent while it was held is not made up for.
    return evolve(after, due_at=max(after.due_at, now)) if verb is Verb.RESUMED else after


def _listed(waiting: Mapping[str, str]) -> str:
    return json.dumps([*waiting.items()], separators=(",", ":"))
