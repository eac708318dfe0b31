"""Most jobs meet nothing and end well; what is written of those by a short way is what the rules say."""

from __future__ import annotations

import pytest

from celery_replay import admission, lifecycle
from celery_replay.facts import Facts
from celery_replay.states import AckMode, Outcome
from tests.rules.builders import NOW, ask, ending, job


@pytest.mark.parametrize("ack", AckMode)
@pytest.mark.parametrize("given", [{}, {"claim": "key", "key": "k"}, {"is_step": True}, {"original": "other"}])
def test_a_first_delivery_is_admitted_as_the_rules_admit_it(ack: AckMode, given: dict[str, object]) -> None:
    of = ask("s", ack=ack, **given)
    assert admission.admitted(admission.first_job(of, NOW)) == admission.admit(Facts(), of, NOW)


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("given", [{}, {"nonce": "another"}, {"canvas": True}, {"result": "1"}, {"unsettled": True}])
@pytest.mark.parametrize("known", [{}, {"status": Outcome.LOST}, {"strikes": 2}, {"claim": "another"}])
def test_a_job_that_ends_well_becomes_what_the_rules_make_of_it(
    outcome: Outcome, given: dict[str, object], known: dict[str, object]
) -> None:
    running = job("s", **known)
    close = ending(outcome, **{"nonce": running.nonce, "claim": running.claim, **given})
    found = lifecycle.end_well(running, close, NOW)
    by_the_rules = lifecycle.close(Facts(job=running), close, NOW)
    assert found is None or (by_the_rules.accepted and by_the_rules.facts == Facts(job=found))
    assert (found is not None) == (
        by_the_rules.accepted and outcome.ended and not outcome.failing and running.status is Outcome.OPEN
    )
