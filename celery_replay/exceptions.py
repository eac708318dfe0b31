"""Errors of celery-replay.

ReplayError
├── ConfigurationError        a setting or task option is wrong; raised at import or start
│   ├── SandboxUnavailable    the kernel enforces no sandbox here, and one was required
│   └── ShadowUnavailable     a dry run can't have the shadow of a database that a setting asks for
├── StoreError
│   ├── StoreUnavailable      the store can't be reached now
│   └── SchemaMismatch        the store was written by another version
├── OwnershipLost             this attempt no longer owns its job
│   └── FenceRefused          the target has seen a newer owner
├── VersionConflict           somebody else changed the row since it was read
├── StepError                 a step was used in a way that can't be made safe
│   └── StepWrites            a step with a side effect wrote to the database
├── SnapshotTooLarge          a task declares more state than a snapshot may have
├── SnapshotUnreadable        a snapshot is gone, damaged or of another version
├── SandboxBlocked            a replayed body tried something that leads out of its sandbox
├── TrialNotSent              a dry run could not be sent to a worker
├── ErrandFailed              a worker's process for dry runs did not do them
├── TriageRefused             a decision about a dead letter can't be taken now
└── JobError                  ends a job through Celery's tracer
    ├── KeyConflict           same key, another payload
    ├── KeyFailed             the key's job failed, and the task refuses another run
    ├── PoisonJob             it keeps killing its workers
    ├── RequeuedTooOften      it keeps giving its message back
    ├── LostTooOften          it keeps being lost, though nobody takes it over
    ├── HalfCommitted         one of several databases has its part already
    ├── EffectNotAllowed      a replay came to a side effect that is not on its list
    ├── UnknownOutcome        nobody knows whether a side effect happened
    ├── JobExpired            it came after its deadline
    ├── RolledBack            the body returned, its database writes did not stay
    ├── PostconditionFailed   the body returned, and what has to hold then does not
    ├── PostconditionUnchecked nobody knows whether it does: the check itself failed
    ├── RecordedFailure       an earlier failure, raised again for the canvas
    └── ResultUnavailable     the first result exists, but can't be returned

Each class has a stable id, which stands in its message and in the docs.
"""

from __future__ import annotations

from errno import EPERM
from typing import Any, ClassVar


class ReplayError(Exception):
    """Something in celery-replay needs attention; look its id up in the reference of errors."""

    id: ClassVar[str] = "replay"

    def __init__(self, message: str = "", *details: Any) -> None:
        super().__init__(message, *details)
        self.message = message or (type(self).__doc__ or "").partition("\n")[0]

    def __str__(self) -> str:
        return f"{self.message} [{self.id}]"


class ConfigurationError(ReplayError):
    """A setting or task option of celery-replay is wrong; mend it before the worker starts."""

    id = "configuration"


class SandboxUnavailable(ConfigurationError):
    """The kernel can't enforce the sandbox here; run where it can, or don't require it."""

    id = "sandbox-unavailable"


class ShadowUnavailable(ConfigurationError):
    """A dry run can't have the shadow of a database; mend `replay_sandbox_database`, or take it off."""

    id = "shadow-unavailable"


class StoreError(ReplayError):
    """The store failed an operation; look at its own log."""

    id = "store"


class StoreUnavailable(StoreError):
    """The store can't be reached now; the task's `on_store_error` decides."""

    id = "store-unavailable"
    sent: bool = True
    """May it have done what it was asked, so that only its answer is missing?"""


class SchemaMismatch(StoreError):
    """The store was written by another version of celery-replay; run its migrations or upgrade this worker."""

    id = "schema-mismatch"


class OwnershipLost(ReplayError):
    """This attempt lost its job, or a resource, to another one; let the error pass, the job goes on elsewhere."""

    id = "ownership-lost"
    is_owners: bool = True
    """Is it about the attempt's own token? One of another kind may be too old for ever, so that job fails."""


