"""Where databases differ: placeholders, transactions, clocks, errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from celery_replay.clock import Micros, wall
from celery_replay.exceptions import ConfigurationError

from . import troubles
from .connections import Link, private_connection
from .troubles import Trouble

_SPECIAL = re.compile(r"[\\%_]")
_ESCAPED = r"\\\g<0>"
LOCK_TIMEOUT_MS = 5_000
IDLE_TIMEOUT_MS = 10_000
ANSWER_TIMEOUT_S = 10
"""Longer than a statement may wait for a lock."""


class Dialect:
    """How one kind of database is spoken to.

    Args:
        now: replaces the store's clock, in tests.
    """

    mark: ClassVar[str] = "%s"
    """The driver's placeholder."""
    quote: ClassVar[str] = '"'
    lock: ClassVar[str] = " FOR UPDATE"
    skip_locked: ClassVar[str] = " FOR UPDATE SKIP LOCKED"
    one_statement: ClassVar[bool] = False
    """Can one statement decide and write to several tables?"""

    def __init__(self, now: Callable[[], Micros] | None = None) -> None:
        self.now = now

    def connect(self, alias: str) -> Link:
        """Open a connection of our own."""
        connection = private_connection(alias)
        return Link(connection, self.cursor(connection))

    def cursor(self, connection: BaseDatabaseWrapper) -> Any:
        """Return the driver's own cursor."""
        return connection.connection.cursor()

    def begin(self, link: Link) -> Micros:
        """Begin a transaction; return the store's clock."""
        raise NotImplementedError

    def trouble(self, database: Any, error: Exception) -> Trouble:
        """Tell what an error means."""
        raise NotImplementedError

    def upsert(self, key: str, columns: tuple[str, ...]) -> str:
        """Return what makes an INSERT replace the row with its key."""
        return self.merge(key, {column: self.given(column) for column in columns if column != key})

    def given(self, column: str) -> str:
        """Return the name of the value that an INSERT wanted to insert."""
        return f"excluded.{self.name(column)}"

    def merge(self, key: str, news: Mapping[str, str]) -> str:
        """Return what makes an INSERT change the row with its key instead: columns and their new values as SQL."""
        changes = ", ".join(f"{self.name(column)} = {value}" for column, value in news.items())
        return f" ON CONFLICT ({self.name(key)}) DO UPDATE SET {changes}"

    def holds(self, column: str) -> str:
        """Return a condition: the column has the parameter in it, in the same case."""
        return f"instr({column}, {self.mark}) > 0"

    def part(self, text: str) -> str:
        """Return the parameter of `holds` for a text."""
        return text

    def name(self, column: str) -> str:
        """Quote a name."""
        return f"{self.quote}{column}{self.quote}"


class PostgreSQL(Dialect):
    """PostgreSQL through psycopg or psycopg2."""

    one_statement = True
    clock: ClassVar[str] = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

    def __init__(self, now: Callable[[], Micros] | None = None) -> None:
        super().__init__(now)
        # LOCAL, because a session may be shared through a transaction-pooling proxy. A process that is stopped in
        # the middle of a transaction must not hold its locks for ever.
        self._begin = (
            f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_TIMEOUT_MS}; SELECT {self.clock}"
        )

    def connect(self, alias: str) -> Link:
        """Open a connection that binds parameters on the server, which is twice as fast."""
        from django.db.backends.postgresql.psycopg_any import is_psycopg3

        if not is_psycopg3:
            return super().connect(alias)
        connection = private_connection(alias, server_side_binding=True)
        bound_waiting(connection.connection)
        prepare(connection)
        return Link(connection, self.cursor(connection), once={"prepare": False})

    def begin(self, link: Link) -> Micros:
        """Begin, with the clock in the same round trip."""
        cursor = link.cursor
        cursor.execute(self._begin, **link.once)
        # psycopg stands at the first of several results, psycopg2 at the last.
        while link.once and cursor.nextset():
            pass
        found: Micros = cursor.fetchone()[0]
        return self.now() if self.now else found

    def holds(self, column: str) -> str:
        """Return a condition: the column has the parameter in it.

        By LIKE, of which the planner guesses how much it will find, and which an index on trigrams answers.
        """
        return f"{column} LIKE {self.mark}"

    def part(self, text: str) -> str:
        """Return the parameter of `holds` for a text."""
        return f"%{_SPECIAL.sub(_ESCAPED, text)}%"

    def trouble(self, database: Any, error: Exception) -> Trouble:
        """Tell what an error means."""
        return troubles.postgresql(database, error)


