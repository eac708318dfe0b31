"""Is the database's schema one that this version can work with?"""

from __future__ import annotations

from celery_replay.exceptions import SchemaMismatch
from celery_replay.stores.base import SCHEMA_VERSION

from .connections import Link
from .dialects import Dialect
from .models import SchemaInfo
from .troubles import Trouble


def check(link: Link, dialect: Dialect, alias: str) -> None:
    """Refuse a database without our tables, or with those of a newer version.

    A missing version counts as ours: tests that flush the database take it away.
    """
    try:
        found = link.rows(f"SELECT version FROM {SchemaInfo._meta.db_table}")
    except link.database.Error as error:
        if dialect.trouble(link.database, error) is not Trouble.MISSING:
            raise
        raise SchemaMismatch(
            f"database {alias!r} has no tables for celery-replay; "
            f"run `manage.py migrate django_celery_replay --database {alias}`"
        ) from error
    version = found[0][0] if found else SCHEMA_VERSION
    if version > SCHEMA_VERSION:
        raise SchemaMismatch(
            f"database {alias!r} has version {version} of celery-replay's records, this process knows up to "
            f"{SCHEMA_VERSION}; upgrade celery-replay here"
        )
    if version < SCHEMA_VERSION:
        raise SchemaMismatch(
            f"database {alias!r} has version {version} of celery-replay's records, this process needs "
            f"{SCHEMA_VERSION}; run `manage.py migrate django_celery_replay --database {alias}`"
        )
