"""PostgreSQL databases with all tables of the test project: migrated once, then copied."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from contextlib import ExitStack

import psycopg
from psycopg import sql

from tests.support.workers import ROOT, SOURCES


def migrated(admin_dsn: str, stack: ExitStack) -> str:
    """Create a database next to `admin_dsn`'s and migrate it; return its name."""
    name = _create(admin_dsn, "template1", stack)
    migrate(named(admin_dsn, name))
    return name


def migrate(url: str, settings: str = "tests.django_settings", *aliases: str) -> None:
    """Make the tables of the test project, in each of its databases."""
    env = {**os.environ, "REPLAY_DJANGO_DATABASE_URL": url, "PYTHONPATH": os.pathsep.join(SOURCES)}
    for alias in ("default", *aliases):
        command = [sys.executable, "-m", "django", "migrate", "--database", alias, "--settings", settings, "-v", "0"]
        subprocess.run(command, env=env, cwd=ROOT, check=True, timeout=120)


def copied(admin_dsn: str, template: str, stack: ExitStack) -> str:
    """Copy a database and return the copy's URL."""
    return named(admin_dsn, _create(admin_dsn, template, stack))


def named(dsn: str, name: str) -> str:
    """Return the URL with another database's name."""
    return f"{dsn.rpartition('/')[0]}/{name}"


def _create(admin_dsn: str, template: str, stack: ExitStack) -> str:
    name = f"celery_replay_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    _execute(admin_dsn, "CREATE DATABASE {} TEMPLATE {}", name, template)
    stack.callback(_execute, admin_dsn, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)
    return name


def _execute(dsn: str, statement: str, *names: str) -> None:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
