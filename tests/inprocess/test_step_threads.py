"""Steps in threads and coroutines of a body."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from celery_replay import OwnershipLost, StepError, current_attempt, step
from tests.inprocess.lab import Gate


@pytest.fixture
def charge(lab):
    @step(side_effect=True)
    def charge(customer):
        lab.log.append(customer)
        return customer.upper()

    return charge


def pool(*functions):
    """Call functions in threads that know nothing."""
    with ThreadPoolExecutor(len(functions)) as threads:
        return [future.result(10) for future in [threads.submit(function) for function in functions]]


def carried(function, *args):
    context = contextvars.copy_context()
    return lambda: context.run(function, *args)


def in_threads(charge):
    return pool(carried(charge, "ann"), carried(charge, "bob"))


def in_coroutines(charge):
    async def all_of_them():
        async def one(customer):
            return charge(customer)

        return await asyncio.gather(one("ann"), one("bob"))

    return asyncio.run(all_of_them())


def in_threads_of_a_loop(charge):
    async def all_of_them():
        return await asyncio.gather(asyncio.to_thread(charge, "ann"), asyncio.to_thread(charge, "bob"))

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("way", [in_threads, in_coroutines, in_threads_of_a_loop], ids=lambda way: way.__name__)
def test_steps_are_done_once_wherever_a_body_calls_them(any_lab, charge, way):
    lab = any_lab

    @lab.task(bind=True, max_retries=2)
    def pay(self):
        found = way(charge)
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return found

    assert lab.get(pay.delay()) == ["ANN", "BOB"]
    assert sorted(lab.log) == ["ann", "bob"]


def test_one_step_in_two_threads_is_one_effect(lab):
    gate = Gate()

    @step(side_effect=True, key="charge")
    def charge():
        lab.log.append("charged")
        gate.wait()
        return len(lab.log)

    @lab.task()
    def pay():
        return pool(carried(charge), carried(charge), carried(lambda: (gate.await_reached(), gate.open())))[:2]

    assert lab.get(pay.delay()) == [1, 1]
    assert lab.log == ["charged"]


def test_a_thread_that_does_not_know_its_job_is_refused_before_the_effect(any_lab, charge):
    lab = any_lab

    @lab.task()
    def pay():
        return pool(lambda: charge("ann"))

    error = lab.error(pay.delay())
    assert isinstance(error, StepError)
    assert "start it by contextvars.copy_context().run" in str(error)
    assert lab.log == []


def test_a_step_without_side_effect_is_called_in_any_thread(lab):
    @step
    def check():
        return current_attempt() is None

    @lab.task()
    def pay():
        return pool(check)

    assert lab.get(pay.delay()) == [True]


def test_a_thread_that_outlives_its_job_has_no_further_effect(lab, charge):
    gate, found = Gate(), []

    def later():
        gate.wait()
        with pytest.raises(OwnershipLost):
            charge("ann")
        found.append("refused")

    @lab.task()
    def pay():
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(later,)).start()

    result = pay.delay()
    lab.get(result)
    lab.settled(result.id)
    gate.open()
    lab.wait(lambda: found)
    assert lab.log == []


def test_a_job_leaves_nothing_behind_in_its_thread(lab, charge):
    @lab.task()
    def pay():
        return charge("ann")

    lab.get(pay.delay())
    lab.idle()

    assert current_attempt() is None
    assert charge("bob") == "BOB"


def test_a_step_that_only_reads_may_be_a_coroutine_and_is_told_when_it_has_run(lab):
    @step(recorded=True)
    async def rate(currency):
        await asyncio.sleep(0)
        lab.log.append(currency)
        return 1.5

    @step
    async def fails():
        await asyncio.sleep(0)
        raise LookupError("no street")

    async def both():
        found = await asyncio.gather(rate("EUR"), rate("USD"))
        with pytest.raises(LookupError):
            await fails()
        return found

    @lab.task()
    def pay():
        return asyncio.run(both())

    result = pay.delay()
    assert lab.get(result) == [1.5, 1.5]
    assert sorted(lab.log) == ["EUR", "USD"]
    told = [(event.step, event.name) for event in lab.events(result.id) if event.step]
    assert told == [("rate", "step_done"), ("rate", "step_done"), ("fails", "step_failed")]
    # Outside of a task it is the function that it is.
    assert asyncio.run(rate("CHF")) == 1.5
