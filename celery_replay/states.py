"""The field's words as enums: the same in code, store, command line, admin and docs."""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """An enum whose members are the plain words that are stored and shown."""

    def __str__(self) -> str:
        return str(self.value)


class Outcome(Word):
    """Where a job's current delivery stands, and how an attempt ended."""

    OPEN = "open"
    """Admitted and not closed: an attempt is running, or its owner died."""
    SUCCEEDED = "succeeded"
    DEDUPLICATED = "deduplicated"
    """Another submission with the same key had succeeded: its result was returned."""
    STALE_IGNORED = "stale_ignored"
    FAILED = "failed"
    FAILED_VALIDATION = "failed_validation"
    ROLLED_BACK = "rolled_back"
    """The body returned normally, but its database transaction had been rolled back."""
    REVOKED = "revoked"
    EXPIRED = "expired"
    IGNORED = "ignored"
    """The body raised Ignore."""
    SUPERSEDED = "superseded"
    """The body replaced itself by another task, which carries the same submission on."""
    RETRY_SCHEDULED = "retry_scheduled"
    REQUEUED = "requeued"
    """The body raised Reject(requeue=True): the broker brings the same delivery again."""
    INTERRUPTED = "interrupted"
    """The process was told to stop in the middle of the body."""
    LOST = "lost"
    """The owner died, and no other delivery came in time."""
    UNKNOWN = "unknown"
    """The owner died with a side effect of which nobody knows whether it happened."""
    REFUSED = "refused"
    """Only of an attempt: it had lost its ownership when it wanted to close."""

    @property
    def ended(self) -> bool:
        """Is the submission over, save for its canvas?"""
        return self in _ENDED

    @property
    def over(self) -> bool:
        """May the record be forgotten after its retention? Ended, or lost and triaged."""
        return self.ended or self is Outcome.LOST

    @property
    def failing(self) -> bool:
        """Does the canvas have to be told of a failure?"""
        return self in _FAILING

    @property
    def handed_over(self) -> bool:
        """Does a later delivery of the same submission carry on?"""
        return self in (Outcome.RETRY_SCHEDULED, Outcome.SUPERSEDED)


_FAILING = frozenset({Outcome.FAILED, Outcome.FAILED_VALIDATION, Outcome.ROLLED_BACK, Outcome.REVOKED, Outcome.EXPIRED})
_ENDED = _FAILING | {Outcome.SUCCEEDED, Outcome.DEDUPLICATED, Outcome.STALE_IGNORED, Outcome.IGNORED}


class Verdict(Word):
    """What OPEN answers to a delivery."""

    RUN = "run"
    IGNORE = "ignore"
    """Somebody else has moved, or surely will move, the canvas of this submission."""
    PARKED = "parked"
    FIRST_RESULT = "first_result"
    RAISE_AGAIN = "raise_again"
    """The job had failed, and its canvas was never told: its recorded failure is raised again."""
    REFUSED = "refused"
    """A final refusal, which ends the job through the tracer: poison, conflict, unsettled effect, expired."""


class RowStatus(Word):
    """The stations of a row of the parking lot."""

    PARKED = "parked"
    RELEASED = "released"
    """What it waited for is over; it may be published, any number of times."""
    SENT = "sent"
    TAKEN = "taken"
    """Admitted by OPEN; the row stays until the submission is settled."""


class AckMode(Word):
    """Whether the broker brings a delivery again after its worker died."""

    EARLY = "early"
    LATE = "late"
    LATE_ACKS_LOSS = "late_acks_loss"
    """Late acknowledgement, but Celery acknowledges when a pool child is lost (its default)."""


class OnIncomplete(Word):
    """What to do where an earlier attempt died with its side effect unsettled."""

    RESUME = "resume"
    VERIFY = "verify"
    DEAD_LETTER = "dead_letter"


