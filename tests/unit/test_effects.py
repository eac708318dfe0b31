"""What would become of each side effect is told from what is recorded and declared."""

from __future__ import annotations

from typing import Any

import pytest

from celery_replay.records import Job, Letter, StepRecord
from celery_replay.replay.effects import Certainty, Today, effects_of
from celery_replay.serialization import pack
from celery_replay.states import Effect, Outcome, Reason, StepState
from tests.rules import builders

DONE = "deduplicated"


def letter(effect: Effect = Effect.UNKNOWN, **task: Any) -> Letter:
    return Letter(
        submission="s",
        operation="shop.ship",
        task_id="t",
        trace_id="s",
        correlation_id="s",
        reason=Reason.EXCEPTION,
        effect=effect,
        first_seen=1,
        last_failed=1,
        message=pack({"task": task}),
    )


def job(*, unsettled: bool = False, attempts: int = 1, status: Outcome = Outcome.FAILED) -> Job:
    return builders.job("s", unsettled=unsettled, attempts=attempts, status=status, claim=None)


def step(name: str, state: StepState = StepState.SETTLED, output: str | None = '"x"') -> StepRecord:
    return StepRecord(scope="s", key=name, name=name, state=state, nonce="n", output=output)


def certainties(about: Letter, its: Job | None, *steps: StepRecord, **today: Any) -> dict[str, str]:
    return {effect.name: str(effect.certainty) for effect in effects_of(about, its, steps, Today(**today))}


def test_a_step_that_is_done_is_deduplicated_and_one_that_was_begun_is_unknown() -> None:
    about = letter(protection="steps")
    steps = step("charge"), step("mail", StepState.CLAIMED, None)
    assert certainties(about, job(unsettled=True), *steps) == {"charge": DONE, "mail": "unknown"}


def test_a_body_that_declares_nothing_is_unknown_once_it_ran() -> None:
    assert certainties(letter(), job()) == {"body": "unknown"}
    assert certainties(letter(), job(attempts=0)) == {}
    assert certainties(letter(protection="steps"), job()) == {}


@pytest.mark.parametrize(
    ("task", "certainty"),
    [
        ({"protection": "step"}, "unknown"),
        ({"protection": "step", "verify": True}, "verified"),
        ({"protection": "atomic"}, "fenced"),
        ({"protection": "steps"}, "unknown"),
    ],
)
def test_a_body_that_was_cut_off_is_told_by_what_its_task_declares(task: dict[str, Any], certainty: str) -> None:
    assert certainties(letter(**task), job(unsettled=True)) == {"body": certainty}


def test_a_transaction_that_was_rolled_back_has_left_nothing() -> None:
    assert certainties(letter(protection="atomic"), job()) == {}


def test_under_another_key_nothing_that_is_recorded_is_found() -> None:
    found = certainties(letter(protection="steps"), job(), step("charge"), other_key=True)
    assert found == {"charge": "will_repeat"}


def test_a_lost_output_is_done_again_only_where_the_task_resumes() -> None:
    about, lost = letter(protection="steps"), step("charge", output=None)
    assert certainties(about, job(), lost) == {"charge": DONE}
    assert certainties(about, job(), lost, resumes=True) == {"charge": "will_repeat"}


def test_of_a_job_that_is_forgotten_the_letter_knows_best() -> None:
    assert certainties(letter(Effect.UNKNOWN), None) == {"body": "unknown"}
    assert certainties(letter(Effect.ABSENT), None) == {}


def test_only_what_may_happen_twice_has_to_be_accepted() -> None:
    about = letter(protection="steps")
    steps = step("a"), step("b", StepState.CLAIMED, None)
    doubtful = [effect.name for effect in effects_of(about, job(unsettled=True), steps, Today()) if effect.doubtful]
    assert doubtful == ["b"]
    assert {word for word in Certainty if word in ("will_repeat", "unknown")} == {
        Certainty.WILL_REPEAT,
        Certainty.UNKNOWN,
    }
