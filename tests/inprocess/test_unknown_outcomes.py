"""Steps and bodies of which nobody knows how they ended, and attempts that are no longer the owner."""

from __future__ import annotations

import pytest

from celery_replay import Outcome, OwnershipLost, UnknownOutcome, step
from celery_replay.states import Category, StepState
from tests.inprocess.lab import Gate


def steps_of(lab, task_id):
    return {record.key: record for record in lab.store.steps(lab.job(task_id).identity)}


# Errors


def test_a_step_that_failed_with_an_answer_is_tried_again(lab):
    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)
        if len(lab.log) < 3:
            raise ValueError("declined")
        return "charged"

    @lab.task(autoretry_for=(ValueError,), default_retry_delay=0, max_retries=5)
    def pay(order_id):
        return charge(order_id)

    result = pay.delay(5)

    assert lab.get(result) == "charged"
    assert lab.log == [5, 5, 5]
    lab.settled(result.id)
    assert [record.state for record in steps_of(lab, result.id).values()] == [StepState.SETTLED]


def test_a_step_may_be_tried_again_in_the_same_body_after_an_answer(lab):
    @step(side_effect=True, key="charge:{order_id}")
    def charge(order_id):
        lab.log.append(order_id)
        if len(lab.log) == 1:
            raise ValueError("declined")
        return "charged"

    @lab.task()
    def pay(order_id):
        try:
            return charge(order_id)
        except ValueError:
            return charge(order_id)

    assert lab.get(pay.delay(5)) == "charged"
    assert lab.log == [5, 5]


@pytest.mark.parametrize("error", [TimeoutError("no answer"), ConnectionResetError()], ids=lambda e: type(e).__name__)
def test_after_a_time_out_a_person_decides(lab, error):
    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)
        raise error

    @lab.task(autoretry_for=(OSError,), default_retry_delay=0, max_retries=5)
    def pay(order_id):
        charge(order_id)

    result = pay.delay(5)

    assert isinstance(lab.error(result), UnknownOutcome)
    assert lab.log == [5]
    lab.settled(result.id)
    assert lab.letter(result.id).category is Category.UNKNOWN_OUTCOME


def test_after_a_time_out_the_same_body_may_not_do_it_again(lab):
    @step(side_effect=True, key="charge:{order_id}")
    def charge(order_id):
        lab.log.append(order_id)
        raise TimeoutError

    @lab.task()
    def pay(order_id):
        try:
            return charge(order_id)
        except TimeoutError:
            return charge(order_id)

    result = pay.delay(5)

    assert isinstance(lab.error(result), UnknownOutcome)
    assert lab.log == [5]
    lab.settled(result.id)
    assert lab.letter(result.id).category is Category.UNKNOWN_OUTCOME


def test_a_task_may_say_that_a_step_is_done_again_after_a_time_out(lab):
    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)
        if len(lab.log) == 1:
            raise TimeoutError
        return "charged"

    @lab.task(autoretry_for=(OSError,), default_retry_delay=0, on_incomplete="resume")
    def pay(order_id):
        return charge(order_id)

    assert lab.get(pay.delay(5)) == "charged"
    assert lab.log == [5, 5]


@pytest.mark.parametrize(("found", "log"), [("charged", ["charge", "look"]), (None, ["charge", "look", "charge"])])
def test_a_steps_hook_looks_whether_it_was_done(lab, found, log):
    def look(order_id):
        lab.log.append("look")
        assert order_id == 5
        return found

    @step(side_effect=True, verify=look)
    def charge(order_id):
        lab.log.append("charge")
        if lab.log.count("charge") == 1:
            raise TimeoutError
        return "charged"

    @lab.task(autoretry_for=(OSError,), default_retry_delay=0, on_incomplete="resume")
    def pay(order_id):
        return charge(order_id)

    result = pay.delay(5)

    assert lab.get(result) == "charged"
    assert lab.log == log
    lab.settled(result.id)
    assert lab.job(result.id).unsettled is False


