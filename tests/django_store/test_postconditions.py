"""What a wrong result has written is rolled back with the body's own transaction."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.db import IntegrityError
from django.db.models import F

from celery_replay.exceptions import ConfigurationError, PostconditionFailed, PostconditionUnchecked, RolledBack
from celery_replay.states import Category, Effect, Outcome, Reason
from django_celery_replay import has_rows, version_rose, versioned_update
from django_celery_replay.models import Fence, Marker
from tests.django_store.shop import Shop


def of(business: str) -> Any:
    return Fence.objects.using(business)


def test_what_a_wrong_result_has_written_is_rolled_back_and_the_next_run_may_do_it(shop: Shop, business: str) -> None:
    many = [2, 1]

    @shop.task(
        idempotency_key="ship:{order}",
        atomic=business,
        postconditions=[has_rows(lambda order: of(business).filter(name__startswith=order), count=1)],
    )
    def ship(self: Any, order: str) -> str:
        for number in range(many.pop(0)):
            of(business).create(name=f"{order}-{number}", token=1)
        return "shipped"

    with pytest.raises(PostconditionFailed, match="has_rows: expected 1, found 2"):
        ship.apply(("a",)).get()
    letter = shop.letter()
    assert shop.job().status is Outcome.FAILED_VALIDATION
    assert (letter.reason, letter.category, letter.effect) == (
        Reason.POSTCONDITION,
        Category.VALIDATION,
        Effect.ABSENT,
    )
    assert not of(business).exists()
    assert not Marker.objects.using(business).exists()
    assert ship.apply(("a",)).get() == "shipped"
    assert of(business).get().name == "a-0"


def test_without_a_transaction_of_the_tasks_own_it_stays_and_the_letter_does_not_claim_otherwise(
    shop: Shop, business: str
) -> None:
    @shop.task(idempotency_key="ship", postconditions=[has_rows(lambda: of(business).all(), count=2)])
    def ship(self: Any) -> None:
        of(business).create(name="order", token=1)

    with pytest.raises(PostconditionFailed):
        ship.apply().get()
    assert of(business).count() == 1
    assert shop.letter().effect is Effect.UNKNOWN


def test_a_check_that_fails_itself_rolls_back_too(shop: Shop, business: str) -> None:
    def broken() -> None:
        raise KeyError("rate")

    @shop.task(atomic=business, postconditions=[broken])
    def ship(self: Any) -> None:
        of(business).create(name="order", token=1)

    with pytest.raises(PostconditionUnchecked):
        ship.apply().get()
    assert not of(business).exists()
    assert shop.job().status is Outcome.FAILED


def test_a_transaction_that_will_not_stay_is_told_as_that(shop: Shop, business: str) -> None:
    """A check within it would but get the database's refusal."""

    @shop.task(atomic=business, postconditions=[has_rows(lambda: of(business).all())])
    def ship(self: Any) -> None:
        of(business).create(name="order", token=1)
        with suppress(IntegrityError):
            of(business).create(name="order", token=2)

    with pytest.raises(RolledBack):
        ship.apply().get()
    assert shop.job().status is Outcome.ROLLED_BACK


def test_a_check_that_dooms_the_transaction_does_not_leave_a_success(shop: Shop, business: str) -> None:
    def collides() -> None:
        with suppress(IntegrityError):
            of(business).create(name="order", token=2)

    @shop.task(atomic=business, postconditions=[collides])
    def ship(self: Any) -> None:
        of(business).create(name="order", token=1)

    with pytest.raises(RolledBack):
        ship.apply().get()
    assert not of(business).exists()


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("raises", [True, False])
def test_that_a_version_rose_is_seen_against_what_was_before(
    shop: Shop, business: str, raises: bool, atomic: bool
) -> None:
    of(business).create(name="order", token=3)
    rows = version_rose(lambda name: of(business).filter(name=name), field="token")

    @shop.task(postconditions=[rows], **({"atomic": business} if atomic else {}))
    def ship(self: Any, name: str) -> None:
        if raises:
            versioned_update(of(business).filter(name=name), version_field="token", expected=3)

    if raises:
        ship.apply(("order",)).get()
        assert of(business).get().token == 4
        return
    with pytest.raises(PostconditionFailed, match=r"version_rose: expected {'order': 'above 3'}, found {'order': 3}"):
        ship.apply(("order",)).get()


@pytest.mark.parametrize("delta", [-1, 0])
def test_a_version_that_fell_or_a_row_that_is_gone_did_not_rise(shop: Shop, business: str, delta: int) -> None:
    of(business).create(name="order", token=3)

    @shop.task(atomic=business, postconditions=[version_rose(lambda: of(business).all(), field="token")])
    def ship(self: Any) -> None:
        of(business).update(token=F("token") + delta) if delta else of(business).all().delete()

    with pytest.raises(PostconditionFailed):
        ship.apply().get()
    assert of(business).get().token == 3


def test_of_rows_that_are_not_there_no_version_rose(shop: Shop, business: str) -> None:
    @shop.task(postconditions=[version_rose(lambda: of(business).all(), field="token")])
    def ship(self: Any) -> None:
        pass

    with pytest.raises(PostconditionFailed, match="expected '1 row or more', found 0"):
        ship.apply().get()


def test_a_row_that_the_body_made_has_risen_from_nothing(shop: Shop, business: str) -> None:
    @shop.task(postconditions=[version_rose(lambda: of(business).all(), field="token")])
    def ship(self: Any) -> None:
        of(business).create(name="order", token=1)

    ship.apply().get()
    assert shop.job().status is Outcome.SUCCEEDED


@pytest.mark.parametrize("made", [has_rows, version_rose])
def test_what_the_task_does_not_have_is_an_error_at_import(shop: Shop, made: Any) -> None:
    with pytest.raises(ConfigurationError, match="wants order, which is no parameter"):

        @shop.task(postconditions=[made(lambda order: None)], lazy=False)
        def ship(self: Any, order_id: int) -> None: ...
