"""What the store keeps. Frozen records; all times are microseconds by the store's clock unless said otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .clock import Micros
from .serialization import digest
from .states import (
    AckMode,
    Category,
    Effect,
    LeaseEnd,
    LetterState,
    OperationState,
    Outcome,
    Reason,
    RowStatus,
    StepState,
    Verb,
)

R = TypeVar("R")

_new, _set = object.__new__, object.__setattr__

ERASED = "[erased]"
"""Stands where a person's data was."""


def evolve(record: R, **changes: Any) -> R:
    """Copy a frozen record with some fields changed.

    As `dataclasses.replace`, which runs the constructor and so costs ten times as much on records of forty fields.
    """
    return filled(record, changes)


def filled(record: R, values: Mapping[str, Any]) -> R:
    """Copy a frozen record with many fields changed: as `evolve`, but each of them is handed on only once."""
    fields = record.__dict__
    changed = {**fields, **values}
    assert len(changed) == len(fields), f"{type(record).__name__} has no {values.keys() - fields.keys()}"
    copy = _new(type(record))
    _set(copy, "__dict__", changed)
    return copy


def form(record: R) -> R:
    """Return a record that is to be copied for many others: one from `evolve` takes a third of the time.

    Of one that comes from its constructor Python copies field by field.
    """
    return evolve(record)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One submission: one publish by a user's code, kept over retries, parking and redelivery."""

    submission: str
    operation: str
    """The task's name."""
    task_id: str
    trace_id: str
    correlation_id: str
    causation_id: str | None = None
    """The submission in whose body or canvas this one was published."""
    key: str = ""
    """The idempotency key as text, to be searched for."""
    claim: str | None = None
    """Digest of operation and key, held by one submission at a time: the unique constraint.

    A replay of a job without a key claims that job: its submission stands here.
    """
    fingerprint: str | None = None
    generation: int = 0
    """Orders the deliveries of a submission: `retries`, after any number of `replace`."""
    status: Outcome = Outcome.OPEN
    nonce: str = ""
    """Names the current attempt; minted in the process that runs it."""
    fence: int = 0
    """Token that rises with every attempt of this key (or submission), never reused."""
    lease_until: Micros | None = None
    reserved_until: Micros | None = None
    """Until when the key waits for the retry that was scheduled."""
    canvas_advanced: bool = False
    """Callbacks, chain and chord part have been sent on, once and for all."""
    canvas_until: Micros | None = None
    """Until when the attempt that closed may still be sending the canvas on."""
    unsettled: bool = False
    """A side effect was written ahead, and its end is not known."""
    attempts: int = 0
    """How often the body was admitted."""
    strikes: int = 0
    """Attempts in a row that died without closing."""
    waiters: bool = False
    """Somebody is parked behind this job."""
    letter: bool = False
    """A dead letter of this submission is open."""
    ack: AckMode = AckMode.EARLY
    redelivery_us: Micros = 0
    """How long after the lease's end the broker may still bring the message again."""
    message: bytes | None = None
    """The whole message while the job has not ended, as soon as it is known that a letter may need it.

    OPEN keeps it where nobody else has it any more. Else the broker has it, or the worker's parent, which spools it
    before it acknowledges a lost child's message; the first renewal adds it.
    """
    canvas_unknown: bool = False
    """The attempt closed well and then went silent: nobody knows whether its canvas was sent on."""
    result: str | None = None
    """The return value as JSON."""
    result_lost: bool = False
    """The job succeeded, but its return value is not JSON."""
    failure: str | None = None
    """The recorded failure as JSON: type, message, reason."""
    origin: str | None = None
    """For a deduplicated job: the submission whose result it returned."""
    original: str | None = None
    """For a replay: the submission whose dead letter it is about."""
    worker: str = ""
    pid: int = 0
    published_at: Micros | None = None
    """By the publisher's clock."""
    started_at: Micros = 0
    closed_at: Micros | None = None
    keep_until: Micros | None = None
    """When the record may be forgotten: the end of its idempotency window."""

    @property
    def identity(self) -> str:
        """Name what others wait for: the key, or the submission where no key is declared."""
        return self.claim or self.submission

    @property
    def patience_us(self) -> Micros:
        """How long the broker may need to bring a delivery again."""
        return 0 if self.ack is AckMode.EARLY else self.redelivery_us

    @property
    def reap_at(self) -> Micros | None:
        """When no message can bring this job back any more, if nothing more is heard of it."""
        if self.status.handed_over:
            return None if self.reserved_until is None else self.reserved_until + self.redelivery_us
        if self.status.ended:
            return None if self.canvas_until is None else self.canvas_until + self.patience_us
        if self.status is Outcome.REQUEUED:
            # It was put on its way again, however it is acknowledged.
            return None if self.closed_at is None else self.closed_at + self.redelivery_us
        if self.status in (Outcome.OPEN, Outcome.INTERRUPTED):
            silent_since = self.lease_until if self.lease_until is not None else self.closed_at
            return None if silent_since is None else silent_since + self.patience_us
        return None


