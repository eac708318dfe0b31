"""Errors of celery-replay.

ReplayError
├── ConfigurationError        a setting or task option is wrong; raised at import or start
├── StoreError
│   ├── StoreUnavailable      the store can't be reached now
│   └── SchemaMismatch        the store was written by another version
├── OwnershipLost             this attempt no longer owns its job
│   └── FenceRefused          the target has seen a newer owner
├── VersionConflict           somebody else changed the row since it was read
├── StepError                 a step was used in a way that can't be made safe
│   └── StepWrites            a step with a side effect wrote to the database
├── TriageRefused             a decision about a dead letter can't be taken now
└── JobError                  ends a job through Celery's tracer
    ├── KeyConflict           same key, another payload
    ├── KeyFailed             the key's job failed, and the task refuses another run
    ├── PoisonJob             it keeps killing its workers
    ├── RequeuedTooOften      it keeps giving its message back
    ├── HalfCommitted         one of several databases has its part already
    ├── UnknownOutcome        nobody knows whether a side effect happened
    ├── JobExpired            it came after its deadline
    ├── RolledBack            the body returned, its database writes did not stay
    ├── RecordedFailure       an earlier failure, raised again for the canvas
    └── ResultUnavailable     the first result exists, but can't be returned

Each class has a stable id, which stands in its message and in the docs.
"""

from __future__ import annotations

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


class FenceRefused(OwnershipLost):
    """The target has seen a newer owner of this job and refused this write; let the error pass."""

    id = "fence-refused"
    is_owners: bool = True
    """Was it the attempt's own token? One of another kind may be too old for ever, so that job fails."""


class VersionConflict(ReplayError):
    """Somebody else changed the row since it was read; read it again and decide anew, or let the task retry."""

    id = "version-conflict"


class StepError(ReplayError):
    """A step was used in a way that can't be made safe; give it a `key=`."""

    id = "step"


class StepWrites(StepError):
    """A step with a side effect wrote to the database, which may roll that back; write in the body, behind it."""

    id = "step-writes"


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


class HalfCommitted(JobError):
    """Of several databases one was committed, and the body would write there again; let it skip `attempt.committed`."""

    id = "half-committed"


class UnknownOutcome(JobError):
    """Nobody knows whether the side effect happened; look at the target, or give the task a `verify=` hook."""

    id = "unknown-outcome"


class JobExpired(JobError):
    """The job came after its `expires` time; publish it again if it is still wanted."""

    id = "expired"


class RolledBack(JobError):
    """The body returned normally, but its database transaction was rolled back; don't swallow database errors."""

    id = "rolled-back"


class RecordedFailure(JobError):
    """The job failed earlier, and its canvas hears of it only now; triage its dead letter."""

    id = "recorded-failure"


class ResultUnavailable(JobError):
    """A job with this key succeeded, but its result can't be returned; make the result JSON or keep a backend."""

    id = "result-unavailable"
