"""Before a replay: what would be sent, and what would not, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import chord_bodies, dead_letters
from ..chord_bodies import RESULTS
from ..policy import TaskPolicy
from ..records import Letter, evolve
from ..runtime import Runtime
from ..serialization import JSON
from ..states import Effect, LetterState, Replays, Verb, Word
from . import message as messages
from .binding import Binding, compare
from .evidence import Evidence, gather


class Hindrance(Word):
    """Why a letter is left out; stable, to be searched for."""

    STATE = "state"
    """It is pending, quarantined, resolved or discarded."""
    PAYLOAD = "payload"
    """Its message was not kept, or what has to be taken off it can't be."""
    UNREGISTERED = "unregistered"
    """Its task is not known here."""
    RESULTS = "results"
    """It is the body of a chord that failed: what the members returned has to be put into its payload first."""
    SIGNATURE = "signature"
    """Its payload would mean something else today, or nothing."""
    CHANGED = "changed"
    """Something happened to it since somebody looked at it."""
    NEVER = "never"
    """Its task declares `replay="never"`, or did when it failed."""
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
    route: str = ""
    """Where it would be sent, as its original was: exchange and routing key."""
    binding: Binding | None = None
    risky: bool = False
    """Its effects are of unknown certainty, and no hook or marker will be asked first."""
    rule: Replays = Replays.CONFIRM
    """What its task says: the stricter word of today's code and of the code that failed."""
    notes: tuple[str, ...] = ()
    """What somebody should know before it is sent."""

    @property
    def ready(self) -> bool:
        """Would it be sent?"""
        return self.hindrance is None

    @property
    def needs_acceptance(self) -> bool:
        """Does somebody have to say that a side effect may happen twice?"""
        return self.risky and self.rule is not Replays.SAFE


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a replay may do beyond its default, which can do no harm that is known."""

    with_canvas: bool = False
    """Send callbacks, errbacks and the rest of the chain on, too."""
    include_unknown: bool = False
    """Also those of whose effects nobody knows whether they happened."""
    override_never: bool = False
    """Also one whose task says never; it has to be the only one."""


_STATES = {
    LetterState.REPLAY_PENDING: "it is being replayed already",
    LetterState.QUARANTINED: "it is quarantined; open it again first",
    LetterState.RESOLVED: "it is resolved",
    LetterState.DISCARDED: "it is discarded; open it again first",
}


def preview(runtime: Runtime, letters: Iterable[Letter], options: Options = Options()) -> list[Item]:
    """Look at each letter as if it were replayed. Nothing is sent or changed."""
    chosen = list(letters)
    if options.override_never and len(chosen) != 1:
        # Whoever overrides the rule has looked at this one.
        options = evolve(options, override_never=False)
    found = gather(runtime.store, chosen)
    items = [_looked_at(runtime, letter, known, options) for letter, known in zip(chosen, found, strict=True)]
    return accept_unknown(items) if options.include_unknown else items


def accept_unknown(items: Iterable[Item]) -> list[Item]:
    """Include those of whose effects nobody knows whether they happened."""
    return [
        evolve(item, hindrance=None, said="") if item.hindrance is Hindrance.EFFECT_UNKNOWN else item for item in items
    ]


def _looked_at(runtime: Runtime, letter: Letter, evidence: Evidence, options: Options) -> Item:
    item = Item(letter=letter, effect=evidence.effect, risky=not evidence.safe, rule=_rule(runtime, letter))
    if not dead_letters.allows(letter.state, Verb.REPLAYED):
        said = _STATES.get(letter.state, f"it is {letter.state}, a state of a newer version")
        return evolve(item, hindrance=Hindrance.STATE, said=said)
    try:
        item = _fitted(runtime, item, options)
    except messages.PayloadUnreadable as error:
        return evolve(item, hindrance=Hindrance.PAYLOAD, said=error.message)
    if item.ready and item.rule is Replays.NEVER and not options.override_never:
        return evolve(item, hindrance=Hindrance.NEVER, said='its task declares replay="never"')
    if item.ready and item.needs_acceptance:
        return evolve(item, hindrance=Hindrance.EFFECT_UNKNOWN, said=evidence.safe_because)
    return item


def _rule(runtime: Runtime, letter: Letter) -> Replays:
    """Ask the code that failed and today's: what the one did is not undone by what the other says, nor the reverse."""
    task = runtime.app.tasks.get(letter.operation)
    today = runtime.policy(task).replay if task is not None else None
    return Replays.strictest(dead_letters.declared(letter.message).get("replay"), today)


def _fitted(runtime: Runtime, item: Item, options: Options) -> Item:
    letter = item.letter
    sent = letter.to_send
    kept = messages.unpack_message(sent)
    item = evolve(item, route=" ".join(filter(None, (kept["exchange"], kept["routing_key"]))) or "by the routes")
    task = runtime.app.tasks.get(letter.operation)
    if task is None:
        return evolve(
            item, hindrance=Hindrance.UNREGISTERED, said=f"task {letter.operation} is not registered here; deploy it"
        )
    if kept.get("content_type") != JSON:
        return evolve(item, notes=("its payload is not JSON: whether it still fits is not checked",))
    payload = messages.read(sent)
    binding = compare(
        dead_letters.declared(sent).get("parameters") if letter.edited is None else None,
        runtime.policy(task),
        payload.args,
        payload.kwargs,
    )
    notes = (*_canvas_notes(letter, kept["headers"], payload.canvas, options), *_rule_notes(runtime.policy(task), item))
    item = evolve(item, binding=binding, notes=notes)
    if RESULTS in (*payload.args, *payload.kwargs.values()):
        return evolve(item, hindrance=Hindrance.RESULTS, said=_RESULTS_LACK)
    return evolve(item, hindrance=Hindrance.SIGNATURE, said=binding.problem) if binding.problem else item


_RESULTS_LACK = f"its chord failed, so it has no results to work on: mend its payload, where {RESULTS!r} stands"


def _rule_notes(policy: TaskPolicy, item: Item) -> Iterable[str]:
    if item.needs_acceptance and policy.replay is None:
        yield 'its task does not say whether it may run twice: declare replay="safe", "confirm" or "never"'


def _canvas_notes(
    letter: Letter, fields: Mapping[str, Any], canvas: Mapping[str, Any], options: Options
) -> Iterable[str]:
    if canvas.get("chord") or fields.get("group"):
        yield "it was a part of a group or chord, which its replay can't bring back: that counted the failure"
    for body in chord_bodies.of(letter.message):
        yield f"the body of its chord has a letter of its own, to be replayed when this is done: {body.submission}"
    rest = [name for name in ("callbacks", "errbacks", "chain") if canvas.get(name)]
    if rest and options.with_canvas:
        yield f"sends on: {', '.join(rest)}"
    elif rest:
        yield f"without its {', '.join(rest)}, unless that is asked for: what waited for it may have gone on"
