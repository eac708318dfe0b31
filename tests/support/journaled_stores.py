"""Stores with a ledger in Redis and a journal in a Django database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery_replay.clock import Micros
from celery_replay.stores.journaled import JournaledStore
from tests.support import redis_stores


def make_journaled_store(
    ledger: str, journal: str, now: Callable[[], Micros] | None = None, *, empty: bool = True, **options: Any
) -> JournaledStore:
    """Return an empty store.

    Args:
        ledger: URL of a Redis database.
        journal: URL of a database, as `django_stores.make_django_store` takes it.
        now: replaces both clocks.
        empty: delete what earlier tests left in the journal.
        options: those of the ledger.
    """
    from tests.support import django_stores

    if empty:
        django_stores.close_stores()
    return JournaledStore(
        redis_stores.make_redis_store(ledger, now, notes=True, **options),
        django_stores.make_django_store(journal, now, empty=empty),
    )


def close_stores(ledger: str) -> None:
    """Close the connections of all stores that were made here, and delete what the ledgers have."""
    from tests.support import django_stores

    redis_stores.close_stores(ledger)
    django_stores.close_stores()