LEASE = "lease:"
"""Stands before the name of a resource that is waited for."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A delivery in the parking lot; at most one per submission."""

    submission: str
    operation: str
    generation: int
    status: RowStatus = RowStatus.PARKED
    revision: int = 0
    """Rises when the row is parked or released, so that a late mark can't hit the next round."""
    subject: str
    """The identity that it waits for."""
    reason: Reason
    wake_at: Micros
    """When the steward looks at it again."""
    parked_at: Micros
    message: bytes
    """The whole message, ready to be published again."""
    releases: int = 0
    """How often it was freed since it was parked: again where nobody took it, and then it holds up nobody any more."""
    requeues: int = 0
    """How often in a row the message was given back, by the body or by an attempt that was lost."""
    contended_since: Micros | None = None
    """When it first found a resource leased: its place in line, which it keeps until it runs."""

    @property
    def resource(self) -> str:
        """The resource that it waits for, where that is what it waits for."""
        return self.subject.removeprefix(LEASE) if self.reason is Reason.LEASE_HELD else ""

    @property
    def in_line(self) -> bool:
        """Does it wait for a lease? One that did not come when it was called does not keep others waiting."""
        waits = self.reason is Reason.LEASE_HELD and self.status is not RowStatus.TAKEN
        return waits and (self.status is RowStatus.PARKED or self.releases <= 1)


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The lease on a resource, one of all tasks that name it; kept past its end, so that its fence never goes back."""

    resource: str
    fence: int = 0
    """The newest token that was granted."""
    nonce: str = ""
    """The attempt that holds it; empty where nobody does. What follows is then about its last holder."""
    submission: str = ""
    operation: str = ""
    trace_id: str = ""
    worker: str = ""
    pid: int = 0
    acquired_at: Micros = 0
    until: Micros | None = None
    """When it lapses, unless it is renewed."""
    grants: int = 0
    """How often it was taken."""
    waiters: bool = False
    """Somebody may stand in its line."""
    keep_until: Micros = 0
    """When it may be forgotten, if nobody takes it before."""

    @property
    def subject(self) -> str:
        """Name what a row waits for."""
        return f"{LEASE}{self.resource}"


HOLDINGS = 20
"""How many former holders of a resource are remembered."""


@dataclass(frozen=True, kw_only=True)
class Holding:
    """A lease that ended. The newest few of each resource are kept."""

    resource: str
    grant: int
    """Its number among all leases of the resource."""
    fence: int
    nonce: str
    submission: str
    operation: str
    trace_id: str
    worker: str
    pid: int
    acquired_at: Micros
    ended_at: Micros
    end: LeaseEnd

    @property
    def holding_id(self) -> str:
        """Name one of the resource's few places, so that a new one takes that of the oldest."""
        return f"{digest(self.resource)}:{self.grant % HOLDINGS}"


@dataclass(frozen=True, kw_only=True)
class Waiter:
    """A parked job's place in the line of a resource."""

    resource: str
    submission: str
    since: Micros

    @property
    def waiter_id(self) -> str:
        """Digest of both: a job stands in a line once."""
        return digest(self.resource, self.submission)


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A dead letter: a job that needs a human decision. One per submission; its replays update the same letter."""

    submission: str
    operation: str
    task_id: str
    trace_id: str
    correlation_id: str
    key: str = ""
    generation: int = 0
    state: LetterState = LetterState.OPEN
    reason: Reason
    category: Category = Category.UNCLASSIFIED
    error_type: str = ""
    error_message: str = ""
    traceback: str = ""
    group_id: str = ""
    """Digest of what it has in common with others of the same cause."""
    frames: str = ""
    """The functions of the project's own code that the error came through, outermost first, one a line."""
    effect: Effect = Effect.UNKNOWN
    """Whether its side effects happened, as far as was known when it was filed."""
    attempts: int = 1
    first_seen: Micros
    last_failed: Micros
    resolved_how: str = ""
    assignee: str = ""
    worker: str = ""
    code_version: str = ""
    message: bytes = b""
    """The original message."""
    edited: bytes | None = None
    """The message with a mended payload, which a replay sends instead."""
    replay: str = ""
    """The submission of the newest replay, begun or not."""
    operation_id: str = ""
    """The command that this replay was a part of."""
    replays: int = 0
    revision: int = 0
    """Rises with every change: two who decide at once can't both succeed."""

    @property
    def to_send(self) -> bytes:
        """What a replay sends: the message with its mended payload, else the original."""
        return self.edited or self.message


