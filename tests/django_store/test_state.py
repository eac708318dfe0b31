"""Rows as records of a snapshot: every type of field, as it was; one query for each queryset."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connections, transaction
from django.test.utils import CaptureQueriesContext

from celery_replay.exceptions import SnapshotTooLarge
from celery_replay.runtime import runtime_of
from celery_replay.snapshots.capture import capture
from celery_replay.snapshots.changes import changes
from celery_replay.snapshots.reading import taken as snapshots
from celery_replay.snapshots.tree import Built, Tree
from celery_replay.snapshots.values import Redacted, decoded
from celery_replay.trace import timeline
from django_celery_replay.state_provider import DjangoState
from tests.django_store.everything import PORTABLE, Animal, Customer, Dog, Everything, Ranges, tables
from tests.django_store.shop import Shop

VALUES: dict[str, Any] = {
    "id": uuid.UUID(int=7),
    "customer_id": 5,
    "status": "shipped",
    "note": 'line\nbreak, "quotes", é, \U0001f600',
    "slug": "a-b",
    "email": "ann@shop.example",
    "url": "https://shop.example/",
    "document": "labels/7.pdf",
    "address": "2001:db8::1",
    "small": -3,
    "large": 2**62,
    "positive": 3,
    "ratio": 0.1,
    "total": Decimal("1234.5678"),
    "active": None,
    "day": date(2026, 3, 29),
    "hour": time(12, 30, 15, 123456),
    "moment": datetime(2026, 3, 29, 12, 30, 15, 123456, tzinfo=timezone.utc),
    "took": timedelta(days=1, microseconds=7),
    "picture": b"\x00\xff",
    "data": {"a": [1, None, {"b": 1.5}], "$": "x"},
    "token": "",
}


@pytest.fixture
def alias(business: str) -> Iterator[str]:
    with tables(business, *PORTABLE):
        yield business


def taken(**states: Any) -> Built:
    return capture({name: (lambda value=value: value) for name, value in states.items()}, [DjangoState()])


def tree(built: Built) -> Tree:
    return Tree(built.reference, lambda references: {one: built.blobs[one] for one in references})


def records(built: Built, name: str) -> dict[str, Any]:
    return {record: decoded(body) for record, body in tree(built).records(name).items()}


def test_every_type_of_field_is_as_it_was(alias: str) -> None:
    Everything.objects.using(alias).create(**VALUES)
    found = records(taken(all=Everything.objects.using(alias).all()), "all")
    expected = {**VALUES, "token": Redacted.REDACTED}
    assert found == {f"everything.everything:{VALUES['id']}": expected}
    assert {name: type(value) for name, value in found.popitem()[1].items()} == {
        name: type(value) for name, value in expected.items()
    }


def test_a_thousand_rows_are_one_query(alias: str) -> None:
    Customer.objects.using(alias).bulk_create(Customer(id=number, name=f"c{number}") for number in range(1, 1001))
    with CaptureQueriesContext(connections[alias]) as queries:
        built = taken(all=Customer.objects.using(alias), some=Customer.objects.using(alias).filter(id__lt=10))
    assert (built.count, len(queries)) == (1009, 2)


@pytest.mark.parametrize("kind", ["manager", "instance", "list", "slice", "values", "related"])
def test_rows_may_be_named_in_several_ways(alias: str, kind: str) -> None:
    customers = Customer.objects.using(alias)
    for number in (1, 2, 3):
        customers.create(id=number, name=f"c{number}")
    stale = customers.get(id=2)
    customers.filter(id=2).update(name="renamed")
    value = {
        "manager": Customer.objects.db_manager(alias),
        "instance": stale,
        "list": [stale, customers.get(id=3)],
        "slice": customers.order_by("-id")[:2],
        "values": customers.filter(id=2).values("name"),
        "related": customers.filter(id=2).select_related().prefetch_related("everything_set"),
    }[kind]
    found = records(taken(it=value), "it")
    assert found["everything.customer:2"] == {"id": 2, "name": "renamed"}
    assert len(found) == {"manager": 3, "instance": 1, "list": 2, "slice": 2}.get(kind, 1)


def test_a_child_of_another_model_has_its_parents_fields(alias: str) -> None:
    dog = Dog(name="rex", tricks=3)
    dog.save(using=alias)
    (found,) = records(taken(dogs=Dog.objects.using(alias)), "dogs").values()
    assert found == {"id": dog.pk, "name": "rex", "animal_ptr_id": dog.pk, "tricks": 3}
    assert records(taken(dogs=Animal.objects.using(alias)), "dogs") == {
        f"everything.animal:{dog.pk}": {"id": dog.pk, "name": "rex"}
    }


def test_what_an_update_changed_is_seen_though_no_instance_knows(alias: str) -> None:
    Everything.objects.using(alias).create(**VALUES)
    before = taken(order=Everything.objects.using(alias))
    Everything.objects.using(alias).update(status="paid", total=Decimal(1))
    after = taken(order=Everything.objects.using(alias))
    (change,) = changes(tree(before), tree(after))
    assert {field.name: (field.before, field.after) for field in change.fields} == {
        "status": ("shipped", "paid"),
        "total": (Decimal("1234.5678"), Decimal("1.0000")),
    }


def test_plain_data_is_a_record_of_its_own(alias: str) -> None:
    built = taken(price={"cents": 500, "password": "hunter2"}, stock=3, label="a")
    assert records(built, "price") == {"price": {"cents": 500, "password": Redacted.REDACTED}}
    assert records(built, "stock") == {"stock": {"value": 3}}


def test_more_rows_than_a_snapshot_is_for_are_refused(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celery_replay.snapshots.capture.LIMIT", 3)
    Customer.objects.using(alias).bulk_create(Customer(id=number, name="c") for number in range(1, 6))
    with (
        CaptureQueriesContext(connections[alias]) as queries,
        pytest.raises(SnapshotTooLarge, match="'all' has more than 3"),
    ):
        taken(all=Customer.objects.using(alias))
    assert "LIMIT 4" in queries[0]["sql"]


def test_an_error_leaves_a_transaction_around_it_as_it_was(alias: str) -> None:
    with transaction.atomic(using=alias):
        Customer.objects.using(alias).create(id=1, name="kept")
        with suppress(DatabaseError):
            taken(bad=Customer.objects.using(alias).extra(where=["no_such_column = 1"]))
        Customer.objects.using(alias).create(id=2, name="also kept")
    assert Customer.objects.using(alias).count() == 2


def test_postgres_arrays_and_ranges_are_kept(business: str) -> None:
    if connections[business].vendor != "postgresql":
        pytest.skip("only PostgreSQL has them")
    with tables(business, Ranges):
        stay = (datetime(2026, 3, 29, tzinfo=timezone.utc), None)
        Ranges.objects.using(business).create(
            id=1, tags=["a", "b"], nested=[[1, 2], [3, 4]], numbers=(1, 5), prices=(None, None), stay=stay
        )
        Ranges.objects.using(business).create(id=2, numbers="empty")
        found = records(taken(all=Ranges.objects.using(business)), "all")
    assert found["everything.ranges:1"] == {
        "id": 1,
        "tags": ["a", "b"],
        "nested": [[1, 2], [3, 4]],
        "numbers": {"range": [1, 5, "[)"]},
        "prices": {"range": [None, None, "()"]},
        "stay": {"range": [stay[0], None, "[)"]},
    }
    assert found["everything.ranges:2"]["numbers"] == {"range": None}


# In tasks


def of(shop: Shop) -> dict[str, Tree]:
    runtime_of(shop.app).heartbeat.drain()
    events = timeline(shop.store, shop.job().trace_id)
    return {one.when: Tree(one.reference, shop.store.blobs) for one in snapshots(events)}


def changed(shop: Shop) -> dict[str, tuple[Any, Any]]:
    found = of(shop)
    return {
        field.name: (field.before, field.after)
        for change in changes(found["before"], found["after"])
        for field in change.fields
    }


@pytest.mark.parametrize("atomic", [False, True])
def test_a_task_shows_what_it_did_to_its_rows(shop: Shop, alias: str, atomic: bool) -> None:
    order = Everything.objects.using(alias).create(**VALUES)

    @shop.task(
        state={"order": lambda pk: Everything.objects.using(alias).filter(pk=pk)},
        **({"atomic": alias} if atomic else {}),
    )
    def ship(self: Any, pk: str) -> None:
        Everything.objects.using(alias).filter(pk=pk).update(status="paid")

    ship.delay(str(order.pk))
    assert changed(shop) == {"status": ("shipped", "paid")}


@pytest.mark.parametrize("atomic", [False, True])
def test_a_failed_task_shows_what_it_left_behind(shop: Shop, alias: str, atomic: bool) -> None:
    Customer.objects.using(alias).create(id=1, name="ann")

    @shop.task(state={"all": lambda: Customer.objects.using(alias)}, **({"atomic": alias} if atomic else {}))
    def rename(self: Any) -> None:
        Customer.objects.using(alias).update(name="ben")
        raise ValueError("torn")

    rename.delay()
    assert changed(shop) == ({} if atomic else {"name": ("ann", "ben")})


def test_a_hook_whose_query_fails_does_not_break_the_tasks_transaction(shop: Shop, alias: str) -> None:
    @shop.task(state={"bad": lambda: Customer.objects.using(alias).extra(where=["no_such_column = 1"])}, atomic=alias)
    def create(self: Any) -> str:
        Customer.objects.using(alias).create(id=1, name="ann")
        return "done"

    assert create.delay().get() == "done"
    assert Customer.objects.using(alias).count() == 1
    assert shop.events()["snapshot_failed"].attributes["error"] in {"OperationalError", "ProgrammingError"}
