"""Steps with a side effect are written ahead, and are not done twice."""

from __future__ import annotations

import threading

import pytest

from celery_replay import ConfigurationError, Outcome, OwnershipLost, StepError, StoreUnavailable, UnknownOutcome, step
from celery_replay.states import Category, StepState
from celery_replay.stores.memory import MemoryStore
from tests.inprocess.lab import Gate


class Opaque:
    """Has no text of its own."""


def steps_of(lab, task_id):
    return {record.key: record for record in lab.store.steps(lab.job(task_id).identity)}


def retrying(lab, body, fails=1, **options):
    """Register a task that does its body and then asks for a retry, so often."""

    @lab.task(bind=True, max_retries=9, **options)
    def pay(self, order_id=5):
        value = body(order_id)
        if self.request.retries < fails:
            raise self.retry(countdown=0)
        return value

    return pay


# Done once


def test_a_step_that_was_done_is_not_done_again_by_a_retry(any_lab):
    lab = any_lab

    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)
        return {"charge": len(lab.log)}

    result = retrying(lab, charge, fails=3).delay()

    assert lab.get(result) == {"charge": 1}
    assert lab.log == [5]
    lab.settled(result.id)
    assert lab.names(result.id).count("step_skipped") == 3


@pytest.mark.parametrize("value", [0, "", [], {}, False, None, 0.0], ids=repr)
def test_a_falsy_output_is_replayed_as_it_was(lab, value):
    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)
        return value

    result = retrying(lab, charge).delay()

    assert (lab.get(result), type(lab.get(result))) == (value, type(value))
    assert lab.log == [5]


def test_steps_are_recognised_in_whatever_order_they_come(lab):
    @step(side_effect=True)
    def charge(customer):
        lab.log.append(customer)
        return customer.upper()

    orders = iter([["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]])
    result = retrying(lab, lambda _: [charge(customer) for customer in next(orders)], fails=2).delay()

    assert lab.get(result) == ["B", "C", "A"]
    assert lab.log == ["a", "b", "c"]


def test_the_same_call_twice_is_two_effects_and_a_retry_repeats_neither(lab):
    @step(side_effect=True)
    def charge(amount):
        lab.log.append(amount)
        return len(lab.log)

    result = retrying(lab, lambda _: [charge(5), charge(5)]).delay()

    assert lab.get(result) == [1, 2]
    assert lab.log == [5, 5]


def test_the_order_of_a_mapping_or_a_set_does_not_make_it_another_step(lab):
    @step(side_effect=True)
    def charge(lines, tags):
        lab.log.append(1)

    arguments = iter([({"a": 1, "b": 2}, {"x", "y"}), ({"b": 2, "a": 1}, {"y", "x"})])
    result = retrying(lab, lambda _: charge(*next(arguments))).delay()
    lab.get(result)

    assert lab.log == [1]


def test_a_step_with_a_key_is_one_effect_however_often_it_is_called(lab):
    @step(side_effect=True, key="label:{order_id}")
    def label(address):
        lab.log.append(address)
        return f"label for {address}"

    result = retrying(lab, lambda order_id: [label("here"), label("here")]).delay()

    assert lab.get(result) == ["label for here"] * 2
    assert lab.log == ["here"]


def test_a_steps_key_may_name_parameters_of_the_step_and_of_the_task(lab):
    @step(side_effect=True, key="label:{order_id}:{address[city]}")
    def label(address):
        return 1

    result = retrying(lab, lambda order_id: label({"city": "Ghent"})).delay(7)
    lab.get(result)
    lab.settled(result.id)

    assert list(steps_of(lab, result.id)) == ["label:7:Ghent"]


def test_a_duplicate_submission_does_not_repeat_a_step_that_failed_later(lab):
    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)
        return order_id

    @lab.task(idempotency_key="pay:{order_id}", on_incomplete="resume")
    def pay(order_id):
        charge(order_id)
        if lab.log.count("failed") == 0:
            lab.log.append("failed")
            raise ValueError("after the charge")
        return "paid"

    lab.error(pay.delay(5))

    assert lab.get(pay.delay(5)) == "paid"
    assert lab.log == [5, "failed"]


def test_another_job_does_the_step_again(lab):
    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)

    pay = retrying(lab, charge, fails=0)
    lab.get(pay.delay(5))
    lab.get(pay.delay(5))

    assert lab.log == [5, 5]


def test_an_output_that_is_not_json_is_done_and_lost(lab):
    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)
        return {1, 2}

    result = retrying(lab, lambda order_id: charge(order_id) and None).delay()

    assert lab.error(result).id == "result-unavailable"
    assert lab.log == [5]


