"""The field's words as enums: the same in code, store, command line, admin and docs."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

W = TypeVar("W", bound="Word")


class Word(str, Enum):
    """An enum whose members are the plain words that are stored and shown."""

    # A text's own: an enum's are written in Python, and each attempt asks for them dozens of times.
    __hash__ = str.__hash__
    __str__ = str.__str__

    @classmethod
    def known_or_newer(cls: type[W], text: str) -> W:
        """Return the member with this text; for a word of a newer version one that is like none of them.

        For showing only: no rule knows what such a word means.
        """
        known: W | None = cls._value2member_map_.get(text)  # type: ignore[assignment]
        if known is not None:
            return known
        newer = str.__new__(cls, text)
        newer._name_ = newer._value_ = text
        return newer


class Outcome(Word):
    """Where a job's current delivery stands, and how an attempt ended."""

    OPEN = "open"
    """Admitted and not closed: an attempt is running, or its owner died."""
    SUCCEEDED = "succeeded"
    """The body returned, and that was recorded."""
    DEDUPLICATED = "deduplicated"
    """Another submission with the same key had succeeded: its result was returned."""
    STALE_IGNORED = "stale_ignored"
    """It was about an older version than the one that was applied. No rule of this version gives it."""
    FAILED = "failed"
    """The body raised, or the job was refused for good."""
    FAILED_VALIDATION = "failed_validation"
    """The body returned, but a post-condition does not hold; or the same key came with another payload."""
    ROLLED_BACK = "rolled_back"
    """The body returned normally, but its database transaction had been rolled back."""
    REVOKED = "revoked"
    """Celery threw its message away because somebody revoked it."""
    EXPIRED = "expired"
    """It came after its `expires`."""
    IGNORED = "ignored"
    """The body raised Ignore."""
    SUPERSEDED = "superseded"
    """The body replaced itself by another task, which carries the same submission on."""
    RETRY_SCHEDULED = "retry_scheduled"
    """The body called `retry()`: the next delivery of the same job carries on."""
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
    """The body runs."""
    IGNORE = "ignore"
    """Somebody else has moved, or surely will move, the canvas of this submission."""
    PARKED = "parked"
    """It waits in the store for whoever has the key, or is sending the canvas on."""
    FIRST_RESULT = "first_result"
    """The key is done: the result of its job is returned, and links and chord go on."""
    RAISE_AGAIN = "raise_again"
    """The job had failed, and its canvas was never told: its recorded failure is raised again."""
    REFUSED = "refused"
    """A final refusal, which ends the job through the tracer: poison, conflict, unsettled effect, expired."""


class RowStatus(Word):
    """The stations of a row of the parking lot."""

    PARKED = "parked"
    """It waits."""
    RELEASED = "released"
    """What it waited for is over; it may be published, any number of times."""
    SENT = "sent"
    """It was published, and nobody has admitted it so far."""
    TAKEN = "taken"
    """Admitted by OPEN; the row stays until the submission is settled."""


class AckMode(Word):
    """Whether the broker brings a delivery again after its worker died."""

    EARLY = "early"
    """Before the body runs, which is Celery's default: nothing comes back."""
    LATE = "late"
    """After the body: the broker brings it again."""
    LATE_ACKS_LOSS = "late_acks_loss"
    """Late acknowledgement, but Celery acknowledges when a pool child is lost (its default)."""


class OnContention(Word):
    """What a job does whose resource is leased to another one."""

    PARK = "park"
    """It waits in line, and is woken when its turn comes."""
    BACKOFF = "backoff"
    """It looks again after a while, then after a longer one; others may go before it."""


class LeaseEnd(Word):
    """How the lease on a resource ended."""

    RELEASED = "released"
    """Its holder closed, in whatever way."""
    LAPSED = "lapsed"
    """Its holder went silent, and somebody else took it."""
    DIED = "died"
    """Its holder's worker told that it had died."""
    FORCED = "forced"
    """A person took it away."""


class OnIncomplete(Word):
    """What to do where an earlier attempt died with its side effect unsettled."""

    RESUME = "resume"
    """Run again."""
    VERIFY = "verify"
    """Ask the task's hook whether the effect exists; run again only if it doesn't."""
    DEAD_LETTER = "dead_letter"
    """Don't run; a person decides."""


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


