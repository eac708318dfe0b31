from __future__ import annotations

import importlib
import pkgutil

import pytest

import celery_replay

FROZEN = [
    "Attempt",
    "Category",
    "ConfigurationError",
    "DeadLetter",
    "FailurePolicy",
    "FenceRefused",
    "HalfCommitted",
    "Invalid",
    "JobError",
    "JobExpired",
    "KeyConflict",
    "KeyFailed",
    "LostTooOften",
    "Outcome",
    "OwnershipLost",
    "Permanent",
    "PoisonJob",
    "PostconditionFailed",
    "PostconditionUnchecked",
    "RecordedFailure",
    "ReplayError",
    "ReplayTask",
    "RequeuedTooOften",
    "ResultUnavailable",
    "Retry",
    "RolledBack",
    "SchemaMismatch",
    "StepError",
    "StepWrites",
    "StoreError",
    "StoreUnavailable",
    "Throttled",
    "Transient",
    "UnknownOutcome",
    "VersionConflict",
    "Violation",
    "cache_read",
    "current_attempt",
    "derived",
    "install",
    "published",
    "record",
    "recorded",
    "rule",
    "step",
    "uninstall",
]


def test_the_public_api_is_this_list():
    assert sorted(celery_replay.__all__) == FROZEN


@pytest.mark.parametrize("name", celery_replay.__all__)
def test_every_public_name_says_in_a_sentence_what_it_is(name):
    docstring = vars(celery_replay)[name].__doc__

    assert docstring
    assert docstring.partition("\n")[0][-1] in ".?"


@pytest.mark.parametrize("name", ["Attempt", "ReplayTask"])
def test_every_public_member_of_a_public_class_has_a_docstring(name):
    members = vars(vars(celery_replay)[name])
    public = {key: value for key, value in members.items() if not key.startswith("_")}
    described = {key: value for key, value in public.items() if callable(value) or isinstance(value, property)}

    assert described
    assert [key for key, value in described.items() if not value.__doc__] == []


def test_every_module_says_what_it_is_for():
    names = [module.name for module in pkgutil.walk_packages(celery_replay.__path__, "celery_replay.")]
    wordless = [name for name in names if not importlib.import_module(name).__doc__]

    assert "celery_replay.attempts" in names
    assert wordless == []
