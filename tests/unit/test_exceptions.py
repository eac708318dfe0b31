from __future__ import annotations

import inspect
import pickle

import pytest
from billiard.einfo import ExceptionInfo
from celery import Celery
from celery.backends.base import Backend

from celery_replay import exceptions
from celery_replay.exceptions import ReplayError

ALL = [value for value in vars(exceptions).values() if inspect.isclass(value) and issubclass(value, ReplayError)]
IDS = {
    "ConfigurationError": "configuration",
    "EffectNotAllowed": "effect-not-allowed",
    "ErrandFailed": "errand-failed",
    "FenceRefused": "fence-refused",
    "HalfCommitted": "half-committed",
    "LostTooOften": "lost-too-often",
    "JobError": "job",
    "JobExpired": "expired",
    "KeyConflict": "key-conflict",
    "KeyFailed": "key-failed",
    "OwnershipLost": "ownership-lost",
    "PoisonJob": "poison",
    "PostconditionFailed": "postcondition",
    "PostconditionUnchecked": "postcondition-unchecked",
    "RequeuedTooOften": "requeued",
    "RecordedFailure": "recorded-failure",
    "ReplayError": "replay",
    "ResultUnavailable": "result-unavailable",
    "RolledBack": "rolled-back",
    "SandboxBlocked": "sandbox-blocked",
    "SandboxUnavailable": "sandbox-unavailable",
    "ShadowUnavailable": "shadow-unavailable",
    "SchemaMismatch": "schema-mismatch",
    "SnapshotTooLarge": "snapshot-too-large",
    "SnapshotUnreadable": "snapshot-unreadable",
    "StepError": "step",
    "StepWrites": "step-writes",
    "StoreError": "store",
    "StoreUnavailable": "store-unavailable",
    "TrialNotSent": "trial-not-sent",
    "TriageRefused": "triage-refused",
    "UnknownOutcome": "unknown-outcome",
    "VersionConflict": "version-conflict",
}


def every_class(test):
    return pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)(test)


def test_the_tree_drawn_in_the_docstring_is_the_tree_of_the_classes():
    drawn = [line.lstrip("│├└─ ").split()[0] for line in exceptions.__doc__.splitlines() if "─" in line]

    assert sorted([*drawn, "ReplayError"]) == sorted(cls.__name__ for cls in ALL)


def test_the_ids_stay_as_they_are():
    assert {cls.__name__: cls.id for cls in ALL} == IDS


def test_no_two_classes_share_an_id():
    assert len({cls.id for cls in ALL}) == len(ALL)


@every_class
def test_the_first_line_of_the_docstring_is_the_default_message(cls):
    assert str(cls()) == f"{cls.__doc__.splitlines()[0]} [{cls.id}]"


@every_class
def test_a_message_of_ones_own_is_shown_with_the_id(cls):
    assert str(cls("order 5 is odd")) == f"order 5 is odd [{cls.id}]"


@every_class
@pytest.mark.parametrize("arguments", [(), ("order 5 is odd",), ("order 5 is odd", 5, {"a": 1})])
def test_it_survives_pickling(cls, arguments):
    error = cls(*arguments)

    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy), copy.args) == (cls, str(error), error.args)


@every_class
def test_it_survives_what_a_pool_sends_to_the_workers_parent(cls):
    try:
        raise cls("order 5 is odd")
    except ReplayError:
        info = ExceptionInfo()

    copy = pickle.loads(pickle.dumps(info))

    assert str(cls("order 5 is odd")) in str(copy.traceback)
    assert type(copy.exception) is cls


@every_class
@pytest.mark.parametrize("serializer", ["json", "pickle"])
@pytest.mark.parametrize("arguments", [(), ("order 5 is odd",)])
def test_it_survives_celerys_result_backends(cls, serializer, arguments):
    with Celery("results", set_as_current=False) as app:
        backend = Backend(app, serializer=serializer, accept=["json", "pickle"])
        error = cls(*arguments)

        stored = backend.decode(backend.encode(backend.prepare_exception(error)))
        copy = backend.exception_to_python(stored)

    assert (type(copy), str(copy)) == (cls, str(error))


@every_class
def test_the_default_message_says_what_to_do_next(cls):
    _, _, advice = str(cls()).partition("; ")

    assert len(advice.split()) >= 3