class Capture(Word):
    """How much of a job's data goes into its trace."""

    NONE = "none"
    """Names, types and times; nothing that the job, or an exception, says."""
    KEYS = "keys"
    """Attributes as they were recorded; of arguments their names and types."""
    FULL = "full"
    """Arguments and return values, too."""


class StepState(Word):
    """The state of a side-effect step's record."""

    CLAIMED = "claimed"
    """Begun, and its end is not known."""
    SETTLED = "settled"
    """Done; its output is kept."""


class LetterState(Word):
    """The triage state of a dead letter."""

    OPEN = "open"
    """It waits for somebody's decision."""
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


class OperationState(Word):
    """Where an operation stands: the replay of many dead letters."""

    RUNNING = "running"
    """A steward sends its letters, one portion after the other."""
    PAUSED = "paused"
    """Somebody holds it; what was sent goes on."""
    STOPPED = "stopped"
    """It stopped itself, and says why; somebody may let it go on."""
    ABORTED = "aborted"
    """Somebody ended it; what was not sent stays as it is."""
    FINISHED = "finished"
    """All of its letters were sent or left out, and every replay has ended."""

    @property
    def over(self) -> bool:
        """Will it never send anything more?"""
        return self in (OperationState.ABORTED, OperationState.FINISHED)


class Effect(Word):
    """What is known of a failed job's side effects."""

    ABSENT = "absent"
    """None happened: the body never began, or no step of it, or its transaction was rolled back."""
    PROVEN = "proven"
    """Some were recorded as done."""
    UNKNOWN = "unknown"
    """The task declares no steps, or it was cut off within one."""


class Verb(Word):
    """What was done to a dead letter, its group, a parked job or the holder of a lease; by a person, unless noted."""

    INVESTIGATED = "investigated"
    """Somebody looks into it."""
    QUARANTINED = "quarantined"
    """It is not to be replayed for now."""
    REOPENED = "reopened"
    """It waits for a decision again."""
    ASSIGNED = "assigned"
    """It is somebody's."""
    NOTED = "noted"
    """A note was written."""
    EDITED = "edited"
    """The payload of its replay was mended; the original stays."""
    DISCARDED = "discarded"
    """Nothing is to be done."""
    REPLAYED = "replayed"
    """It was sent again, under a new task id."""
    BEGUN = "begun"
    """An operation was begun: the replay of many letters."""
    PAUSED = "paused"
    """An operation is held."""
    RESUMED = "resumed"
    """An operation goes on."""
    ABORTED = "aborted"
    """An operation was ended before it had sent all of its letters."""
    STOPPED = "stopped"
    """By itself: an operation has seen too many of its replays fail."""
    FINISHED = "finished"
    """By itself: all of an operation's replays have ended."""
    LEFT_OUT = "left_out"
    """Somebody wanted something to be done with many letters, and it was not done with this one."""
    TRIAL_WANTED = "trial_wanted"
    """A dry run or a fork was asked for, which a worker does; nothing real is changed by it."""
    TRIAL_BEGUN = "trial_begun"
    """By itself: a worker has begun with it, or with the first of many."""
    TRIED = "tried"
    """By itself: a worker has done it; the entry tells what came out."""
    REVEALED = "revealed"
    """A payload was looked at unredacted."""
    FREED = "freed"
    """A parked job was sent before its time."""
    LEASE_FREED = "lease_freed"
    """The lease that it held on a resource was taken away."""
    ERASED = "erased"
    """Its data was deleted on request."""
    KEPT = "kept"
    """Its trace is to be kept until somebody says otherwise."""
    UNKEPT = "unkept"
    """Its trace goes when its retention is over, counted from then on."""
    REBUILT = "rebuilt"
    """Derived data of an entity was made again from its events."""
    REVERTED = "reverted"
    """What one of its attempts had changed was put back."""
    RESOLVED = "resolved"
    """By itself: the job or its replay succeeded."""
    FAILED_AGAIN = "failed_again"
    """By itself: the replay failed."""
    CHORD_FAILED = "chord_failed"
    """By itself: a chord's member failed, so its body is not run; each one's letter names the other."""