def test_a_doubt_that_was_cleared_does_not_stop_the_retry(lab):
    @step(side_effect=True, key="charge:{order_id}", verify=lambda order_id: "charged")
    def charge(order_id):
        lab.log.append("charge")
        raise TimeoutError

    @lab.task(bind=True, max_retries=2)
    def pay(self, order_id):
        try:
            value = charge(order_id)
        except TimeoutError:
            value = charge(order_id)
        if not self.request.retries:
            raise self.retry(countdown=0)
        return value

    assert lab.get(pay.delay(5)) == "charged"
    assert lab.log == ["charge"]


def test_a_hook_that_fails_leaves_the_doubt(lab):
    def look(order_id):
        lab.log.append("look")
        raise ConnectionRefusedError

    @step(side_effect=True, verify=look)
    def charge(order_id):
        lab.log.append("charge")
        raise TimeoutError

    @lab.task(bind=True, autoretry_for=(OSError,), default_retry_delay=0, max_retries=2, on_incomplete="resume")
    def pay(self, order_id):
        return charge(order_id)

    result = pay.delay(5)
    lab.error(result)
    lab.settled(result.id)

    assert lab.log == ["charge", "look", "look"]
    assert lab.job(result.id).unsettled is True


# A body that is one step as a whole


def dies(lab):
    """Let an attempt run out of its lease as if its worker had been killed; the body goes on as a zombie."""
    lab.clock.forward(3600)


@pytest.mark.parametrize(("found", "runs"), [("charged", 1), (0, 1), ("", 1), (None, 2)], ids=repr)
def test_a_tasks_hook_looks_whether_its_effect_exists(lab, found, runs):
    gate = Gate()

    @lab.task(idempotency_key="pay:{order_id}", verify=lambda order_id: found)
    def pay(order_id):
        lab.log.append(order_id)
        if len(lab.log) == 1:
            gate.wait()
            return "of the zombie"
        return "charged again"

    result = pay.delay(5)
    gate.await_reached()
    dies(lab)
    lab.redeliver(lab.messages(result.id)[0])
    job = lab.wait(lambda: lab.job(result.id).status.ended and lab.job(result.id))
    gate.open()

    assert lab.get(result) == ("charged again" if found is None else found)
    assert job.status is Outcome.SUCCEEDED
    lab.idle()
    assert len(lab.log) == runs


def test_without_a_hook_a_keyed_job_whose_worker_died_goes_to_a_person(lab):
    gate = Gate()

    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        gate.wait()

    result = pay.delay(5)
    gate.await_reached()
    dies(lab)
    lab.redeliver(lab.messages(result.id)[0])
    lab.wait(lab.letters)
    gate.open()
    lab.idle()

    assert isinstance(lab.error(result), UnknownOutcome)
    assert lab.letter(result.id).category is Category.UNKNOWN_OUTCOME
    assert lab.log == [5]


# Ownership


def test_a_step_of_an_attempt_that_lost_its_job_is_not_done(lab):
    gate, second = Gate(), Gate()
    done = []

    @step(side_effect=True)
    def charge(who):
        done.append(who)

    @lab.task(bind=True, on_incomplete="resume")
    def pay(self):
        lab.log.append(self.attempt.nonce)
        if len(lab.log) == 1:
            gate.wait()
            charge("zombie")
            return None
        charge("owner")
        second.wait()
        return "paid"

    result = pay.delay()
    gate.await_reached()
    dies(lab)
    lab.redeliver(lab.messages(result.id)[0])
    second.await_reached()
    gate.open()
    lab.wait(lambda: "lease_lost" in lab.names(result.id))
    second.open()

    assert lab.get(result) == "paid"
    assert done == ["owner"]
    lab.idle()
    # Where the reaper was quicker than the second delivery there is one, which that has resolved.
    assert not any(letter.state.unresolved for letter in lab.letters())


def test_an_attempt_can_ask_whether_it_still_owns_its_job(lab):
    gate = Gate()

    @lab.task(bind=True, lease_ttl=1)
    def pay(self):
        lab.log.append(self.attempt.is_lost)
        if len(lab.log) == 1:
            gate.wait()
            lab.wait(lambda: self.attempt.is_lost)
            with pytest.raises(OwnershipLost):
                self.attempt.check()
        return "paid"

    result = pay.delay()
    gate.await_reached()
    dies(lab)
    lab.redeliver(lab.messages(result.id)[0])
    lab.wait(lambda: len(lab.log) == 2)
    gate.open()

    assert lab.get(result) == "paid"
    assert lab.log == [False, False]
