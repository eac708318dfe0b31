"""Two submissions of one key: the body runs once, and everybody gets its result."""

from __future__ import annotations

import logging

import pytest

from celery_replay import KeyConflict, Outcome, ResultUnavailable, signals
from celery_replay.states import Reason, RowStatus
from tests.inprocess.lab import Gate

FALSY = [0, "", [], {}, False, None, 0.0]


@pytest.mark.parametrize("value", [*FALSY, 5, {"a": [1, {"b": None}]}], ids=repr)
def test_a_second_submission_gets_the_first_result(lab, value):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        return value

    first, second = pay.delay(5), None
    assert lab.get(first) == value
    second = pay.delay(5)

    assert (lab.get(second), type(lab.get(second))) == (value, type(value))
    assert lab.log == [5]
    assert lab.settled(second.id).status is Outcome.DEDUPLICATED


@pytest.mark.parametrize("value", FALSY, ids=repr)
def test_one_that_comes_while_the_first_runs_waits_in_the_store_and_gets_its_result(lab, value):
    gate = Gate()

    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        gate.wait()
        return value

    first = pay.delay(5)
    gate.await_reached()
    second = pay.delay(5)
    row = lab.wait(lambda: list(lab.store.rows()), "parking")[0]
    gate.open()

    assert (row.status, row.reason) == (RowStatus.PARKED, Reason.IN_FLIGHT)
    assert (lab.get(first), lab.get(second)) == (value, value)
    assert lab.log == [5]
    lab.settled(second.id)
    lab.wait(lambda: not list(lab.store.rows()), "the row's end")


def test_many_at_once_run_once(lab):
    gate = Gate()

    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        gate.wait()
        return len(lab.log)

    results = [pay.delay(5) for _ in range(20)]
    gate.await_reached()
    gate.open()

    assert [lab.get(result) for result in results] == [1] * 20
    assert lab.log == [5]


def test_another_key_runs(lab):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)

    for order_id in (5, 6, 5):
        lab.get(pay.delay(order_id))

    assert lab.log == [5, 6]


def test_the_same_key_of_another_task_runs(lab):
    def body(order_id):
        lab.log.append(order_id)

    first = lab.task(name="lab.first", idempotency_key="k:{order_id}")(body)
    second = lab.task(name="lab.second", idempotency_key="k:{order_id}")(body)

    lab.get(first.delay(5))
    lab.get(second.delay(5))

    assert lab.log == [5, 5]


def test_however_the_arguments_are_passed_it_is_the_same_job(lab):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id, currency="EUR"):
        lab.log.append(order_id)
        return currency

    results = [pay.delay(5), pay.delay(order_id=5), pay.delay(5, "EUR"), pay.delay(5, currency="EUR")]

    assert [lab.get(result) for result in results] == ["EUR"] * 4
    assert lab.log == [5]


def test_its_callbacks_proceed_with_the_first_result(lab):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append("paid")
        return order_id

    @lab.task()
    def thank(order_id):
        lab.log.append(f"thanked {order_id}")

    for _ in range(2):
        lab.get(pay.apply_async((5,), link=thank.s()))
    lab.wait(lambda: len(lab.log) == 3)

    assert lab.log == ["paid", "thanked 5", "thanked 5"]


def test_after_a_failure_the_key_runs_again(lab):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        if len(lab.log) == 1:
            raise ValueError("declined")
        return "paid"

    first = pay.delay(5)
    assert isinstance(lab.error(first), ValueError)
    second = pay.delay(5)

    assert lab.get(second) == "paid"


def test_one_that_waited_for_a_failing_job_runs(lab):
    gate = Gate()

    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        gate.wait()
        if len(lab.log) == 1:
            raise ValueError("declined")
        return "paid"

    first = pay.delay(5)
    gate.await_reached()
    second = pay.delay(5)
    lab.wait(lambda: list(lab.store.rows()))
    gate.open()

    assert isinstance(lab.error(first), ValueError)
    assert lab.get(second) == "paid"
    assert lab.log == [5, 5]


def test_a_task_may_refuse_a_key_that_failed(lab):
    @lab.task(idempotency_key="pay:{order_id}", on_failed_key="refuse")
    def pay(order_id):
        lab.log.append(order_id)
        raise ValueError("declined")

    lab.error(pay.delay(5))
    second = pay.delay(5)

    assert "on_failed_key" in str(lab.error(second))
    assert lab.log == [5]
    assert lab.letter(second.id).reason is Reason.KEY_FAILED