class Reason(Word):
    """Why a job was refused, parked or dead-lettered; stable, to be searched for."""

    ALREADY_PARKED = "already_parked"
    """This delivery waits in the parking lot; this is a copy of it."""
    NEWER_DELIVERY = "newer_delivery"
    """A later delivery of the same job was opened, or is about to be."""
    CANVAS_ADVANCED = "canvas_advanced"
    """The job is done, callbacks and all."""
    CANVAS_IN_PROGRESS = "canvas_in_progress"
    """The job is done, and whoever closed it may still be sending its callbacks on."""
    CANVAS_LAPSED = "canvas_lapsed"
    """The job is done, and whoever closed it went silent before its callbacks were sent on."""
    KEY_DONE = "key_done"
    """Another submission has succeeded with this key."""
    IN_FLIGHT = "in_flight"
    """Another attempt has the key, and lives."""
    RETRY_PENDING = "retry_pending"
    """The key waits for another submission's retry."""
    LEASE_HELD = "lease_held"
    """A resource that it needs is leased to another job, or others wait for it who came before."""
    GRANTS_PAUSED = "grants_paused"
    """The store may have lost what it knew, so for a while it gives nobody a resource who does not have it."""
    OWNERSHIP_LOST = "ownership_lost"
    """The attempt had lost its job to another one when it wanted to close; of a letter: too often."""
    REPLAY = "replay"
    """A replay that is to be sent, when its turn comes."""
    STORE_DOWN = "store_down"
    """The store did not answer."""
    KEY_CONFLICT = "key_conflict"
    """The key was used with another payload."""
    KEY_FAILED = "key_failed"
    """The job with this key failed, and the task has `on_failed_key="refuse"`."""
    POISON = "poison"
    """Its attempts died in a row, `replay_poison_cap` times."""
    EXPIRED = "expired"
    """It came after its `expires`."""
    EFFECT_UNSETTLED = "effect_unsettled"
    """An earlier attempt was cut off, and nobody knows whether the side effect happened."""
    EXCEPTION = "exception"
    """The body raised."""
    REJECTED = "rejected"
    """The body raised `Reject`."""
    REQUEUED = "requeued"
    """The body gave its message back by `Reject(requeue=True)`; of a letter: too often."""
    UNKNOWN_TASK = "unknown_task"
    """The worker that got the message knows no task of that name."""
    UNDECODABLE = "undecodable"
    """No task could be made of the message."""
    ROLLED_BACK = "rolled_back"
    """The body returned, but its database transaction did not stay."""
    POSTCONDITION = "postcondition"
    """The body returned, but what has to hold then does not."""
    REVOKED = "revoked"
    """Somebody revoked it."""
    SOFT_TIME_LIMIT = "soft_time_limit"
    """It ran into its soft time limit, and did not catch that."""
    OUT_OF_MEMORY = "out_of_memory"
    """The body found no memory."""
    HARD_TIME_LIMIT = "hard_time_limit"
    """It ran into its hard time limit."""
    WORKER_LOST = "worker_lost"
    """Its worker process died, and no message came back."""
    INTERRUPTED = "interrupted"
    """Its worker process was told to stop in the middle of the body."""
    RETRY_NEVER_CAME = "retry_never_came"
    """A retry was published, and its message never came."""
    RESULT_LOST = "result_lost"
    """The job is done, but Celery could not store its result."""
    EFFECT_NOT_ALLOWED = "effect_not_allowed"
    """A replay came to a side effect that is not on its list of those that may be done."""
    CHORD_FAILED = "chord_failed"
    """It is the body of a chord, and is not run: a member of that failed."""


class Category(Word):
    """Failure categories: by them a task's `failures=` decides what is tried again."""

    TRANSIENT = "transient"
    """It may go away by itself."""
    THROTTLED = "throttled"
    """The other side wants it slower."""
    DEPENDENCY = "dependency"
    """Something that it needs is away."""
    CONCURRENCY = "concurrency"
    """Somebody else changed the same thing. Given to version conflicts and to foreign tokens that were refused."""
    VALIDATION = "validation"
    """The payload, or what came of it, is wrong. Given to a key that came with another payload, and where a
    post-condition does not hold."""
    PERMANENT = "permanent"
    """It would fail again."""
    POISON = "poison"
    """It kills its workers. Given by the cap on deaths in a row."""
    UNKNOWN_OUTCOME = "unknown_outcome"
    """Nobody knows whether a side effect happened. Given to what was cut off within one."""
    UNCLASSIFIED = "unclassified"
    """All else."""
