"""A real replay: decided, recorded and put on its way in one step, under a new task id with its lineage."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .. import headers, parking
from ..clock import SECOND, Micros, new_id, wall
from ..dead_letters import Decision
from ..exceptions import TriageRefused
from ..headers import Stamp
from ..records import Letter, Row
from ..runtime import Runtime
from ..serialization import canonical_json
from ..states import Replays, Verb
from . import message as messages
from .plan import Item, Options


@dataclass(frozen=True, kw_only=True)
class Order:
    """Who wants a replay, and why."""

    actor: str
    reason: str
    rate: float | None = None
    """Replays that are sent per second; all at once where none is given."""
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What became of one item."""

    item: Item
    task_id: str = ""
    """The replay's, where it was sent or will be."""
    submission: str = ""
    said: str = ""
    """Why it was not sent."""

    @property
    def ok(self) -> bool:
        """Was it sent, or will it be?"""
        return bool(self.task_id)


def send(runtime: Runtime, items: Sequence[Item], order: Order, operation_id: str) -> Iterator[Sent]:
    """Replay the items that are ready, one by one; what is decided is sent, whoever dies meanwhile.

    Args:
        items: from `preview`: the set is what it was then. A letter that changed since is left out.
        operation_id: by which these replays are found again.
    """
    begin = runtime.store.now() if order.rate else None
    due = 0
    reachable = True
    for item in items:
        if not item.ready:
            yield Sent(item=item, said=item.said)
            continue
        at = begin + int(due * SECOND / order.rate) if begin is not None and order.rate and due else None
        due += 1
        sent, row = _begun(runtime, item, order, operation_id, at)
        if row is not None and at is None and reachable:
            # A broker that does not answer is waited for once; what it did not take is sent by the steward.
            reachable = parking.dispatch(runtime.app, runtime.store, [row], runtime.resend_us) == 1
        yield sent


def _begun(runtime: Runtime, item: Item, order: Order, operation_id: str, at: Micros | None) -> tuple[Sent, Row | None]:
    letter, task_id = item.letter, str(uuid.uuid4())
    stamp = _stamp(runtime, letter, accepts_unknown=item.risky)
    try:
        message = messages.compose(letter.to_send, stamp, task_id, with_canvas=order.options.with_canvas)
        decision = Decision(
            verb=Verb.REPLAYED,
            actor=order.actor,
            text=order.reason,
            replay=stamp.submission,
            operation_id=operation_id,
            revision=letter.revision,
            details=canonical_json(_details(item, order, task_id, stamp.submission)),
        )
        row = runtime.store.begin_replay(letter.submission, decision, message, at)
    except (TriageRefused, messages.PayloadUnreadable) as refusal:
        return Sent(item=item, said=refusal.message), None
    return Sent(item=item, task_id=task_id, submission=stamp.submission), row


def _details(item: Item, order: Order, task_id: str, replay: str) -> dict[str, object]:
    return {
        "task_id": task_id,
        "replay": replay,
        "effect": str(item.effect),
        "accepts_unknown": item.needs_acceptance,
        "overrides_never": item.rule is Replays.NEVER,
        "edited": item.letter.edited is not None,
        "with_canvas": order.options.with_canvas,
    }


def _stamp(runtime: Runtime, letter: Letter, *, accepts_unknown: bool) -> Stamp:
    """Carry key and payload's fingerprint on; those of a mended payload are made anew."""
    fields = messages.unpack_message(letter.message)["headers"]
    was = headers.identify(letter.operation, fields)
    key, fingerprint = was.key, was.fingerprint
    if letter.edited is not None:
        payload = messages.read(letter.edited)
        key, fingerprint = runtime.policy(runtime.app.tasks[letter.operation]).identify(payload.args, payload.kwargs)
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
        accepts_unknown=1 if accepts_unknown else None,
    )
