"""The table: what every state of a submission answers to a copy of itself, and to another submission of the key."""

from __future__ import annotations

from typing import Any

import pytest

from celery_replay.admission import Admission, admit
from celery_replay.records import Job
from celery_replay.states import OnIncomplete, Outcome, Verdict
from tests.rules.builders import EARLIER, LATER, NOW, ask, facts, job, lapsed, row

ADVANCED: dict[str, Any] = {"canvas_advanced": True}
ON_ITS_WAY: dict[str, Any] = {"canvas_until": LATER}
LAPSED: dict[str, Any] = {"canvas_until": EARLIER}

STATES: dict[str, tuple[Job, str, str]] = {
    "succeeded, advanced": (job(status=Outcome.SUCCEEDED, **ADVANCED), "ignore", "first_result"),
    "succeeded, on its way": (job(status=Outcome.SUCCEEDED, **ON_ITS_WAY), "parked", "first_result"),
    "succeeded, lapsed": (job(status=Outcome.SUCCEEDED, **LAPSED), "first_result", "first_result"),
    "dead letter, announced": (job(status=Outcome.FAILED, **ADVANCED), "ignore", "run"),
    "dead letter, on its way": (job(status=Outcome.FAILED, **ON_ITS_WAY), "parked", "run"),
    "dead letter, lapsed": (job(status=Outcome.FAILED, **LAPSED), "raise_again", "run"),
    "dead letter, unsettled": (
        job(status=Outcome.FAILED, unsettled=True, **ADVANCED),
        "ignore",
        "run after an unsettled effect",
    ),
    "revoked": (job(status=Outcome.REVOKED, **ADVANCED), "ignore", "run"),
    "expired, lapsed": (job(status=Outcome.EXPIRED, **LAPSED), "raise_again", "run"),
    "ignored": (job(status=Outcome.IGNORED, **ADVANCED), "ignore", "run"),
    "retry scheduled": (job(status=Outcome.RETRY_SCHEDULED), "ignore", "parked"),
    "retry scheduled, lapsed": (job(status=Outcome.RETRY_SCHEDULED, reserved_until=EARLIER), "ignore", "run"),
    "superseded": (job(status=Outcome.SUPERSEDED), "ignore", "parked"),
    "lost": (job(status=Outcome.LOST), "run", "run"),
    "lost, unsettled": (
        job(status=Outcome.LOST, unsettled=True),
        "run after an unsettled effect",
        "run after an unsettled effect",
    ),
    "interrupted": (job(status=Outcome.INTERRUPTED), "run", "run"),
    "requeued": (job(status=Outcome.REQUEUED), "run", "run"),
    "open, alive": (job(), "parked", "parked"),
    "open, lapsed": (lapsed(), "run", "run"),
    "open, told dead": (job(lease_until=None), "run", "run"),
    "open, lapsed, unsettled": (
        lapsed(unsettled=True),
        "run after an unsettled effect",
        "run after an unsettled effect",
    ),
}


def _words(answer: Admission) -> str:
    return f"{answer.verdict} after an unsettled effect" if answer.incomplete else str(answer.verdict)


@pytest.mark.parametrize("name", STATES)
def test_the_same_delivery_again(name: str) -> None:
    stored, same, _ = STATES[name]
    assert _words(admit(facts(stored), ask(on_incomplete=OnIncomplete.VERIFY), NOW)) == same


@pytest.mark.parametrize("name", STATES)
def test_another_submission_of_the_key(name: str) -> None:
    stored, _, other = STATES[name]
    answer = admit(facts(holder=stored), ask("other", on_incomplete=OnIncomplete.VERIFY), NOW)
    assert _words(answer) == other


@pytest.mark.parametrize("name", [name for name, (stored, *_) in STATES.items() if stored.status.handed_over])
def test_the_retry_itself_runs(name: str) -> None:
    assert admit(facts(STATES[name][0]), ask(generation=1), NOW).verdict is Verdict.RUN


@pytest.mark.parametrize("name", STATES)
def test_a_parked_submission_ignores_its_copies_whatever_else_is_known(name: str) -> None:
    assert admit(facts(STATES[name][0], row=row()), ask(), NOW).verdict is Verdict.IGNORE


@pytest.mark.parametrize("canvas", [ADVANCED, ON_ITS_WAY, LAPSED])
def test_a_deduplicated_submission_answers_by_its_own_canvas(canvas: dict[str, Any]) -> None:
    expected = {"canvas_advanced": Verdict.IGNORE}.get(next(iter(canvas)))
    expected = expected or (Verdict.PARKED if canvas is ON_ITS_WAY else Verdict.FIRST_RESULT)
    mine = job(status=Outcome.DEDUPLICATED, claim=None, **canvas)
    assert admit(facts(mine, job("other", Outcome.SUCCEEDED)), ask(), NOW).verdict is expected


@pytest.mark.parametrize("name", STATES)
def test_only_one_submission_holds_the_key_afterwards(name: str) -> None:
    after = admit(facts(holder=STATES[name][0]), ask("other"), NOW).facts
    holders = [held.submission for held in (after.job, after.holder) if held is not None and held.claim]
    assert len(holders) == 1
