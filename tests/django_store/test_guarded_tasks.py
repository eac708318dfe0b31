"""Tasks whose effects are guarded in Django's databases, run as attempts in this process."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from celery_replay.exceptions import FenceRefused, RolledBack, VersionConflict
from celery_replay.states import Category, Outcome, Reason
from django_celery_replay import fenced_update, register_fence, versioned_update
from django_celery_replay.models import Fence
from tests.django_store.shop import Shop


def test_a_refused_fence_ends_the_attempt_and_is_told_in_its_trace(shop: Shop, business: str) -> None:
    left = []

    @shop.task(fenced=business)
    def ship(self: Any) -> None:
        register_fence(business, self.attempt.identity, self.attempt.fence + 1)
        with self.attempt.fenced():
            left.append("never")

    ship.delay()
    assert left == []
    told = shop.events()["fence_refused"]
    assert told.status == "fail"
    assert told.attributes["target"] == f"database {business!r}"
    assert "lease_lost" in shop.events()
    assert shop.job().status is not Outcome.SUCCEEDED
    assert shop.letter() is None


def test_a_body_that_swallows_the_refusal_has_no_further_side_effect(shop: Shop, business: str) -> None:
    left = []

    @shop.task()
    def ship(self: Any) -> None:
        Fence.objects.using(business).create(name="order", token=self.attempt.fence + 1)
        with pytest.raises(FenceRefused):
            fenced_update(Fence.objects.using(business).filter(name="order"), "token", self.attempt.fence)
        self.attempt.check()
        left.append("never")

    ship.delay()
    assert left == []


def test_a_number_that_is_no_token_of_the_attempts_fails_the_job_and_is_not_tried_for_ever(
    shop: Shop, business: str
) -> None:
    row = Fence.objects.using(business).create(name="order", token=7)
    runs = []

    @shop.task(idempotency_key="ship", on_incomplete="resume")
    def ship(self: Any) -> None:
        runs.append(self.attempt.fence)
        fenced_update(Fence.objects.using(business).filter(pk=row.pk), "token", 5)

    with pytest.raises(FenceRefused):
        ship.apply().get()
    assert (shop.job().status, shop.letter().category, len(runs)) == (Outcome.FAILED, Category.CONCURRENCY, 1)


def test_a_lost_race_is_a_conflict_in_the_trace_and_in_the_letter(shop: Shop, business: str) -> None:
    row = Fence.objects.using(business).create(name="order", token=3)

    @shop.task()
    def ship(self: Any) -> None:
        versioned_update(row, version_field="token", expected=2)

    with pytest.raises(VersionConflict):
        ship.apply().get()
    told = shop.events()["optimistic_conflict"]
    expected = {"row": "django_celery_replay.Fence order", "expected": 2, "found": 3}
    assert (told.resource_version, told.attributes) == ("2", expected)
    assert shop.letter().category is Category.CONCURRENCY


# Transactions that did not stay


def swallow(alias: str) -> None:
    with transaction.atomic(using=alias):
        Fence.objects.using(alias).create(name="order", token=1)
        with suppress(IntegrityError):
            Fence.objects.using(alias).create(name="order", token=2)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_body_whose_transaction_was_rolled_back_quietly_has_failed(shop: Shop, business: str, atomic: bool) -> None:
    """The record must not say that it is done: the next submission runs."""
    bodies = iter([swallow, lambda alias: Fence.objects.using(alias).create(name="order", token=3)])

    @shop.task(idempotency_key="ship", on_incomplete="resume", **({"atomic": business} if atomic else {}))
    def ship(self: Any) -> str:
        next(bodies)(business)
        return "shipped"

    with pytest.raises(RolledBack):
        ship.apply().get()
    assert (shop.job().status, shop.letter().reason) == (Outcome.ROLLED_BACK, Reason.ROLLED_BACK)
    assert not Fence.objects.using(business).exists()
    assert ship.apply().get() == "shipped"
    assert Fence.objects.using(business).get().token == 3


def test_a_task_may_allow_it(shop: Shop, business: str) -> None:
    @shop.task(idempotency_key="ship", allow_rollback=True)
    def ship(self: Any) -> str:
        swallow(business)
        return "shipped"

    assert ship.apply().get() == "shipped"
    assert "rolled_back_quietly" in shop.events()
    assert shop.job().status is Outcome.SUCCEEDED
