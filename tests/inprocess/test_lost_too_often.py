"""Jobs that are lost each time they run, though nobody takes them over: a target has seen a token of the future."""

from __future__ import annotations

import pytest

from celery_replay import FenceRefused, LostTooOften, Outcome
from celery_replay.states import Reason

CAP = 4


def raises(task, error):
    raise error


def retries(task, error):
    raise task.retry(exc=error, countdown=0)


EVERY = {"autoretry_for": (Exception,), "max_retries": None, "retry_backoff": False, "default_retry_delay": 0}
MANNERS = [(raises, {}), (raises, EVERY), (retries, {"max_retries": None})]
"""No retry is published, whatever the task asks for: the job goes on elsewhere, or as the same delivery."""


@pytest.fixture(params=MANNERS, ids=["raised", "retried by Celery", "retried by its body"])
def lost_each_time(request, lab):
    how, options = request.param
    lab.configure(requeue_cap=CAP)
    fences = []

    @lab.task(bind=True, acks_late=True, idempotency_key="ship", on_incomplete="resume", **options)
    def ship(self):
        assert self.request.retries == 0
        fences.append(self.attempt.fence)
        if len(fences) <= len(ship.refusals):
            how(self, FenceRefused("database 'default' has seen token 99 of the future"))
        return "shipped"

    ship.refusals = range(1000)
    return lab, ship, fences


def comes(lab, fences, count):
    """Let it come as often as that, and say after how many seconds it did."""
    waited = 0
    while len(fences) < count:
        lab.idle()
        if len(fences) < count and not lab.release_due():
            lab.clock.forward(1)
            waited += 1
    return waited


def test_such_a_job_comes_ever_later_and_ends_in_a_letter_that_says_why(lost_each_time):
    lab, ship, fences = lost_each_time
    result = ship.delay()
    waits = [comes(lab, fences, count) for count in range(1, CAP + 1)]
    assert waits == [0, 0, 1, 2]
    assert isinstance(lab.error(result), LostTooOften)
    letter = lab.letter(result.id)
    assert (letter.reason, lab.settled(result.id).status) == (Reason.OWNERSHIP_LOST, Outcome.FAILED)
    assert "seen token 99 of the future" in letter.error_message
    assert fences == sorted(set(fences))
    assert len(fences) == CAP


def test_a_job_whose_token_is_high_enough_in_the_end_goes_through(lost_each_time):
    lab, ship, fences = lost_each_time
    ship.refusals = range(CAP - 1)
    result = ship.delay()
    comes(lab, fences, CAP)
    assert lab.get(result) == "shipped"
    assert lab.letter(result.id) is None
