"""Steps with a side effect are written ahead, and are not done twice."""

from __future__ import annotations

import threading

import pytest

from celery_replay import ConfigurationError, StepError, StoreUnavailable, step
from celery_replay.serialization import unpack
from celery_replay.stores.memory import MemoryStore
from celery_replay.trace import timeline


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


def test_steps_that_are_done_say_in_which_order_they_were_begun(lab):
    @step(side_effect=True)
    def charge(part):
        return part

    @lab.task()
    def pay():
        charge("second"), charge("first")

    result = pay.delay()
    lab.get(result)
    lab.settled(result.id)

    claimed = sorted(steps_of(lab, result.id).values(), key=lambda record: record.claimed_at)
    assert lab.job(result.id).started_at <= claimed[0].claimed_at
    assert [record.output for record in claimed] == ['"second"', '"first"']


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


def test_a_claim_whose_answer_got_lost_is_still_ours(lab):
    class Deaf(MemoryStore):
        def claim_step(self, *args, **kwargs):
            super().claim_step(*args, **kwargs)
            return super().claim_step(*args, **kwargs)

    lab.use(Deaf(lab.clock))

    @step(side_effect=True)
    def charge(order_id):
        lab.log.append(order_id)
        return "charged"

    assert lab.get(retrying(lab, charge).delay()) == "charged"
    assert lab.log == [5]


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


@pytest.mark.parametrize(("capture", "kept"), [("keys", 2), ("full", 2), ("none", 0)])
def test_what_a_recorded_step_gives_is_kept_and_it_is_done_each_time(lab, capture, kept):
    @step(recorded=True, encode=lambda rate: {"rate": rate}, decode=lambda kept: kept["rate"])
    def ask(order_id):
        lab.log.append(order_id)
        return len(lab.log)

    result = retrying(lab, ask, capture=capture).delay()
    lab.get(result)
    lab.settled(result.id)

    assert lab.log == [5, 5]
    assert steps_of(lab, result.id) == {}
    job = lab.job(result.id)
    told = [event.output_ref for event in timeline(lab.store, job.trace_id) if event.name == "step_done"]
    bodies = [unpack(body) for body in lab.store.blobs(list(filter(None, told))).values()]
    assert sorted(body["output"] for body in bodies) == ['{"rate": 1}', '{"rate": 2}'][:kept]
    assert len({body["call"] for body in bodies}) == min(kept, 1)


@pytest.mark.parametrize("options", [{"side_effect": True, "recorded": True}, {"recorded": True, "verify": print}])
def test_a_recorded_step_is_no_side_effect(options):
    with pytest.raises(ConfigurationError):
        step(**options)(lambda: None)


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