def bound_waiting(driver: Any) -> None:
    """Let psycopg give up on a server that keeps the connection and does not answer; by itself it waits for ever."""
    wait = driver.wait

    def bounded(gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        return wait(_in_time(gen, time.monotonic() + ANSWER_TIMEOUT_S), *args, **kwargs)

    driver.wait = bounded


def _in_time(gen: Generator[Any, Any, Any], deadline: float) -> Generator[Any, Any, Any]:
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                from psycopg import OperationalError

                raise OperationalError(f"the server did not answer within {ANSWER_TIMEOUT_S} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value


def prepare(connection: Any) -> None:
    """Let psycopg prepare statements: parsing and planning cost more than running them.

    Not through a proxy that pools transactions, where a name may lead to another client's statement; nor where the
    project's OPTIONS have a word on it.
    """
    from psycopg.types.numeric import Int8Dumper

    driver = connection.connection
    with connection.wrap_database_errors, driver.cursor() as cursor:
        direct = cursor.execute("SELECT pg_backend_pid()").fetchone()[0] == driver.info.backend_pid
    if direct and "prepare_threshold" not in connection.settings_dict["OPTIONS"]:
        driver.prepare_threshold = 3
    # By default each size of integer is a type of its own, and each mix of them a statement to prepare.
    driver.adapters.register_dumper(int, Int8Dumper)


class SQLite(Dialect):
    """SQLite in write-ahead mode; its clock is this machine's, as all its users are here."""

    mark = "?"
    lock = ""
    skip_locked = ""

    def connect(self, alias: str) -> Link:
        """Open a connection on which readers do not wait for writers."""
        link = super().connect(alias)
        with link.connection.wrap_database_errors:
            # Asked first: the switch needs the file for itself.
            if link.rows("PRAGMA journal_mode") != [("wal",)]:
                link.rows("PRAGMA journal_mode=WAL")
        return link

    def begin(self, link: Link) -> Micros:
        """Begin with the write lock: a transaction that reads first could not wait for it later."""
        link.cursor.execute("BEGIN IMMEDIATE")
        return (self.now or wall)()

    def trouble(self, database: Any, error: Exception) -> Trouble:
        """Tell what an error means."""
        return troubles.sqlite(database, error)


class MySQL(Dialect):
    """MariaDB and MySQL with InnoDB."""

    quote = "`"

    def begin(self, link: Link) -> Micros:
        """Begin; without gap locks, which READ COMMITTED does not take."""
        link.cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        link.cursor.execute("START TRANSACTION")
        if self.now:
            return self.now()
        # SYSDATE is the time of the call, NOW that of the statement's start.
        return int(link.rows("SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)")[0][0])

    def given(self, column: str) -> str:
        """Return the value that an INSERT wanted to insert."""
        return f"VALUES({self.name(column)})"

    def merge(self, key: str, news: Mapping[str, str]) -> str:
        """Return what makes an INSERT change the row with its key instead."""
        changes = ", ".join(f"{self.name(column)} = {value}" for column, value in news.items())
        return f" ON DUPLICATE KEY UPDATE {changes}"

    def holds(self, column: str) -> str:
        """Return a condition: the column has the parameter in it, byte by byte, whatever its collation."""
        return f"instr({column}, CAST({self.mark} AS BINARY)) > 0"

    def trouble(self, database: Any, error: Exception) -> Trouble:
        """Tell what an error means."""
        return troubles.mysql(database, error)


_DIALECTS: dict[str, type[Dialect]] = {"postgresql": PostgreSQL, "sqlite": SQLite, "mysql": MySQL}


def dialect_of(alias: str, now: Callable[[], Micros] | None = None) -> Dialect:
    """Return the dialect of a database of the project.

    Raises:
        ConfigurationError: no store can be kept there.
    """
    if alias not in connections.settings:
        raise ConfigurationError(f"replay_store names the database {alias!r}, which is not in DATABASES")
    vendor = connections[alias].vendor
    if vendor not in _DIALECTS:
        known = ", ".join(sorted(_DIALECTS))
        raise ConfigurationError(f"database {alias!r} is {vendor}; celery-replay's records need one of {known}")
    return _DIALECTS[vendor](now)
