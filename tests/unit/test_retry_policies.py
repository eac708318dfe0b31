"""When a failed job is tried again."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_replay import Category
from celery_replay.retries import DeadLetter, FailurePolicy, Retry
from celery_replay.retries.policy import decide
from celery_replay.retries.rules import Judgement

numbers = st.floats(min_value=0.001, max_value=1e6)


def failed(category: Category = Category.TRANSIENT, retry_after_s: float | None = None) -> Judgement:
    return Judgement(category=category, rule="", because="", retry_after_s=retry_after_s)


def decided(policy: FailurePolicy, judged: Judgement, made: int = 1, most: int | None = 4, age_s: float = 0):
    return decide(policy, judged, made=made, most=most, age_s=age_s, seed="job")


@pytest.mark.parametrize("attempt", [1, 2, 46, 47, 1_100, 10**9])
@pytest.mark.parametrize("factor", [1, 2, 5, 1e300])
@pytest.mark.parametrize("jitter", ["full", "decorrelated", "none"])
def test_a_delay_is_a_number_and_never_above_its_cap(attempt, factor, jitter):
    delay = Retry(first_s=1, factor=factor, cap_s=3_600, jitter=jitter).delay_s(attempt, "job")

    assert math.isfinite(delay)
    assert 0 <= delay <= 3_600


@given(numbers, st.floats(min_value=1, max_value=1e6), numbers, st.integers(min_value=1, max_value=5_000), st.text())
def test_whatever_is_declared_a_delay_is_finite_and_within_it(first, factor, cap, attempt, seed):
    first = min(first, cap)
    for jitter in ("full", "decorrelated", "none"):
        delay = Retry(first_s=first, factor=factor, cap_s=cap, jitter=jitter).delay_s(attempt, seed)
        assert 0 <= delay <= cap * (1 + 1e-9)


def test_without_jitter_delays_double():
    retry = Retry(first_s=1, cap_s=10, jitter="none")

    assert [retry.delay_s(attempt, "job") for attempt in (1, 2, 3, 4, 5)] == [1, 2, 4, 8, 10]


@pytest.mark.parametrize("jitter", ["full", "decorrelated"])
def test_jobs_that_failed_together_do_not_come_back_together(jitter):
    retry = Retry(first_s=1, cap_s=600, jitter=jitter)

    delays = sorted(retry.delay_s(4, f"job {number}") for number in range(1_000))

    assert delays[-1] - delays[0] > 6
    assert max(Counter(map(int, delays)).values()) < 250


def test_one_jobs_delays_are_the_same_whoever_computes_them():
    assert Retry().delay_s(3, "job") == Retry().delay_s(3, "job") != Retry().delay_s(3, "another")


def test_attempts_are_limited_by_the_policy_or_else_by_the_tasks_max_retries():
    assert decided(FailurePolicy(), failed(), made=3, most=4).delay_s is not None
    assert decided(FailurePolicy(), failed(), made=4, most=4).delay_s is None
    assert decided(FailurePolicy(), failed(), made=4_000, most=None).delay_s is not None
    assert decided(FailurePolicy(transient=Retry(max_attempts=9)), failed(), made=8, most=4).delay_s is not None
    assert decided(FailurePolicy(transient=Retry(max_attempts=9)), failed(), made=9, most=None).delay_s is None


@pytest.mark.parametrize("category", ["validation", "permanent", "poison", "unknown_outcome", "unclassified"])
def test_what_would_fail_again_is_not_tried_again(category):
    decision = decided(FailurePolicy(), failed(Category(category)))

    assert decision.delay_s is None
    assert category in decision.said


def test_a_server_that_asks_for_more_time_gets_it():
    policy = FailurePolicy(throttled=Retry(cap_s=10))

    assert decided(policy, failed(Category.THROTTLED, 300)).delay_s == 300
    assert decided(policy, failed(Category.THROTTLED, 0)).delay_s <= 10


def test_a_job_that_would_be_too_old_then_is_given_up_now():
    policy = FailurePolicy(transient=Retry(max_age_s=60, jitter="none"))

    assert decided(policy, failed(), age_s=58).delay_s == 1
    assert decided(policy, failed(), age_s=59.5).delay_s is None
    assert decided(policy, failed(retry_after_s=100)).delay_s is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"max_attempts": 1.5}, "max_attempts=1.5"),
        ({"first_s": -1}, "first_s=-1"),
        ({"cap_s": math.inf}, "cap_s=inf"),
        ({"first_s": 20, "cap_s": 10}, "first_s=20 is above cap_s=10"),
        ({"jitter": "some"}, "some"),
    ],
)
def test_a_retry_that_makes_no_sense_is_an_error_at_once(wrong, said):
    with pytest.raises(ValueError, match=said):
        Retry(**wrong)


@pytest.mark.parametrize("wrong", [{"transient": 3}, {"rules": ["permanent"]}, {"transient": DeadLetter}])
def test_a_policy_that_makes_no_sense_is_an_error_at_once(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FailurePolicy(**wrong)
