"""Before a replay: what would be sent, and what would not, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import dead_letters
from ..parking import JSON
from ..records import Letter, evolve
from ..runtime import Runtime
from ..states import Effect, LetterState, Word
from . import message as messages
from .binding import Binding, compare
from .evidence import evidence_of


class Hindrance(Word):
    """Why a letter is left out; stable, to be searched for."""

    STATE = "state"
    """It is pending, quarantined, resolved or discarded."""
    PAYLOAD = "payload"
    """Its message was not kept, or what has to be taken off it can't be."""
    UNREGISTERED = "unregistered"
    """Its task is not known here."""
    SIGNATURE = "signature"
    """Its payload would mean something else today, or nothing."""
    EFFECT_UNKNOWN = "effect_unknown"
    """Nobody knows whether its side effects happened, and nobody said that this is acceptable."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One letter of a plan."""

    letter: Letter
    effect: Effect
    hindrance: Hindrance | None = None
    said: str = ""
    """The reason why it is left out, for people."""
    binding: Binding | None = None
    needs_acceptance: bool = False
    """Its effects are of unknown certainty, and no hook or marker will be asked first."""
    notes: tuple[str, ...] = ()
    """What somebody should know before it is sent."""

    @property
    def ready(self) -> bool:
        """Would it be sent?"""
        return self.hindrance is None


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a replay may do beyond its default, which can do no harm that is known."""

    with_canvas: bool = False
    """Send callbacks, errbacks and the rest of the chain on, too."""
    include_unknown: bool = False
    """Also those of whose effects nobody knows whether they happened."""


_STATES = {
    LetterState.REPLAY_PENDING: "it is being replayed already",
    LetterState.QUARANTINED: "it is quarantined; open it again first",
    LetterState.RESOLVED: "it is resolved",
    LetterState.DISCARDED: "it is discarded; open it again first",
}


def preview(runtime: Runtime, letters: Iterable[Letter], options: Options = Options()) -> list[Item]:
    """Look at each letter as if it were replayed. Nothing is sent or changed."""
    return [_looked_at(runtime, letter, options) for letter in letters]


def _looked_at(runtime: Runtime, letter: Letter, options: Options) -> Item:
    evidence = evidence_of(runtime.store, letter)
    risky = not evidence.safe
    item = Item(letter=letter, effect=evidence.effect, needs_acceptance=risky, notes=())
    if letter.state in _STATES:
        return evolve(item, hindrance=Hindrance.STATE, said=_STATES[letter.state])
    try:
        item = _fitted(runtime, item, options)
    except messages.PayloadUnreadable as error:
        return evolve(item, hindrance=Hindrance.PAYLOAD, said=error.message)
    if item.ready and risky and not options.include_unknown:
        return evolve(item, hindrance=Hindrance.EFFECT_UNKNOWN, said=evidence.safe_because)
    return item


def _fitted(runtime: Runtime, item: Item, options: Options) -> Item:
    letter = item.letter
    task = runtime.app.tasks.get(letter.operation)
    if task is None:
        return evolve(
            item, hindrance=Hindrance.UNREGISTERED, said=f"task {letter.operation} is not registered here; deploy it"
        )
    sent = letter.edited or letter.message
    kept = messages.unpack_message(sent)
    if kept.get("content_type") != JSON:
        return evolve(item, notes=("its payload is not JSON: whether it still fits is not checked",))
    payload = messages.read(sent)
    binding = compare(
        dead_letters.declared(sent).get("parameters") if letter.edited is None else None,
        runtime.policy(task),
        payload.args,
        payload.kwargs,
    )
    item = evolve(item, binding=binding, notes=tuple(_canvas_notes(kept["headers"], payload.canvas, options)))
    return evolve(item, hindrance=Hindrance.SIGNATURE, said=binding.problem) if binding.problem else item


def _canvas_notes(fields: Mapping[str, Any], canvas: Mapping[str, Any], options: Options) -> Iterable[str]:
    if canvas.get("chord") or fields.get("group"):
        yield "it was a part of a group or chord, which its replay can't bring back: that counted the failure"
    rest = [name for name in ("callbacks", "errbacks", "chain") if canvas.get(name)]
    if rest and options.with_canvas:
        yield f"sends on: {', '.join(rest)}"
    elif rest:
        yield f"without its {', '.join(rest)}, unless that is asked for: what waited for it may have gone on"
