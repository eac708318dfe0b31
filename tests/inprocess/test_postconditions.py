"""A body that returns has not succeeded as long as what has to hold then does not."""

from __future__ import annotations

import pytest

from celery_replay import (
    ConfigurationError,
    OwnershipLost,
    PostconditionFailed,
    PostconditionUnchecked,
    StoreUnavailable,
    Violation,
    current_attempt,
    published,
    record,
    recorded,
    step,
)
from celery_replay.replay.evidence import evidence_of
from celery_replay.retries import FailurePolicy, Retry
from celery_replay.states import Category, Effect, Outcome, Reason
from celery_replay.stores.memory import MemoryStore

SOON = Retry(first_s=0.01, cap_s=0.02)
EAGERLY = FailurePolicy(**{str(kind): SOON for kind in Category})
"""Tries everything again."""


class Away(MemoryStore):
    """A store that nobody can open an attempt in."""

    def open(self, *args, **kwargs):
        raise StoreUnavailable


def shipping(lab, *conditions, **options):
    @lab.task(bind=True, **{"postconditions": conditions, **options})
    def ship(self, order_id):
        lab.log.append(order_id)
        return {"order": order_id, "labels": 2}

    return ship


def ended(lab, result):
    lab.error(result)
    return lab.settled(result.id)


def one_label(result):
    if result["labels"] != 1:
        return Violation(expected=1, found=result["labels"])
    return None


def the_orders_own(order_id, result):
    return result["order"] == order_id


def test_a_condition_gets_what_it_names_and_lets_a_right_result_pass(any_lab):
    seen = []

    def holds(order_id, result):
        seen.append((order_id, result, current_attempt().submission))

    result = shipping(any_lab, holds, the_orders_own).delay(5)

    assert any_lab.get(result) == {"order": 5, "labels": 2}
    job = any_lab.settled(result.id)
    assert job.status is Outcome.SUCCEEDED
    assert seen == [(5, {"order": 5, "labels": 2}, job.submission)]
    (told,) = [event for event in any_lab.events(result.id) if event.name == "postconditions_held"]
    assert told.attributes == {"postconditions": "holds, the_orders_own"}


def test_a_wrong_result_is_a_dead_letter_that_says_what_was_expected_and_found(any_lab):
    result = shipping(any_lab, one_label).delay(5)

    error = any_lab.error(result)
    assert isinstance(error, PostconditionFailed)
    assert str(error) == "one_label: expected 1, found 2 [postcondition]"
    assert any_lab.settled(result.id).status is Outcome.FAILED_VALIDATION
    letter = any_lab.letter(result.id)
    assert (letter.reason, letter.category) == (Reason.POSTCONDITION, Category.VALIDATION)
    assert "one_label: expected 1, found 2" in letter.error_message
    (told,) = [event for event in any_lab.events(result.id) if event.name == "postcondition_failed"]
    assert (told.status, told.attributes) == ("fail", {"postcondition": "one_label", "expected": 1, "found": 2})


def says_no():
    return False


def asserts(order_id):
    assert order_id == 6, f"order {order_id} is not it"


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (says_no, "says_no: expected True, found False"),
        (asserts, "asserts: expected True, found 'order 5 is not it"),
        (lambda result: False, "lambda[0]: expected True, found False"),
    ],
)
def test_it_fails_by_returning_false_or_by_an_assertion(lab, condition, said):
    result = shipping(lab, condition).delay(5)

    ended(lab, result)
    assert lab.letter(result.id).error_message.startswith(said)


def test_all_that_does_not_hold_is_told_at_once(lab):
    result = shipping(lab, one_label, the_orders_own, says_no).delay(5)

    ended(lab, result)
    message = lab.letter(result.id).error_message
    assert "one_label" in message
    assert "says_no" in message
    assert "the_orders_own" not in message


def test_conditions_of_one_name_are_told_apart(lab):
    result = shipping(lab, lambda: False, says_no, says_no).delay(5)

    ended(lab, result)
    told = [event for event in lab.events(result.id) if event.name == "postcondition_failed"]
    assert [event.attributes["postcondition"] for event in told] == ["lambda[0]", "says_no", "says_no[2]"]


def test_letters_are_grouped_by_the_conditions_that_do_not_hold(lab):
    def few(order_id):
        return order_id < 3

    def even(order_id):
        return order_id % 2 == 0

    ship = shipping(lab, few, even)
    results = [ship.delay(number) for number in (5, 7, 4)]
    for result in results:
        ended(lab, result)

    first, second, other = [lab.letter(result.id).group_id for result in results]
    assert first == second != other


@pytest.mark.parametrize("options", [{"failures": EAGERLY}, {"autoretry_for": (Exception,), "default_retry_delay": 0}])
def test_a_wrong_result_is_never_retried(lab, options):
    result = shipping(lab, one_label, **options).delay(5)

    assert ended(lab, result).attempts == 1
    assert lab.log == [5]


