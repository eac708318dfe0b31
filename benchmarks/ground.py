"""The servers that a run has for itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psycopg

from tests.support import postgres_server, redis_server
from tests.support.net import ServerUnavailable
from tests.support.workers import ROOT, SOURCES

from .variants import Variant

REDIS_DATABASES = 64


class Ground:
    """A Redis of our own, with a database for each variant; a database on PostgreSQL for each that wants one."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.folder = Path(tempfile.mkdtemp(prefix="celery-replay-bench-"))
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        options = ("--save", "", "--appendonly", "no", "--databases", str(REDIS_DATABASES))
        self._redis = redis_server.RedisServer(self.folder, *options)
        stack.callback(self._redis.kill)
        self._redis.start()
        self._next = 0
        self._template: str | None = None
        self.fsync = True

    def redis_url(self) -> str:
        """Return the address of a database that nobody else uses."""
        self._next += 1
        return f"{self._redis.url.rpartition('/')[0]}/{self._next % REDIS_DATABASES}"

    def database_url(self, variant: Variant) -> str:
        """Create a variant's database, with its tables."""
        if variant.database == "sqlite":
            url = f"sqlite:///{self.folder}/{variant.name}-{self._next}.sqlite3"
            _migrate(url)
            _migrate(url, "replay")
            return url
        return self._postgres(f"bench_{os.getpid()}_{self._next}")

    def _postgres(self, name: str) -> str:
        if self._template is None:
            self._template = self._find_postgres()
            _migrate(self._template)
        base, _, template = self._template.rpartition("/")
        admin = f"{base}/template1"
        self._stack.callback(_execute, admin, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        _execute(admin, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return f"{base}/{name}"

    def _find_postgres(self) -> str:
        found = os.environ.get("REPLAY_POSTGRES_URL") or postgres_server.shared(self._stack)
        found = found or postgres_server.private(self._stack)
        with psycopg.connect(found) as connection:
            row = connection.execute("SHOW fsync").fetchone()
        # The server from the wheel does not sync: what commits cost can't be seen on it.
        self.fsync = row is not None and row[0] == "on"
        return found


def _execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[call-overload]


def _migrate(url: str, alias: str = "default") -> None:
    options = ("--settings", "benchmarks.django_settings", "--database", alias, "--verbosity", "0")
    done = subprocess.run(
        [sys.executable, "-m", "django", "migrate", *options],
        env={**os.environ, "BENCH_DATABASE_URL": url, "PYTHONPATH": os.pathsep.join(SOURCES)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ServerUnavailable(f"the tables could not be made:\n{done.stderr}")
