"""Database settings from the environment: SQLite files by default, PostgreSQL by URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def databases(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the business database and, for SQLite, a second one for celery-replay.

    `SHOP_DATABASE_URL=postgresql://user:password@host:port/name` puts both on PostgreSQL.
    """
    if url := os.environ.get("SHOP_DATABASE_URL"):
        return {"default": postgresql(url), "replay": postgresql(url)}
    return {"default": sqlite(folder / "shop.sqlite3"), "replay": sqlite(folder / "replay.sqlite3")}


def sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "timeout": 20,
            # A deferred transaction that reads and then writes can't wait for a lock in WAL mode.
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    }


def postgresql(url: str) -> dict[str, Any]:
    """Read a URL; a host or other libpq option may also stand in its query, as for Unix sockets."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    host = parts.hostname or options.pop("host", "")
    if not host:
        # Django would take the machine's own server, whatever the URL's author meant.
        raise ImproperlyConfigured(f"SHOP_DATABASE_URL names no host: {parts.scheme}://…{parts.path}")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or options.pop("port", "")),
        "OPTIONS": options,
    }
