"""What a simulated world is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from celery_replay.clock import SECOND
from celery_replay.states import AckMode, OnIncomplete, Outcome
from tests.conformance.outside import Guard

LEASE = 60 * SECOND
CANVAS = 30 * SECOND
REDELIVERY = 300 * SECOND
RESERVE = 120 * SECOND
RESEND = 90 * SECOND
KEEP = 30 * 86_400 * SECOND
OUTCOMES = {
    "ok": Outcome.SUCCEEDED,
    "fail": Outcome.FAILED,
    "retry": Outcome.RETRY_SCHEDULED,
    "replace": Outcome.SUPERSEDED,
    "interrupt": Outcome.INTERRUPTED,
    "requeue": Outcome.REQUEUED,
}
"""How a body may end, in the words of the scenarios."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One task, its submissions, and the habits of the processes that run it."""

    submissions: int = 1
    keyed: bool = True
    """The submissions share one idempotency key."""
    guard: Guard = Guard.FENCED
    incomplete: OnIncomplete = OnIncomplete.VERIFY
    ack: AckMode = AckMode.LATE
    counts_by_id: bool = True
    whole: bool = False
    """The body is one side-effect step, claimed in OPEN and settled in CLOSE."""
    canvas: bool = True
    """The request has a callback and a chord."""
    workers: int = 2
    retries: int = 1
    poison_cap: int = 5
    refuse_failed: bool = False
    replays: int = 0
    """How often an operator may replay each dead letter."""
    accepts: bool = False
    """The operator accepts that an effect of which nobody knows may happen again."""
    resources: tuple[tuple[str, ...], ...] = ((),)
    """What each submission names, in turn."""
    backs_off: bool = False
    """They look again after a while, in place of standing in line."""
    bad_habits: frozenset[str] = field(default_factory=frozenset)
    """Rules that the process around the store does not keep: see `rules_off`."""

    @property
    def claim(self) -> str | None:
        return "key" if self.keyed else None