def test_a_steps_end_that_is_being_written_while_its_attempt_closes_is_not_lost(lab):
    class Slow(MemoryStore):
        """Fails a flush, but only once somebody has begun to close."""

        def flush(self, advanced=(), chunks=(), steps=(), calm=()):
            if steps and not closing.is_set():
                flushing.set()
                closing.wait(0.2)
                raise StoreUnavailable("down")
            super().flush(advanced, chunks, steps, calm)

        def close(self, *args, **kwargs):
            closing.set()
            return super().close(*args, **kwargs)

    flushing, closing = threading.Event(), threading.Event()
    lab.use(Slow(lab.clock))

    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)
        return "charged"

    @lab.task(bind=True, max_retries=1, on_incomplete="resume")
    def pay(self, order_id):
        value = charge(order_id)
        if not self.request.retries:
            assert flushing.wait(5)
            raise self.retry(countdown=0)
        return value

    assert lab.get(pay.delay(5)) == "charged"
    assert lab.log == [5]


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
    assert lab.letters() == []


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


# Declaring steps


def test_outside_of_a_job_a_step_is_its_function():
    @step(side_effect=True, key="{nobody}")
    def charge(amount, /, *, currency="EUR"):
        """Charge somebody."""
        return amount, currency

    assert (charge(5), charge(5, currency="USD")) == ((5, "EUR"), (5, "USD"))
    assert (charge.__name__, charge.__doc__) == ("charge", "Charge somebody.")


def test_a_step_without_side_effect_is_only_traced(lab):
    @step
    def check(order_id):
        lab.log.append(order_id)

    result = retrying(lab, check).delay()
    lab.get(result)
    lab.settled(result.id)

    assert lab.log == [5, 5]
    assert lab.names(result.id).count("step_done") == 2
    assert steps_of(lab, result.id) == {}


@pytest.mark.parametrize("options", [{"key": "x"}, {"verify": print}])
def test_options_of_side_effects_need_one(options):
    with pytest.raises(ConfigurationError, match="need side_effect=True"):
        step(**options)(lambda: None)


def test_a_step_that_would_return_before_it_has_run_is_refused():
    async def charge(): ...

    def lines():
        yield 1

    for function in (charge, lines):
        with pytest.raises(ConfigurationError, match=f"step {function.__name__}: async functions and generators"):
            step(side_effect=True)(function)


def test_a_key_that_names_nothing_is_an_error_that_lists_the_names(lab):
    @step(side_effect=True, key="charge:{oder_id}")
    def charge(amount):
        lab.log.append(amount)

    result = retrying(lab, lambda _: charge(5), fails=0).delay()
    error = lab.error(result)

    assert isinstance(error, StepError)
    assert "'oder_id', which is no parameter of the step or task (amount, order_id)" in str(error)
    assert lab.log == []


def test_an_argument_that_another_attempt_would_not_recognise_needs_a_key(lab):
    @step(side_effect=True)
    def charge(customer):
        lab.log.append(customer)

    error = lab.error(retrying(lab, lambda _: charge(Opaque()), fails=0).delay())

    assert isinstance(error, StepError)
    assert "give the step key=" in str(error)
    assert lab.log == []


def test_with_a_key_any_argument_will_do(lab):
    @step(side_effect=True, key="charge:{order_id}")
    def charge(customer):
        lab.log.append(1)

    lab.get(retrying(lab, lambda _: charge(Opaque())).delay())

    assert lab.log == [1]
