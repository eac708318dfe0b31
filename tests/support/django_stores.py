"""Django stores on any database: migrated once per process, emptied for each store.

They need no test database of pytest-django's, but its leave: use `with django_db_blocker.unblock():`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from django.apps import apps
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from celery_replay.clock import Micros
from django_celery_replay.connections import private_connection
from django_celery_replay.store import DjangoStore
from tests.support.database_urls import django_database

APP = "django_celery_replay"
RESULTS = "django_celery_results"
_migrated: set[str] = set()
_stores: list[DjangoStore] = []


def database_alias(url: str) -> str:
    """Make a database known to Django, with our tables and those for Celery's results; return its alias."""
    alias = "at_" + hashlib.blake2b(url.encode(), digest_size=6).hexdigest()
    if alias not in connections.settings:
        entry = django_database(url)
        connections.configure_settings({DEFAULT_DB_ALIAS: {}, alias: entry})
        connections.settings[alias] = entry
    if alias not in _migrated:
        _migrate(alias)
        _migrated.add(alias)
    return alias


def make_django_store(url: str, now: Callable[[], Micros] | None = None, *, empty: bool = True) -> DjangoStore:
    """Return a store in the database with this URL.

    Args:
        url: such as `postgresql://user@host/name` or `sqlite:////folder/file`.
        now: replaces the database's clock.
        empty: delete what earlier tests left.
    """
    alias = database_alias(url)
    if empty:
        empty_tables(alias)
    store = DjangoStore(alias, now=now)
    _stores.append(store)
    return store


def close_stores() -> None:
    """Close the connections of all stores that were made here."""
    while _stores:
        _stores.pop().close_connections()


def empty_tables(alias: str) -> None:
    """Delete all records of celery-replay, and all results."""
    connection = direct_connection(alias)
    models = [model for app in (APP, RESULTS) for model in apps.get_app_config(app).get_models()]
    tables = [model._meta.db_table for model in models if model.__name__ != "SchemaInfo"]
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"DELETE FROM {table}")
    connection.close()


def direct_connection(alias: str) -> BaseDatabaseWrapper:
    """Return a connection that no other code uses; the caller closes it."""
    return private_connection(alias)


def _migrate(alias: str) -> None:
    for app in (APP, RESULTS):
        call_command("migrate", app, database=alias, verbosity=0)
    connections[alias].close()
