"""What real databases say, and what kind of failure that is."""

from __future__ import annotations

import threading

import pytest
from django.db import connections, transaction
from django.db.utils import Error

from celery_replay.retries import FailurePolicy

TABLE = "replay_errors"
CREATE = {
    "postgresql": f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, name varchar(3) NOT NULL)",
    "mysql": f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, name varchar(3) NOT NULL)",
    "sqlite": f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, name varchar(3) NOT NULL)",
}
TIMED_OUT = {
    "postgresql": ["SET LOCAL statement_timeout = 10", "SELECT pg_sleep(2)"],
    "mysql": ["SET STATEMENT max_statement_time = 0.01 FOR SELECT COUNT(*) FROM seq_1_to_100000000 a, seq_1_to_100 b"],
}
LOCKED = {
    "postgresql": ["SET LOCAL lock_timeout = 10", f"UPDATE {TABLE} SET name = 'b' WHERE id = 1"],
    "mysql": ["SET innodb_lock_wait_timeout = 1", f"UPDATE {TABLE} SET name = 'b' WHERE id = 1"],
    "sqlite": ["PRAGMA busy_timeout = 10", f"UPDATE {TABLE} SET name = 'b' WHERE id = 1"],
}


@pytest.fixture
def alias(business):
    with connections[business].cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        cursor.execute(CREATE[connections[business].vendor])
        cursor.execute(f"INSERT INTO {TABLE} VALUES (1, 'a')")
    yield business
    with connections[business].cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")


def judged(alias, *statements):
    with pytest.raises(Error) as caught:
        execute(alias, *statements)
    return FailurePolicy().judge(caught.value)


def execute(alias, *statements):
    with transaction.atomic(alias), connections[alias].cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            if cursor.description:
                cursor.fetchall()


@pytest.mark.parametrize(
    "statement",
    [f"INSERT INTO {TABLE} VALUES (1, 'b')", f"INSERT INTO {TABLE} VALUES (2, NULL)"],
    ids=["twice", "null"],
)
def test_data_that_the_database_refuses_is_wrong(alias, statement):
    assert judged(alias, statement).category == "validation"


def test_sql_that_is_wrong_would_be_so_again(alias):
    found = judged(alias, "SELECT no_such_column FROM replay_errors")

    # SQLite has one code for all of these.
    assert found.category == ("dependency" if connections[alias].vendor == "sqlite" else "permanent")


def test_a_statement_that_took_too_long_may_not_do_so_again(alias):
    vendor = connections[alias].vendor
    if vendor not in TIMED_OUT:
        pytest.skip("SQLite has no time limit")

    assert judged(alias, *TIMED_OUT[vendor]).category == "transient"


def test_a_row_that_somebody_else_has_locked_is_a_lost_race(alias):
    locked, over = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic(alias), connections[alias].cursor() as cursor:
                cursor.execute(f"UPDATE {TABLE} SET name = 'c' WHERE id = 1")
                locked.set()
                over.wait(10)
        finally:
            connections[alias].close()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert locked.wait(10)
        assert judged(alias, *LOCKED[connections[alias].vendor]).category == "concurrency"
    finally:
        over.set()
        holder.join()


def test_a_connection_that_the_server_has_ended_is_a_dependency_that_is_away(alias, request):
    if connections[alias].vendor != "postgresql":
        pytest.skip("asked of PostgreSQL, where a connection can end another")
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    killer = threading.Thread(target=_kill, args=(alias, pid))
    killer.start()
    killer.join()
    try:
        assert judged(alias, "SELECT 1").category == "dependency"
    finally:
        connections[alias].close()


def _kill(alias: str, pid: int) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    connections[alias].close()