def test_a_body_that_is_one_effect_is_not_done_again_by_another_submission(lab):
    """It returned, so what it did has stayed; whether that may be done again somebody has to say."""
    ship = shipping(lab, one_label, idempotency_key="ship:{order_id}")

    first = ship.delay(5)
    assert ended(lab, first).status is Outcome.FAILED_VALIDATION
    assert lab.letter(first.id).category is Category.VALIDATION
    assert lab.letter(first.id).effect is Effect.UNKNOWN
    second = ship.delay(5)

    assert ended(lab, second).status is Outcome.FAILED
    assert lab.letter(second.id).reason is Reason.EFFECT_UNSETTLED
    assert lab.log == [5]


def test_whoever_triages_the_letter_is_told_what_is_known(lab):
    result = shipping(lab, one_label, idempotency_key="ship:{order_id}").delay(5)
    ended(lab, result)

    found = evidence_of(lab.store, lab.letter(result.id))

    assert not found.safe
    assert found.mend.startswith("no sign of it")
    assert found.half_done == ["the body came to its end, and what it did is not as it has to be"]


def test_where_the_task_can_ask_for_the_effect_what_is_found_is_checked_too(lab):
    labels = []

    @lab.task(
        idempotency_key="ship:{order_id}",
        verify=lambda order_id: list(labels) or None,
        postconditions=[lambda result: len(result) == 1],
    )
    def ship(order_id):
        labels.extend([order_id, order_id])
        return list(labels)

    assert ended(lab, ship.delay(5)).status is Outcome.FAILED_VALIDATION
    assert ended(lab, ship.delay(5)).status is Outcome.FAILED_VALIDATION
    labels.pop()
    assert lab.get(ship.delay(5)) == [5]
    assert labels == [5]


def test_steps_that_were_done_are_not_done_again_once_the_code_is_mended(lab):
    bought, right = [], []

    @step(side_effect=True)
    def buy(order_id):
        bought.append(order_id)
        return "label"

    @lab.task(idempotency_key="ship:{order_id}", stepwise=True, postconditions=[lambda result: result == "label, sent"])
    def ship(order_id):
        return buy(order_id) + (", sent" if right else "")

    assert ended(lab, ship.delay(5)).status is Outcome.FAILED_VALIDATION
    right.append(True)
    assert lab.get(ship.delay(5)) == "label, sent"
    assert bought == [5]


def test_a_failing_error_callback_hears_of_it_and_no_link_goes_on(lab):
    @lab.task(ignore_result=True)
    def told(*args):
        lab.log.append("told")

    result = shipping(lab, one_label).apply_async((5,), link=told.si())

    ended(lab, result)
    lab.idle()
    assert lab.log == [5]


def test_a_body_that_has_published_a_retry_is_not_through_yet(lab):
    @lab.task(bind=True, postconditions=[lambda result: result == "shipped"])
    def ship(self):
        if not self.request.retries:
            self.retry(countdown=0, throw=False)
            return "not yet"
        return "shipped"

    job = ended(lab, ship.delay())

    assert (job.status, job.attempts) == (Outcome.SUCCEEDED, 2)


def test_without_the_store_conditions_are_asked_all_the_same(lab):
    lab.use(Away(lab.clock))

    error = lab.error(shipping(lab, one_label, on_store_error="open").delay(5))

    assert isinstance(error, PostconditionFailed)
    assert lab.log == [5]


# Checks that fail themselves


def away(order_id):
    raise ConnectionRefusedError("no database")


def test_a_result_that_could_not_be_checked_is_no_success(lab):
    result = shipping(lab, away).delay(5)

    error = lab.error(result)
    assert isinstance(error, PostconditionUnchecked)
    assert "post-condition away could not be checked: no database" in str(error)
    assert lab.settled(result.id).status is Outcome.FAILED
    letter = lab.letter(result.id)
    assert (letter.reason, letter.category) == (Reason.EXCEPTION, Category.DEPENDENCY)
    assert "test_postconditions.py:away" in letter.frames
    (told,) = [event for event in lab.events(result.id) if event.name == "postcondition_unchecked"]
    assert told.attributes["postcondition"] == "away"


def test_what_else_a_check_returns_is_an_error_of_the_check(lab):
    result = shipping(lab, lambda result: 0).delay(5)

    assert isinstance(lab.error(result), PostconditionUnchecked)


def test_a_body_that_is_one_effect_is_not_done_again_for_a_check_that_failed(lab):
    result = shipping(lab, away, idempotency_key="ship:{order_id}", failures=FailurePolicy(dependency=SOON)).delay(5)

    assert ended(lab, result).attempts == 1
    assert lab.letter(result.id).category is Category.UNKNOWN_OUTCOME
    assert lab.log == [5]


def test_where_the_task_can_ask_the_check_alone_is_tried_again(lab):
    tries = []

    def reachable(order_id):
        tries.append(order_id)
        if len(tries) == 1:
            raise ConnectionRefusedError("no database")

    ship = shipping(
        lab,
        reachable,
        idempotency_key="ship:{order_id}",
        verify=lambda order_id: "found",
        failures=FailurePolicy(dependency=SOON),
    )

    assert lab.get(ship.delay(5)) == "found"
    assert (lab.log, tries) == ([5], [5, 5])