class Replays(Word):
    """What a task says about replays of its dead letters, the strictest last."""

    SAFE = "safe"
    """It may run again, whatever an earlier run did."""
    CONFIRM = "confirm"
    """Somebody has to accept it where nobody knows what an earlier run did."""
    NEVER = "never"
    """Only one by one, by somebody who overrides this rule."""

    @classmethod
    def strictest(cls, *said: object) -> Replays:
        """Return the strictest of some rules; a task that says nothing, or something unknown, is asked about."""
        rules = list(cls)
        return max((cls(word) if word in rules else cls.CONFIRM for word in said), key=rules.index)


class StepState(Word):
    """The state of a side-effect step's record."""

    CLAIMED = "claimed"
    SETTLED = "settled"


class LetterState(Word):
    """The triage state of a dead letter."""

    OPEN = "open"
    INVESTIGATING = "investigating"
    """Somebody looks into it."""
    QUARANTINED = "quarantined"
    """Not to be replayed until somebody opens it again."""
    REPLAY_PENDING = "replay_pending"
    """A replay was sent, or is about to be, and has not ended."""
    RESOLVED = "resolved"
    """It ended well after all: `resolved_how` says how."""
    DISCARDED = "discarded"
    """Somebody decided that nothing is to be done."""

    @property
    def unresolved(self) -> bool:
        """Does it still wait for a decision, or for the success of one?"""
        return self not in (LetterState.RESOLVED, LetterState.DISCARDED)


class Effect(Word):
    """What is known of a failed job's side effects."""

    ABSENT = "absent"
    """None happened: the body never began, or no step of it, or its transaction was rolled back."""
    PROVEN = "proven"
    """Some were recorded as done."""
    UNKNOWN = "unknown"
    """The task declares no steps, or it was cut off within one."""


class Verb(Word):
    """What was done to a dead letter, to its group or to a parked job; by a person, unless noted."""

    INVESTIGATED = "investigated"
    QUARANTINED = "quarantined"
    REOPENED = "reopened"
    ASSIGNED = "assigned"
    NOTED = "noted"
    EDITED = "edited"
    DISCARDED = "discarded"
    REPLAYED = "replayed"
    STOPPED = "stopped"
    """A replay that had not been sent was called off."""
    REVEALED = "revealed"
    """A payload was looked at unredacted."""
    FREED = "freed"
    """A parked job was sent before its time."""
    ERASED = "erased"
    RESOLVED = "resolved"
    """By itself: the job or its replay succeeded."""
    FAILED_AGAIN = "failed_again"
    """By itself: the replay failed."""


class Reason(Word):
    """Why a job was refused, parked or dead-lettered; stable, to be searched for."""

    ALREADY_PARKED = "already_parked"
    NEWER_DELIVERY = "newer_delivery"
    CANVAS_ADVANCED = "canvas_advanced"
    CANVAS_IN_PROGRESS = "canvas_in_progress"
    CANVAS_LAPSED = "canvas_lapsed"
    KEY_DONE = "key_done"
    IN_FLIGHT = "in_flight"
    RETRY_PENDING = "retry_pending"
    OWNERSHIP_LOST = "ownership_lost"
    REPLAY = "replay"
    """A replay that is to be sent, when its turn comes."""
    STORE_DOWN = "store_down"
    KEY_CONFLICT = "key_conflict"
    KEY_FAILED = "key_failed"
    POISON = "poison"
    EXPIRED = "expired"
    EFFECT_UNSETTLED = "effect_unsettled"
    EXCEPTION = "exception"
    REJECTED = "rejected"
    ROLLED_BACK = "rolled_back"
    REVOKED = "revoked"
    HARD_TIME_LIMIT = "hard_time_limit"
    WORKER_LOST = "worker_lost"
    INTERRUPTED = "interrupted"
    RETRY_NEVER_CAME = "retry_never_came"
    RESULT_LOST = "result_lost"


class Category(Word):
    """Failure categories."""

    TRANSIENT = "transient"
    THROTTLED = "throttled"
    DEPENDENCY = "dependency"
    CONCURRENCY = "concurrency"
    VALIDATION = "validation"
    PERMANENT = "permanent"
    POISON = "poison"
    UNKNOWN_OUTCOME = "unknown_outcome"
    UNCLASSIFIED = "unclassified"
