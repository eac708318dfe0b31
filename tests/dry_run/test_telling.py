"""What is kept of a dry run with its letter: bounded, without secrets, and at `none` without values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from celery_replay.dry_run.comparison import Comparison, Ends
from celery_replay.dry_run.engine import DryRun
from celery_replay.dry_run.moments import Both, Moment, Pair
from celery_replay.dry_run.recording import Recording
from celery_replay.dry_run.telling import LIMIT, kept_of
from celery_replay.records import evolve
from celery_replay.sandbox import Blocked, Report
from celery_replay.sandbox.report import Output

SECRET = "correct-horse-battery"


@pytest.fixture
def ran(recording: Recording) -> Any:
    """Return what makes a dry run that found something."""
    payload = evolve(recording.payload, args=(), kwargs={"password": SECRET})
    failure = {"type": "shop.Refused", "message": f"{SECRET} was refused", "reason": "exception"}

    def make(found: dict[str, Any]) -> DryRun:
        pair = Pair(
            then=Moment(name="step buy", status="ok"),
            now=Moment(name="step buy", status="fail", error="E"),
            differs=("step",),
        )
        same = Both(then=[], now=[])
        comparison = Comparison(
            ends=Ends.OTHERWISE,
            said=f"it fails, and not as it did: shop.Refused: {SECRET} was refused",
            pairs=[pair],
            key=same,
            leases=same,
            effects=same,
            cache=same,
            outcome_then="failed",
            failure_then=failure,
            outcome="failed",
            failure=failure,
        )
        report = Report(
            stdout=Output(text=f"token {SECRET}\n" + "x" * 60_000),
            blocked=(Blocked(what="connect", detail=SECRET, step="buy"),),
        )
        return DryRun(
            recording=evolve(recording, payload=payload),
            report=report,
            found={"missing": [], **found},
            comparison=comparison,
        )

    return make


ROW = dict.fromkeys(("state", "record", "field", "before", "after"), "v" * 5_000)


@pytest.mark.parametrize(
    "found",
    [
        {"state": [ROW] * 300, "result": list(range(10_000))},
        {"result": {f"k{n}": {f"m{m}": ["y" * 300] * 10 for m in range(25)} for n in range(25)}},
        {"surroundings": {f"n{n}" * 100: {"a": "\ud800\x00" * 900} for n in range(200)}},
        {"unlike": "no list", "published": {"a": 1}, "state": "lies", "surroundings": [1]},
        {"result": 10**4_000},
    ],
    ids=["many rows", "deep", "odd names", "lies", "a large number"],
)
def test_it_is_never_more_than_a_history_should_have(ran: Any, found: dict[str, Any]) -> None:
    kept = kept_of(ran(found), "dry-run")
    assert len(json.dumps(kept)) <= LIMIT
    assert (kept["ends"], kept["mode"]) == ("fails_another_way", "dry-run")
    assert "\\ud800" not in json.dumps(kept)


def test_a_secret_of_the_payload_is_nowhere_in_it(ran: Any) -> None:
    kept = kept_of(ran({"result": [SECRET], "state": [{**ROW, "after": f"is {SECRET}"}]}), "dry-run")
    assert SECRET not in json.dumps(kept)
    assert kept["said"].endswith("[redacted] was refused")


def test_a_task_that_lets_no_values_into_its_trace_lets_none_into_this(ran: Any) -> None:
    kept = kept_of(ran({"result": ["R-77"], "state": [ROW]}), "fork", values=False)
    assert kept["said"] == "fails another way"
    assert kept["now"] == {"outcome": "failed", "failure": {"type": "shop.Refused", "message": ""}}
    told = {"then": "step buy ok", "now": "step buy fail", "same": False, "differs": ["step"]}
    assert kept["steps"] == [told]
    assert not {"state", "output", "blocked", "surroundings"} & kept.keys()