@dataclass(frozen=True, kw_only=True)
class Group:
    """Dead letters with one cause; counted as they are written, so that nobody has to count them."""

    group_id: str
    operation: str
    reason: Reason
    error_type: str = ""
    frames: str = ""
    """As of its letters."""
    error_message: str = ""
    """That of the newest letter."""
    newest: str = ""
    """The submission of the newest letter."""
    filed: int = 0
    """How many letters were ever filed."""
    unresolved: int = 0
    """How many of them still wait for a decision or its success."""
    first_seen: Micros = 0
    last_seen: Micros = 0


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """Who did what, or what became of it by itself. Never changed; erased only with the job's data."""

    entry_id: str
    at: Micros
    verb: Verb
    actor: str = ""
    """Who did it; empty where nobody did."""
    submission: str = ""
    group_id: str = ""
    operation_id: str = ""
    text: str = ""
    """The reason that was given, a note, or what happened."""
    details: str = "{}"
    """What was changed, as JSON, without payloads; what a dry run came to, redacted."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The replay of many dead letters, sent by whichever steward leads; which ones is frozen when it begins."""

    operation_id: str
    actor: str
    reason: str
    state: OperationState = OperationState.RUNNING
    said: str = ""
    """Why it stands so, where that is not plain."""
    options: str = "{}"
    """How it is sent and what stops it, as JSON: `operations.Conditions`."""
    began_at: Micros = 0
    changed_at: Micros = 0
    total: int
    """How many letters are frozen."""
    position: int = 0
    """How many of them it has come to."""
    sent: int = 0
    left_out: int = 0
    resolved: int = 0
    failed: int = 0
    """Replays that failed again."""
    gone: int = 0
    """Replays of which nothing can be said: their letter was deleted, or is about another one."""
    tried: int = 0
    """How many were sent since it began, or was let go on after it had stopped itself."""
    bad: int = 0
    """How many of those failed again, or are gone."""
    proven: bool = False
    """Have those that go first ended well?"""
    recent: str = ""
    """How the last replays ended, one letter each: g, or b for those that failed again."""
    pending: str = "[]"
    """Replays that have not ended, as JSON: pairs of the letter's submission and the replay's."""
    due_at: Micros = 0
    """When the next one may be sent."""
    keep_us: Micros = 0
    """How long it is kept once it is over."""
    revision: int = 0
    """Rises with every change: two who change it at once can't both succeed."""

    @property
    def keep_until(self) -> Micros | None:
        """When it may be forgotten; None while something is still to come."""
        return self.changed_at + self.keep_us if self.state.over and not self.active else None

    @property
    def active(self) -> bool:
        """Has a steward something to do for it?"""
        return self.state is OperationState.RUNNING or self.pending != "[]"


@dataclass(frozen=True, kw_only=True)
class Portion:
    """Some of an operation's letters, as they were when it began. Never changed."""

    operation_id: str
    number: int
    body: bytes
    """Packed: a list of what is known of each letter."""

    @property
    def portion_id(self) -> str:
        """Name it by operation and number."""
        return f"{self.operation_id}:{self.number}"


@dataclass(frozen=True, kw_only=True)
class AttemptRecord:
    """How one execution ended. Written when it ends: while it runs, the job's record has its data."""

    nonce: str
    submission: str
    trace_id: str
    operation: str
    generation: int
    outcome: Outcome
    fence: int
    worker: str
    pid: int
    started_at: Micros
    ended_at: Micros
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """A side-effect step, by its key; it outlives the attempt that claimed it."""

    scope: str
    """Identity of the job that it belongs to."""
    key: str
    name: str
    state: StepState
    nonce: str
    output: str | None = None
    claimed_at: Micros = 0

    @property
    def step_id(self) -> str:
        """Digest of scope and key: a user's keys may be longer than an index takes, and may have been erased."""
        kept = self.key.removeprefix(ERASED)
        return kept if kept != self.key else digest(self.scope, self.key)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A run of one attempt's events, as they were flushed together."""

    trace_id: str
    nonce: str
    first: int
    """Sequence number of the first event."""
    count: int
    body: bytes
    blobs: tuple[tuple[str, bytes], ...] = ()
    """Values too large for an event, under the references that its events keep."""
    recorded_at: Micros = 0

    @property
    def chunk_id(self) -> str:
        """Nonce and sequence number of the first event."""
        return f"{self.nonce}:{self.first}"


@dataclass(frozen=True, kw_only=True)
class Placed:
    """An object outside of the store that has a large value, or had one."""

    name: str
    reference: str
    """The value's; what the store has under it may name another object by now."""
    look_at: Micros
    """When it is looked at, whether anything refers to it."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What is kept of an exception: text only, so it never has to be importable or to unpickle."""

    type: str
    message: str
    traceback: str = ""
    category: Category = Category.UNCLASSIFIED
    reason: Reason = Reason.EXCEPTION
    frames: tuple[str, ...] = ()
    """The functions of the project's own code that it came through, outermost first."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One entry of a trace."""

    name: str
    at: Micros
    """By the clock of the process that recorded it."""
    sequence: int = 0
    domain: bool = False
    """Recorded by the task's own code, as opposed to the life cycle."""
    trace_id: str = ""
    job_id: str = ""
    attempt: str = ""
    step: str | None = None
    worker_id: str = ""
    idempotency_key: str = ""
    fence: int | None = None
    resource_version: str | None = None
    input_ref: str | None = None
    output_ref: str | None = None
    side_effect: bool = False
    status: str = "success"
    """success, fail, skipped or compensated."""
    attributes: dict[str, Any] = field(default_factory=dict)
