"""Arguments, results and exceptions that nobody should use, and somebody does."""

from __future__ import annotations

import base64
import json

import pytest

from celery_replay import Outcome
from celery_replay.serialization import unpack


class TwoArguments(Exception):
    """Pickles, and does not unpickle."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Unpicklable(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = lambda: None


class Hostile(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Base(BaseException):
    pass


def test_a_result_that_can_not_be_sent_is_a_result_lost_and_the_effect_stays_done(lab):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        return object()

    result = pay.delay(5)
    assert "not JSON serializable" in str(lab.error(result))
    job = lab.settled(result.id)

    assert (job.status, job.result_lost) == (Outcome.SUCCEEDED, True)
    assert "result_lost" in lab.names(result.id)
    assert lab.error(pay.delay(5)).id == "result-unavailable"
    assert lab.log == [5]


@pytest.mark.parametrize(
    "make",
    [lambda: TwoArguments(5, "declined"), lambda: Unpicklable("declined"), lambda: ValueError("nul\x00 \ud800")],
    ids=["does not unpickle", "does not pickle", "odd text"],
)
def test_an_odd_exception_is_kept_as_text_and_the_worker_goes_on(any_lab, make):
    lab = any_lab

    @lab.task()
    def pay():
        raise make()

    result = pay.delay()
    lab.error(result)
    lab.settled(result.id)

    letter = lab.letter(result.id)
    assert letter.error_type.rpartition(".")[2] == type(make()).__name__
    assert "raise make()" in letter.traceback
    assert "\x00" not in letter.error_message
    assert isinstance(lab.error(pay.delay()), Exception)


@pytest.mark.parametrize("retried", [TwoArguments(5, "down"), Unpicklable("down")], ids=lambda e: type(e).__name__)
def test_an_odd_exception_passed_to_retry_is_retried(lab, retried):
    @lab.task(bind=True, max_retries=2)
    def pay(self):
        lab.log.append("tried")
        raise self.retry(exc=retried, countdown=0)

    result = pay.delay()
    lab.error(result)
    lab.settled(result.id)

    assert lab.log == ["tried"] * 3
    assert lab.letter(result.id).error_message == "down"


def test_an_exception_without_text_closes_the_attempt(lab):
    @lab.task()
    def pay():
        raise Hostile

    result = pay.delay()
    lab.wait(lab.letters)

    assert lab.job(result.id).status is Outcome.FAILED
    assert lab.letters()[0].error_message == "<Hostile that can't be shown: RuntimeError>"


def test_an_exception_of_five_megabytes_is_cut(lab):
    @lab.task()
    def pay():
        raise ValueError("x" * 5_000_000)

    result = pay.delay()
    lab.error(result)
    lab.settled(result.id)
    letter = lab.letter(result.id)

    assert len(letter.error_message) == 4_000
    assert len(letter.traceback) <= 20_000


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"order_id": 1}), ((), {"nobody": 1})])
def test_arguments_that_do_not_fit_fail_the_job_with_a_letter(lab, args, kwargs):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)

    result = lab.app.send_task(pay.name, args, kwargs)

    assert isinstance(lab.error(result), TypeError)
    lab.settled(result.id)
    assert lab.letter(result.id).error_type == "builtins.TypeError"
    assert lab.log == []


@pytest.mark.parametrize(
    "header",
    [
        None,
        "text",
        5,
        [],
        {},
        {"s": 5, "t": 5},
        {"s": "x" * 5_000, "t": "t"},
        {"v": 99, "s": "s-new", "t": "t", "zz": [1]},
    ],
    ids=lambda header: str(header)[:20],
)
def test_a_message_with_any_header_of_ours_runs(lab, header):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        return order_id

    result = pay.delay(1)
    lab.get(result)
    copy = lab.messages(result.id)[0]
    copy.headers["id"] = copy.message["headers"]["id"] = f"{result.id}-2"
    copy.message["headers"]["celery_replay"] = header
    lab.redeliver(copy)

    assert lab.get(lab.app.AsyncResult(f"{result.id}-2")) == 1
    assert lab.log == [1]


@pytest.mark.parametrize(
    "fields", [{"a": "yesterday"}, {"a": -1, "f": []}, {"k": 5}, {"h": 5, "k": ["x"]}, {"c": {}, "p": 7}]
)
def test_a_mistyped_field_of_our_header_does_not_hurt_the_job(lab, fields):
    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        return order_id

    result = pay.apply_async((1,), countdown=0)
    lab.get(result)
    copy = lab.messages(result.id)[0]
    copy.message["headers"]["id"] = f"{result.id}-2"
    copy.message["headers"]["celery_replay"].update(s="another", **fields)
    lab.redeliver(copy)

    assert lab.get(lab.app.AsyncResult(f"{result.id}-2")) == 1
    assert lab.log == [1]


def test_a_message_from_before_adoption_runs_once(lab):
    @lab.task()
    def pay(order_id):
        lab.log.append(order_id)
        return order_id

    result = pay.delay(1)
    lab.get(result)
    copy = lab.messages(result.id)[0]
    del copy.message["headers"]["celery_replay"]
    copy.message["headers"]["id"] = f"{result.id}-old"
    for _ in range(3):
        lab.redeliver(copy)

    assert lab.get(lab.app.AsyncResult(f"{result.id}-old")) == 1
    lab.settled(f"{result.id}-old")
    lab.idle()
    assert lab.log == [1, 1]


def test_a_result_of_many_types_comes_back_the_same(lab):
    from datetime import date, datetime, timezone
    from decimal import Decimal
    from uuid import UUID

    value = [date(2026, 3, 29), datetime(2026, 3, 29, tzinfo=timezone.utc), Decimal("1.10"), UUID(int=5), b"\xff"]

    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        return value

    assert lab.get(pay.delay(5)) == lab.get(pay.delay(5)) == value


def test_a_job_that_comes_after_its_time_has_expired(lab):
    gate_time = 0.05

    @lab.task(bind=True, max_retries=3)
    def pay(self):
        lab.log.append("tried")
        raise self.retry(countdown=0.3)

    result = pay.apply_async(expires=gate_time + 0.1)
    lab.wait(lambda: lab.log)
    lab.idle()

    assert lab.log == ["tried"]
    assert len(lab.messages(result.id)) == 2
    assert lab.messages(result.id)[0].headers["expires"] == lab.messages(result.id)[1].headers["expires"]


@pytest.mark.parametrize("changed", ["text", [1, 2], object()], ids=["text", "list", "no data at all"])
def test_a_letter_has_the_arguments_as_they_came_whatever_the_body_did_to_them(lab, changed):
    @lab.task(acks_late=True, reject_on_worker_lost=True)
    def pay(order, lines, **more):
        order["total"] = changed
        lines.append(changed)
        more["more"]["x"] = changed
        raise ValueError("declined")

    result = pay.delay({"id": 5, "total": 1}, [1], more={"x": 0})
    lab.error(result)
    lab.settled(result.id)

    letter = lab.letter(result.id)
    assert letter.error_message == "declined"
    args, kwargs, _ = json.loads(base64.b64decode(unpack(letter.message)["body"]))
    assert (args, kwargs) == ([{"id": 5, "total": 1}, [1]], {"more": {"x": 0}})