class FenceRefused(OwnershipLost):
    """The target has seen a newer owner of this job and refused this write; let the error pass."""

    id = "fence-refused"


class VersionConflict(ReplayError):
    """Somebody else changed the row since it was read; read it again and decide anew, or let the task retry."""

    id = "version-conflict"


class StepError(ReplayError):
    """A step was used in a way that can't be made safe; give it a `key=`."""

    id = "step"


class StepWrites(StepError):
    """A step with a side effect wrote to the database, which may roll that back; write in the body, behind it."""

    id = "step-writes"


class SnapshotTooLarge(ReplayError):
    """A task declares more state than a snapshot may have; let its `state=` return what the job works on alone."""

    id = "snapshot-too-large"


class SnapshotUnreadable(ReplayError):
    """A snapshot can't be read; its trace may have been pruned."""

    id = "snapshot-unreadable"


class SandboxBlocked(ReplayError, PermissionError):
    """A replayed body tried something that leads out of its sandbox; if it is an effect, put it into a step."""

    id = "sandbox-blocked"
    # To libraries it is what the kernel's own refusal is, so that they fall back as they would there.
    errno = EPERM


class TrialNotSent(ReplayError):
    """The order of a dry run could not be sent to a worker; see that the broker can be reached, and ask again."""

    id = "trial-not-sent"


class ErrandFailed(ReplayError):
    """A worker's process for dry runs did not do them; the message and the worker's log say why."""

    id = "errand-failed"


class TriageRefused(ReplayError):
    """This can't be done to the dead letter as it stands; look at it again."""

    id = "triage-refused"


class JobError(ReplayError):
    """The job ends here; its dead letter has the evidence."""

    id = "job"


class KeyConflict(JobError):
    """The idempotency key was used with another payload; give the new intent a key of its own."""

    id = "key-conflict"


class KeyFailed(JobError):
    """The job with this key failed before, and the task has `on_failed_key="refuse"`; triage its dead letter."""

    id = "key-failed"


class PoisonJob(JobError):
    """The job killed its workers too often; look at its dead letter before it runs again."""

    id = "poison"


class RequeuedTooOften(JobError):
    """The job gave its message back too often; to wait for something, use `retry()`, which has a budget."""

    id = "requeued"


class LostTooOften(JobError):
    """The job was lost each time it ran, and nobody took it over; its target may have seen a token of the future."""

    id = "lost-too-often"


class HalfCommitted(JobError):
    """Of several databases one was committed, and the body would write there again; let it skip `attempt.committed`."""

    id = "half-committed"


class UnknownOutcome(JobError):
    """Nobody knows whether the side effect happened; look at the target, or give the task a `verify=` hook."""

    id = "unknown-outcome"


class EffectNotAllowed(JobError):
    """This replay may not do that side effect; replay its letter again with `--allow` and the name."""

    id = "effect-not-allowed"


class JobExpired(JobError):
    """The job came after its `expires` time; publish it again if it is still wanted."""

    id = "expired"


class RolledBack(JobError):
    """The body returned normally, but its database transaction was rolled back; don't swallow database errors."""

    id = "rolled-back"


class PostconditionFailed(JobError):
    """The body returned, but what has to hold then does not; mend what it left, or the code, and replay its letter."""

    id = "postcondition"

    @property
    def conditions(self) -> tuple[str, ...]:
        """The names of those that do not hold."""
        return self.args[1:]


class PostconditionUnchecked(JobError):
    """The body returned, but a post-condition could not be checked; mend the check, and replay the letter."""

    id = "postcondition-unchecked"


class RecordedFailure(JobError):
    """The job failed earlier, and its canvas hears of it only now; triage its dead letter."""

    id = "recorded-failure"


class ResultUnavailable(JobError):
    """A job with this key succeeded, but its result can't be returned; make the result JSON or keep a backend."""

    id = "result-unavailable"
