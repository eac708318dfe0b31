"""celery-replay: background jobs that are traceable, safe to retry, and replayable, on plain Celery."""

from .attempts import Attempt
from .current import cache_read, current_attempt, record
from .derivations import derived
from .exceptions import (
    ConfigurationError,
    FenceRefused,
    HalfCommitted,
    JobError,
    JobExpired,
    KeyConflict,
    KeyFailed,
    LostTooOften,
    OwnershipLost,
    PoisonJob,
    PostconditionFailed,
    PostconditionUnchecked,
    RecordedFailure,
    ReplayError,
    RequeuedTooOften,
    ResultUnavailable,
    RolledBack,
    SchemaMismatch,
    StepError,
    StepWrites,
    StoreError,
    StoreUnavailable,
    UnknownOutcome,
    VersionConflict,
)
from .extension import install, uninstall
from .postconditions import Violation, published, recorded
from .retries import DeadLetter, FailurePolicy, Invalid, Permanent, Retry, Throttled, Transient, rule
from .states import Category, Outcome
from .steps import step
from .task import ReplayTask

__version__ = "0.1.0"

__all__ = [
    # adopting
    "ReplayTask",
    "install",
    "uninstall",
    # beside tasks
    "derived",
    # in a task's body
    "Attempt",
    "cache_read",
    "current_attempt",
    "record",
    "step",
    # what has to hold behind it
    "Violation",
    "published",
    "recorded",
    # what becomes of failures
    "DeadLetter",
    "FailurePolicy",
    "Invalid",
    "Permanent",
    "Retry",
    "Throttled",
    "Transient",
    "rule",
    # words
    "Category",
    "Outcome",
    # errors
    "ConfigurationError",
    "FenceRefused",
    "HalfCommitted",
    "JobError",
    "JobExpired",
    "KeyConflict",
    "KeyFailed",
    "LostTooOften",
    "OwnershipLost",
    "PoisonJob",
    "PostconditionFailed",
    "PostconditionUnchecked",
    "RecordedFailure",
    "ReplayError",
    "RequeuedTooOften",
    "ResultUnavailable",
    "RolledBack",
    "SchemaMismatch",
    "StepError",
    "StepWrites",
    "StoreError",
    "StoreUnavailable",
    "UnknownOutcome",
    "VersionConflict",
]
