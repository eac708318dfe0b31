"""A real replay: decided, recorded and put on its way in one step, under a new task id with its lineage."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .. import headers, parking
from ..clock import new_id, wall
from ..dead_letters import Decision
from ..exceptions import TriageRefused
from ..headers import BODY, Stamp
from ..records import Letter, Row
from ..runtime import Runtime
from ..serialization import canonical_json
from ..states import Replays, Verb
from . import message as messages
from .plan import ALL, Item, Options


@dataclass(frozen=True, kw_only=True)
class Order:
    """Who wants a replay, and why."""

    actor: str
    reason: str
    with_canvas: bool = False
    """Send callbacks, errbacks and the rest of the chain on, too."""
    operation_id: str = ""
    """By which these replays are found again."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A letter as somebody has looked at it: what has to be known to send it, without the code of its task."""

    letter: str
    """Its submission."""
    revision: int
    effect: str
    doubtful: bool = False
    """A side effect may happen twice."""
    accepted: bool = False
    """Somebody had to accept that, and did."""
    overrides_never: bool = False
    edited: bool = False
    key: str | None = None
    fingerprint: str | None = None
    """Of a mended payload: key and fingerprint as today's code makes them."""
    allows: tuple[str, ...] | None = None
    """The side effects that may be done; None where all may."""

    @classmethod
    def of(cls, frozen: Mapping[str, Any]) -> Chosen:
        """Read what an operation has frozen; what a newer version added is left out."""
        known = {name: frozen[name] for name in cls.__dataclass_fields__ if name in frozen}
        allows = known.get("allows")
        return cls(**{**known, "allows": None if allows is None else tuple(allows)})

    def frozen(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A replay that was decided."""

    task_id: str
    submission: str
    row: Row
    """Its message, where the dispatcher finds it."""


def choose(runtime: Runtime, item: Item, options: Options) -> Chosen:
    """Freeze a letter that is ready."""
    letter, key, fingerprint = item.letter, None, None
    if letter.edited is not None:
        payload = messages.read(letter.edited)
        key, fingerprint = runtime.policy(runtime.app.tasks[letter.operation]).identify(payload.args, payload.kwargs)
    return Chosen(
        letter=letter.submission,
        revision=letter.revision,
        effect=str(item.effect),
        doubtful=bool(item.doubtful),
        accepted=item.needs_acceptance,
        overrides_never=item.rule is Replays.NEVER,
        edited=letter.edited is not None,
        key=key or None,
        fingerprint=fingerprint,
        allows=_list(item, options),
    )


def _list(item: Item, options: Options) -> tuple[str, ...] | None:
    """Return what a replay may do: a body that is known to have done nothing by itself needs no place on the list."""
    if options.allow is None or ALL in options.allow or item.rule is Replays.SAFE:
        return None
    own = () if any(effect.name == BODY for effect in item.doubtful) else (BODY,)
    return tuple(dict.fromkeys((*options.allow, *own)))


def begin(runtime: Runtime, chosen: Chosen, order: Order) -> Begun:
    """Decide a replay, and put its message where the dispatcher finds it; who sends it may die.

    Raises:
        TriageRefused: the letter changed since it was chosen, or is being replayed already.
        PayloadUnreadable: what has to be taken off its message can't be.
    """
    letter = runtime.store.letter(chosen.letter)
    if letter is None:
        raise TriageRefused(f"job {chosen.letter} has no dead letter any more")
    task_id, stamp = str(uuid.uuid4()), _stamp(letter, chosen)
    message = messages.compose(letter.to_send, stamp, task_id, with_canvas=order.with_canvas)
    decision = Decision(
        verb=Verb.REPLAYED,
        actor=order.actor,
        text=order.reason,
        replay=stamp.submission,
        operation_id=order.operation_id,
        revision=chosen.revision,
        details=canonical_json(_details(chosen, order, task_id, stamp.submission)),
    )
    row = runtime.store.begin_replay(chosen.letter, decision, message)
    return Begun(task_id=task_id, submission=stamp.submission, row=row)


def send(runtime: Runtime, chosen: Chosen, order: Order) -> Begun:
    """Decide a replay and publish it; where the broker does not answer, the steward does that later.

    Raises:
        TriageRefused, PayloadUnreadable: as `begin` does.
    """
    begun = begin(runtime, chosen, order)
    parking.dispatch(runtime.app, runtime.store, [begun.row], runtime.resend_us)
    return begun


def _details(chosen: Chosen, order: Order, task_id: str, replay: str) -> dict[str, object]:
    told: dict[str, object] = {
        "task_id": task_id,
        "replay": replay,
        "effect": chosen.effect,
        "accepts_unknown": chosen.accepted,
        "overrides_never": chosen.overrides_never,
        "edited": chosen.edited,
        "with_canvas": order.with_canvas,
    }
    return told if chosen.allows is None else {**told, "allows": chosen.allows}


def _stamp(letter: Letter, chosen: Chosen) -> Stamp:
    """Carry key and payload's fingerprint on; those of a mended payload are made anew."""
    was = headers.identify(letter.operation, messages.unpack_message(letter.message)["headers"])
    key, fingerprint = (chosen.key, chosen.fingerprint) if chosen.edited else (was.key, was.fingerprint)
    submission = new_id()
    return Stamp(
        submission=submission,
        trace_id=submission,
        correlation_id=was.correlation_id,
        causation_id=letter.submission,
        first_request_at=was.first_request_at,
        published_at=wall(),
        key=key or None,
        fingerprint=fingerprint,
        operation=was.operation,
        original=letter.submission,
        accepts_unknown=1 if chosen.doubtful else None,
        allows=chosen.allows,
    )
