"""Transactions that are rolled back quietly are seen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from django.db import DatabaseError, IntegrityError, connections, transaction

from django_celery_replay import watch_rollbacks
from django_celery_replay.models import Fence


def collide(alias: str) -> None:
    with suppress(IntegrityError):
        Fence.objects.using(alias).create(name="taken", token=2)


@pytest.fixture
def taken(business: str) -> str:
    Fence.objects.using(business).create(name="taken", token=1)
    return business


def seen(body: Callable[[], None]) -> bool:
    with watch_rollbacks() as watch:
        body()
    return watch.seen


def test_a_swallowed_error_inside_a_transaction_is_seen(taken: str) -> None:
    def body() -> None:
        with transaction.atomic(using=taken):
            Fence.objects.using(taken).create(name="lost", token=1)
            collide(taken)

    assert seen(body)
    assert not Fence.objects.using(taken).filter(name="lost").exists()


def test_a_swallowed_error_inside_a_savepoint_is_seen(taken: str) -> None:
    def body() -> None:
        with transaction.atomic(using=taken), transaction.atomic(using=taken):
            collide(taken)

    assert seen(body)


def test_a_block_without_savepoint_dooms_the_one_around_it(taken: str) -> None:
    def body() -> None:
        outer, inner = transaction.atomic(using=taken), transaction.atomic(using=taken, savepoint=False)
        with outer, suppress(ValueError), inner:
            raise ValueError

    assert seen(body)


def test_an_error_that_only_postgresql_remembers_is_seen(postgres_business: str) -> None:
    def body() -> None:
        with transaction.atomic(using=postgres_business):
            Fence.objects.using(postgres_business).create(name="lost", token=1)
            with connections[postgres_business].cursor() as cursor, suppress(DatabaseError):
                cursor.execute("SELECT 1/0")

    assert seen(body)
    assert not Fence.objects.using(postgres_business).exists()


def test_what_is_committed_is_not_seen(taken: str) -> None:
    def body() -> None:
        with transaction.atomic(using=taken), transaction.atomic(using=taken):
            Fence.objects.using(taken).create(name="kept", token=1)

    assert not seen(body)
    assert Fence.objects.using(taken).filter(name="kept").exists()


def test_an_error_that_leaves_its_block_is_the_bodys_own_affair(taken: str) -> None:
    def body() -> None:
        with suppress(IntegrityError), transaction.atomic(using=taken):
            Fence.objects.using(taken).create(name="taken", token=2)
        with transaction.atomic(using=taken), suppress(IntegrityError), transaction.atomic(using=taken):
            Fence.objects.using(taken).create(name="taken", token=2)

    assert not seen(body)


def test_a_rollback_that_was_asked_for_is_seen(taken: str) -> None:
    def body() -> None:
        with transaction.atomic(using=taken):
            transaction.set_rollback(True, using=taken)

    assert seen(body)


def test_other_threads_are_not_watched(taken: str) -> None:
    def doomed() -> None:
        with transaction.atomic(using=taken):
            collide(taken)
        connections[taken].close()

    def body() -> None:
        thread = threading.Thread(target=doomed)
        thread.start()
        thread.join()

    assert not seen(body)


def test_nobody_is_told_after_the_watch(taken: str) -> None:
    with watch_rollbacks() as watch:
        pass
    with transaction.atomic(using=taken):
        collide(taken)
    assert not watch.seen