def test_what_is_known_not_to_hold_counts_more_than_what_could_not_be_checked(lab):
    result = shipping(lab, says_no, away).delay(5)

    assert ended(lab, result).status is Outcome.FAILED_VALIDATION


def test_a_check_that_finds_its_job_lost_leaves_it_to_its_new_owner(lab):
    def lost():
        raise OwnershipLost

    result = shipping(lab, lost).delay(5)

    lab.wait(lambda: "refused" in lab.names(result.id))
    assert lab.letter(result.id) is None


# What the trace tells


def invalidates(order_id):
    record("cache_invalidated", key=f"order:{order_id}")


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (recorded("cache_invalidated", key="order:{order_id}"), True),
        (recorded("cache_invalidated"), True),
        (recorded("cache_invalidated", count=1), True),
        (recorded("cache_invalidated", count=2), False),
        (recorded("cache_invalidated", key="other:{order_id}"), False),
        (recorded("order_shipped"), False),
    ],
)
@pytest.mark.parametrize("capture", ["none", "full"])
def test_that_an_event_was_recorded_can_be_asked_for(lab, condition, holds, capture):
    @lab.task(postconditions=[condition], capture=capture)
    def ship(order_id):
        invalidates(order_id)

    job = ended(lab, ship.delay(5))

    assert job.status is (Outcome.SUCCEEDED if holds else Outcome.FAILED_VALIDATION)


@pytest.mark.parametrize("does", [True, False])
def test_that_a_task_was_published_can_be_asked_for(lab, does):
    @lab.task(ignore_result=True)
    def tell(order_id):
        pass

    @lab.task(postconditions=[published(tell)])
    def ship(order_id):
        if does:
            tell.delay(order_id)

    result = ship.delay(5)

    assert ended(lab, result).status is (Outcome.SUCCEEDED if does else Outcome.FAILED_VALIDATION)
    if not does:
        assert f"published {tell.name}: expected '1 or more', found 0" in lab.letter(result.id).error_message


def test_what_an_earlier_attempt_told_is_not_asked_for_again(lab):
    found = []

    @lab.task(
        idempotency_key="ship:{order_id}",
        verify=lambda order_id: found and "found",
        postconditions=[recorded("order_shipped")],
        failures=FailurePolicy(unknown_outcome=SOON, transient=SOON),
    )
    def ship(order_id):
        found.append(order_id)
        record("order_shipped")
        raise TimeoutError

    assert lab.get(ship.delay(5)) == "found"
    assert found == [5]


def test_a_condition_may_compare_with_what_was_before(lab):
    stock = {"5": 3}

    def one_less(order_id, before):
        found = stock[str(order_id)]
        return None if found == before - 1 else Violation(expected=before - 1, found=found)

    one_less.before = lambda order_id: stock[str(order_id)]

    @lab.task(postconditions=[one_less])
    def take(order_id, many):
        stock[str(order_id)] -= many

    assert ended(lab, take.delay(5, 1)).status is Outcome.SUCCEEDED
    result = take.delay(5, 2)
    assert ended(lab, result).status is Outcome.FAILED_VALIDATION
    assert "one_less: expected 1, found 0" in lab.letter(result.id).error_message


def test_a_body_does_not_begin_where_what_is_compared_could_not_be_measured(lab):
    def same(before):
        return True

    same.before = away
    result = shipping(lab, same).delay(5)

    assert isinstance(lab.error(result), PostconditionUnchecked)
    assert lab.log == []


# Secrets, and what is refused at import


def test_values_that_are_secret_are_kept_nowhere(lab):
    def same(token, result):
        return Violation(expected=token, found=result)

    @lab.task(postconditions=[same])
    def ship(token):
        return "other"

    result = ship.delay(token="hunter2-and-more")
    ended(lab, result)

    kept = repr((lab.letter(result.id), lab.events(result.id)))
    assert "hunter2" not in kept.replace(repr(lab.letter(result.id).message), "")


def test_with_capture_none_values_are_not_kept(lab):
    result = shipping(lab, one_label, capture="none").delay(5)

    ended(lab, result)
    assert lab.letter(result.id).error_message == ""
    (told,) = [event for event in lab.events(result.id) if event.name == "postcondition_failed"]
    assert told.attributes == {"postcondition": "one_label", "expected": None, "found": None}


def test_a_condition_that_wants_what_the_task_has_not_is_an_error_at_import(lab):
    with pytest.raises(ConfigurationError, match=r"postconditions\[0\]= wants order, which is no parameter"):
        shipping(lab, lambda order: True)


@pytest.mark.parametrize("wrong", [one_label, ["text"], "text"])
def test_what_is_no_list_of_callables_is_an_error_at_import(lab, wrong):
    with pytest.raises(ConfigurationError, match="postconditions="):
        shipping(lab, postconditions=wrong)


def test_an_async_condition_is_an_error_at_import(lab):
    async def later(result):
        return True

    with pytest.raises(ConfigurationError, match="returns before it has run"):
        shipping(lab, later)
