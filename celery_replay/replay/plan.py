"""Before a replay: what would be sent, and what would not, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import chord_bodies, dead_letters
from ..chord_bodies import RESULTS
from ..policy import TaskPolicy
from ..records import Letter, Operation, evolve
from ..runtime import Runtime
from ..serialization import JSON
from ..states import Effect, LetterState, OnIncomplete, Replays, Verb, Word
from . import message as messages
from .binding import Binding, compare
from .effects import SideEffect, Today, effects_of
from .evidence import Evidence, gather
from .operations import awaited_in


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
    """A side effect may happen twice, and nobody said that this is acceptable."""
    EFFECT_NOT_ALLOWED = "effect_not_allowed"
    """A side effect may happen twice that is not on the list of those that may be done."""
    OPERATION = "operation"
    """It is among the letters that an operation has still to send."""


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
    effects: tuple[SideEffect, ...] = ()
    """What a replay would do to each of its side effects that began, or may have."""
    rule: Replays = Replays.CONFIRM
    """What its task says: the stricter word of today's code and of the code that failed."""
    notes: tuple[str, ...] = ()
    """What somebody should know before it is sent."""

    @property
    def ready(self) -> bool:
        """Would it be sent?"""
        return self.hindrance is None

    @property
    def doubtful(self) -> list[SideEffect]:
        """Return the side effects that may happen twice."""
        return [effect for effect in self.effects if effect.doubtful]

    @property
    def needs_acceptance(self) -> bool:
        """Does somebody have to say that a side effect may happen twice?"""
        return bool(self.doubtful) and self.rule is not Replays.SAFE


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a replay may do beyond its default, which can do no harm that is known."""

    with_canvas: bool = False
    """Send callbacks, errbacks and the rest of the chain on, too."""
    include_unknown: bool = False
    """Also those of whose effects nobody knows whether they happened."""
    override_never: bool = False
    """Also one whose task says never; it has to be the only one."""
    allow: tuple[str, ...] | None = None
    """The side effects that may be done, by their names; `ALL` for any. None where nobody made a list."""

    def allows(self, name: str) -> bool:
        """Is a side effect on the list?"""
        return self.allow is not None and (name in self.allow or ALL in self.allow)


ALL = "all"
"""Stands on a list for every side effect."""


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
    awaited = awaited_in(runtime.store)
    items = [_looked_at(runtime, letter, known, options) for letter, known in zip(chosen, found, strict=True)]
    items = [_if_free(item, awaited.get(item.letter.submission)) for item in items]
    return accept_unknown(items) if options.include_unknown else items


def accept_unknown(items: Iterable[Item]) -> list[Item]:
    """Include those of whose effects nobody knows whether they happened."""
    return [
        evolve(item, hindrance=None, said="") if item.hindrance is Hindrance.EFFECT_UNKNOWN else item for item in items
    ]


def _looked_at(runtime: Runtime, letter: Letter, evidence: Evidence, options: Options) -> Item:
    effects = effects_of(letter, evidence.job, evidence.steps, _today(runtime, letter))
    item = Item(letter=letter, effect=evidence.effect, effects=tuple(effects), rule=_rule(runtime, letter))
    if not dead_letters.allows(letter.state, Verb.REPLAYED):
        said = _STATES.get(letter.state, f"it is {letter.state}, a state of a newer version")
        return evolve(item, hindrance=Hindrance.STATE, said=said)
    try:
        item = _fitted(runtime, item, options)
    except messages.PayloadUnreadable as error:
        return evolve(item, hindrance=Hindrance.PAYLOAD, said=error.message)
    if item.ready and item.rule is Replays.NEVER and not options.override_never:
        return evolve(item, hindrance=Hindrance.NEVER, said='its task declares replay="never"')
    return _accepted(item, options) if item.ready and item.needs_acceptance else item


def _accepted(item: Item, options: Options) -> Item:
    lacking = [effect for effect in item.doubtful if not options.allows(effect.name)]
    if not lacking:
        return item
    if options.allow is None:
        return evolve(item, hindrance=Hindrance.EFFECT_UNKNOWN, said=lacking[0].because)
    names = ", ".join(dict.fromkeys(effect.name for effect in lacking))
    return evolve(item, hindrance=Hindrance.EFFECT_NOT_ALLOWED, said=f"not on the list: {names}; {lacking[0].because}")


def _if_free(item: Item, operation: Operation | None) -> Item:
    """Leave out what somebody else has chosen before, and not sent yet."""
    if operation is None or not item.ready:
        return item
    said = f"it waits in operation {operation.operation_id} of {operation.actor}"
    return evolve(item, hindrance=Hindrance.OPERATION, said=said)


def _today(runtime: Runtime, letter: Letter) -> Today:
    task = runtime.app.tasks.get(letter.operation)
    if task is None:
        return Today()
    policy = runtime.policy(task)
    resumes = policy.on_incomplete is OnIncomplete.RESUME
    if letter.edited is None:
        return Today(resumes=resumes)
    try:
        payload = messages.read(letter.edited)
        key, _ = policy.identify(payload.args, payload.kwargs)
    except Exception:  # the user's own key function, or a payload that is none: the look at the payload says so
        return Today(resumes=resumes, other_key=True)
    return Today(resumes=resumes, other_key=bool(key or letter.key) and key != letter.key)


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
