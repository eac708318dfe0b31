"""A step with a side effect reads from Django's databases, and does not write to them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections, transaction
from django_celery_results.models import TaskResult

from celery_replay import StepWrites, UnknownOutcome, step
from celery_replay.states import Category, Effect
from django_celery_replay import fenced
from django_celery_replay.models import Fence
from django_celery_replay.writes import writing
from tests.django_store.shop import Shop


def raw(alias: str, sql: str) -> Any:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else None


def fence(alias: str) -> None:
    with fenced(alias, "order", 1):
        pass


WRITES = {
    "create": lambda alias: Fence.objects.using(alias).create(name="order", token=1),
    "bulk": lambda alias: Fence.objects.using(alias).bulk_create([Fence(name="order", token=1)]),
    "update": lambda alias: Fence.objects.using(alias).update(token=9),
    "delete": lambda alias: Fence.objects.using(alias).all().delete(),
    "raw": lambda alias: raw(alias, "INSERT INTO django_celery_replay_fence (name, token) VALUES ('order', 1)"),
    "fence": fence,
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
def test_a_write_in_a_step_is_refused_and_says_how_to_split_it(
    shop: Shop, business: str, write: Any, inside: bool
) -> None:
    Fence.objects.using(business).create(name="there", token=5)
    calls = []

    @step(side_effect=True)
    def charge() -> None:
        calls.append("charged")
        write(business)

    @shop.task(stepwise=True, idempotency_key="pay")
    def pay(self: Any) -> None:
        if inside:
            with transaction.atomic(using=business):
                charge()
        charge()

    with pytest.raises(StepWrites, match=r"step charge would write to database .* Split it: .* \[step-writes\]"):
        pay.apply().get()
    assert list(Fence.objects.using(business).values_list("name", "token")) == [("there", 5)]
    # What it did before may well have happened, so nobody does it again unasked.
    assert (shop.letter().effect, calls) == (Effect.UNKNOWN, ["charged"])
    with pytest.raises(UnknownOutcome):
        pay.apply().get()
    assert calls == ["charged"]
    assert shop.letter().category is Category.UNKNOWN_OUTCOME


def test_a_step_may_read_and_the_body_may_write(shop: Shop, business: str) -> None:
    @step(side_effect=True)
    def charge() -> int:
        with transaction.atomic(using=business), transaction.atomic(using=business):
            assert raw(business, "/* INSERT */ SELECT 'DELETE', count(*) FROM django_celery_replay_fence")[0][1] == 1
            return Fence.objects.using(business).select_for_update().get().token

    @shop.task(stepwise=True)
    def pay(self: Any) -> int:
        Fence.objects.using(business).create(name="order", token=1)
        token = charge()
        return Fence.objects.using(business).update(token=token + 1)

    assert pay.apply().get() == 1
    assert Fence.objects.using(business).get().token == 2


def test_a_step_may_tell_of_its_progress(shop: Shop, business: str) -> None:
    @step(side_effect=True)
    def charge() -> int:
        TaskResult.objects.using(business).create(task_id="pay", status="PROGRESS")
        return TaskResult.objects.using(business).filter(task_id="pay").update(status="SUCCESS")

    @shop.task(stepwise=True)
    def pay(self: Any) -> int:
        return charge()

    assert pay.apply().get() == 1


def test_a_step_without_side_effect_and_a_step_outside_of_a_job_may_write(shop: Shop, business: str) -> None:
    @step
    def note() -> None:
        Fence.objects.using(business).create(name="noted", token=1)

    @step(side_effect=True)
    def charge() -> None:
        Fence.objects.using(business).create(name="charged", token=1)

    @shop.task()
    def pay(self: Any) -> None:
        note()

    pay.apply().get()
    charge()
    assert set(Fence.objects.using(business).values_list("name", flat=True)) == {"noted", "charged"}


@pytest.mark.parametrize(
    ("sql", "verb"),
    [
        ("SELECT 1", ""),
        (" (select 1) union (select 2)", ""),
        ("SELECT \"update\", `insert` FROM t WHERE a = 'delete' -- into\n", ""),
        ("SELECT * FROM t FOR UPDATE", ""),
        ("WITH a AS (SELECT 1) SELECT * FROM a FOR NO KEY UPDATE", ""),
        ("SAVEPOINT s1", ""),
        ("ROLLBACK TO SAVEPOINT s1", ""),
        ("SET LOCAL lock_timeout = 5", ""),
        ("", ""),
        ("insert into t values (1)", "INSERT"),
        ("/* a */ -- b\n UPDATE t SET a = 1", "UPDATE"),
        ("WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone", "DELETE"),
        ("EXPLAIN ANALYZE DELETE FROM t", "DELETE"),
        ("SELECT * INTO copy FROM t", "INTO"),
        ("SELECT 1; DROP TABLE t", "DROP"),
        ("CALL refund(5)", "CALL"),
        ("REPLACE INTO t VALUES (1)", "REPLACE"),
        ("TRUNCATE t", "TRUNCATE"),
    ],
)
def test_what_writes_is_told_by_its_words(sql: str, verb: str) -> None:
    assert writing(sql) == verb