def test_a_result_that_can_not_be_returned_again_is_a_named_error(lab):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        return {1, 2}

    first = pay.apply_async((5,), ignore_result=True)
    lab.settled(first.id)
    second = pay.delay(5)

    assert isinstance(lab.error(second), ResultUnavailable)
    assert lab.log == [5]


# Conflicts


def test_the_same_key_with_another_payload_is_a_failure_with_a_letter(lab):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id, amount):
        lab.log.append(amount)
        return amount

    first = pay.delay(5, amount=10)
    lab.get(first)
    second = pay.delay(5, amount=99)
    error = lab.error(second)

    assert isinstance(error, KeyConflict)
    assert lab.log == [10]
    letter = lab.letter(second.id)
    assert (letter.reason, letter.category, letter.key) == (Reason.KEY_CONFLICT, "validation", "pay:5")
    told = f"give the new intent a key of its own (key 'pay:5', its job is {first.id})"
    assert told in str(error)
    assert told in letter.error_message
    assert lab.settled(second.id).status is Outcome.FAILED_VALIDATION


def test_a_conflict_does_not_disturb_the_first_job(lab):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id, amount):
        return amount

    first = pay.delay(5, amount=10)
    lab.get(first)
    lab.error(pay.delay(5, amount=99))

    assert lab.get(pay.delay(5, amount=10)) == 10
    assert lab.settled(first.id).status is Outcome.SUCCEEDED


def test_a_conflict_while_the_first_runs_is_found_once_it_has_ended(lab):
    gate = Gate()

    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id, amount):
        lab.log.append(amount)
        gate.wait()

    pay.delay(5, amount=10)
    gate.await_reached()
    second = pay.delay(5, amount=99)
    lab.wait(lambda: list(lab.store.rows()))
    gate.open()

    assert isinstance(lab.error(second), KeyConflict)
    assert lab.log == [10]


# Unstable keys


def test_a_key_that_changes_on_the_way_is_reported_by_name(lab, caplog):
    count = iter(range(100))

    @lab.task(idempotency_key=lambda order_id: f"pay:{order_id}:{next(count)}")
    def pay(order_id):
        lab.log.append(order_id)

    caplog.set_level(logging.WARNING)
    seen = []

    def receive(sender, published, computed, **_):
        seen.append((sender.name, published, computed))

    signals.unstable_key.connect(receive)
    try:
        lab.get(pay.delay(5))
    finally:
        signals.unstable_key.disconnect(receive)

    assert seen == [(pay.name, "pay:5:0", "pay:5:1")]
    (record,) = [record for record in caplog.records if record.message == "replay.unstable_key"]
    assert (record.task, record.published, record.computed) == (pay.name, "pay:5:0", "pay:5:1")


def test_the_published_key_counts_over_all_attempts(lab):
    count = iter(range(100))

    @lab.task(bind=True, idempotency_key=lambda order_id: f"pay:{order_id}:{next(count)}", max_retries=3)
    def pay(self, order_id):
        lab.log.append(self.attempt.key)
        if self.request.retries < 2:
            raise self.retry(countdown=0)

    lab.get(pay.delay(5))

    assert lab.log == ["pay:5:0"] * 3


def test_a_receiver_that_fails_does_not_break_the_job(lab):
    count = iter(range(100))

    @lab.task(idempotency_key=lambda order_id: f"{next(count)}")
    def pay(order_id):
        return order_id

    def receive(**_):
        raise RuntimeError("no")

    before = signals.failed_observations
    signals.unstable_key.connect(receive)
    try:
        assert lab.get(pay.delay(5)) == 5
    finally:
        signals.unstable_key.disconnect(receive)
    assert signals.failed_observations == before + 1


def test_a_key_that_can_not_be_computed_fails_the_job_with_evidence(lab):
    @lab.task(idempotency_key=lambda order_id: order_id["id"])
    def pay(order_id):
        lab.log.append(order_id)

    result = pay.delay(5)

    assert isinstance(lab.error(result), TypeError)
    assert lab.log == []
    assert lab.letter(result.id).error_type == "builtins.TypeError"
