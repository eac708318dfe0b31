"""Ways from a shadow to the live database; each is told with the layer that holds, for a reader and for a superuser.

"guard" is in front of the driver, "read only" the server's transaction, "rights" the role's, "transaction" what the
server says of one, "rollback" its end where something was left to it. The others are not told: "back" is what its end
takes back, "kernel" what the driver in C was refused, "unseen" what a superuser may and the guard can't see, and
"nothing" what reaches the live rows.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection, connections, transaction

from celery_replay import step
from tests.dry_run.stock.models import Item, Price

BODIES: dict[str, Callable[[], Any]] = {}
HELD: dict[str, tuple[str, str]] = {}
CHANNEL = "escaped"
LAYERS = {
    "guard": "the guard",
    "read only": "the READ ONLY transaction",
    "rights": "the rights of its role",
    "transaction": "the transaction",
    "rollback": "its rollback, which came at the end of the run",
}


def way(readers: str, superusers: str | None = None) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a way out, and what holds."""

    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        def tried() -> Any:
            try:
                with connection.cursor():
                    pass
                return function()
            except Exception as error:
                return f"{type(error).__name__}: {error}"

        BODIES[function.__name__] = tried
        HELD[function.__name__] = (readers, superusers or readers)
        return function

    return register


def does(name: str, readers: str, sql: str, superusers: str | None = None, *params: Any) -> None:
    """Register a statement."""

    def function() -> Any:
        run(sql, *params)
        return "not refused"

    function.__name__ = name
    way(readers, superusers)(function)


def run(sql: str, *params: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return cursor.fetchall() if cursor.description else []


does("insert", "read only", "INSERT INTO stock_price (amount) VALUES (1)")
does("update", "read only", "UPDATE stock_price SET amount = 0")
does("delete", "read only", "DELETE FROM stock_price")
does("truncate", "read only", "TRUNCATE stock_price")
does("by_its_schema", "read only", "UPDATE public.stock_item SET count = 0")
does("writing_query", "read only", "WITH w AS (UPDATE stock_price SET amount = 0 RETURNING 1) SELECT * FROM w")
does("merge", "read only", "MERGE INTO stock_price p USING stock_price q ON p.id = q.id WHEN MATCHED THEN DELETE")
does("merge_into_a_select", "read only", "SELECT * INTO new_table FROM stock_price")
does("sequence", "rights", "SELECT nextval('stock_price_id_seq')", "read only")
does("set_sequence", "rights", "SELECT setval('public.stock_item_id_seq', 900)", "read only")
does("locked_rows", "read only", "SELECT * FROM stock_price FOR UPDATE")
does("locked_table", "guard", "LOCK TABLE stock_price IN ACCESS EXCLUSIVE MODE")
does("locked_table_in_a_function", "rights", "DO $$ BEGIN LOCK TABLE stock_price; END $$", "rollback")
does("table", "read only", "CREATE TABLE escaped (a int)")
does("temporary_table", "read only", "CREATE TEMP TABLE escaped (a int)")
does("function", "read only", "CREATE FUNCTION escaped() RETURNS int LANGUAGE sql AS 'SELECT 1'")
does("role", "read only", "CREATE ROLE escaped")
does("altered_table", "read only", "ALTER TABLE stock_price ADD COLUMN a int")
does("dropped_table", "read only", "DROP TABLE public.stock_item")
does("granted", "read only", "GRANT ALL ON stock_price TO PUBLIC")
does("settings_of_the_server", "transaction", "ALTER SYSTEM SET work_mem = '5MB'")
does("database", "read only", "CREATE DATABASE escaped")
does("vacuum", "transaction", "VACUUM stock_price")
does("commit", "guard", "COMMIT")
does("commit_in_lower_case", "guard", "commit work and chain")
does("end", "guard", "END")
does("rollback", "guard", "ROLLBACK")
does("abort", "guard", "ABORT")
does("commit_behind_another", "guard", "SELECT 1; COMMIT; DELETE FROM stock_price")
does("commit_behind_comments", "guard", "/* a /* nested */ one */ -- and\n COMMIT")
does("commit_behind_a_text", "guard", "SELECT 'it''s', E'\\'', $a$ ; $a$, \"x;\" FROM (SELECT 1 AS \"x;\") s; COMMIT")
does("commit_in_a_block", "transaction", "DO $$ BEGIN COMMIT; END $$")
does("commit_in_a_procedure", "transaction", "CALL escaping()")
does("two_phases", "guard", "PREPARE TRANSACTION 'escaped'")
does("read_write", "guard", "SET TRANSACTION READ WRITE")
does("read_write_later", "guard", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
does("read_write_by_name", "guard", "SET LOCAL transaction_read_only = off")
does("read_write_by_a_function", "transaction", "SELECT set_config('transaction_read_only', 'off', false)")
does("set_role", "guard", "SET ROLE postgres")
does("set_role_by_a_function", "rights", "SELECT set_config('role', 'postgres', false)", "back")
does("session_authorization", "guard", "SET SESSION AUTHORIZATION postgres")
does("reset_role", "guard", "RESET ROLE")
does("reset_all", "guard", "RESET ALL")
does("discard", "guard", "DISCARD ALL")
does("notify", "back", f"NOTIFY {CHANNEL}, 'x'")
does("notify_in_a_function", "back", f"SELECT pg_notify('{CHANNEL}', 'x')")
does("notify_in_a_function_of_the_server", "back", "SELECT told_others()")
does("advisory_lock", "guard", "SELECT pg_advisory_lock(1)")
does("advisory_lock_of_the_transaction", "guard", "SELECT pg_try_advisory_xact_lock(1)")
does("advisory_lock_in_a_block", "guard", "DO $$ BEGIN PERFORM pg_advisory_lock(1); END $$")
does("advisory_lock_in_a_function_of_the_server", "rollback", "SELECT lock_others()")
does("large_object", "guard", "SELECT lo_create(0)")
does("large_object_of_a_file", "guard", "SELECT lo_import('/etc/hostname')")
does("large_object_in_a_function", "back", "SELECT make_object()")
does("program", "guard", "COPY stock_price TO PROGRAM 'touch /tmp/escaped'")
does("program_in_a_block", "rights", "DO $$ BEGIN COPY stock_price TO PROGRAM 'cat > /dev/null'; END $$", "unseen")
does("file", "guard", "COPY stock_price TO '/tmp/escaped'")
does("copied_in", "rights", "COPY stock_price (amount) FROM STDIN", "read only")
does("other_database", "guard", "SELECT dblink('dbname=postgres', 'SELECT 1')")
does("foreign_server", "read only", "CREATE SERVER escaped FOREIGN DATA WRAPPER postgres_fdw")
does("terminated", "guard", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity")
does("cancelled", "guard", "SELECT pg_cancel_backend(pid) FROM pg_stat_activity")
does("message_to_followers", "guard", "SELECT pg_logical_emit_message(false, 'a', 'b')")
does("definer", "read only", "SELECT as_owner()")
does("savepoint_of_ours", "guard", "ROLLBACK TO SAVEPOINT celery_replay_statement")


@way("guard")
def commit_of_the_driver() -> Any:
    connection.connection.commit()
    return "not refused"


@way("guard")
def cursor_of_the_driver() -> Any:
    connection.connection.execute("COMMIT")
    return "not refused"


@way("guard")
def bytes_of_the_driver() -> Any:
    connection.connection.cursor().execute(b"COMMIT")
    return "not refused"


@way("guard")
def composed_by_the_driver() -> Any:
    connection.connection.execute(psycopg.sql.SQL("{}").format(psycopg.sql.SQL("COMMIT")))
    return "not refused"


@way("guard")
def autocommit_of_the_driver() -> Any:
    connection.connection.autocommit = False
    return "not refused"


@way("guard")
def two_phases_of_the_driver() -> Any:
    connection.connection.tpc_begin("escaped")
    return "not refused"


@way("read only")
def in_a_transaction() -> Any:
    with transaction.atomic():
        Price.objects.update(amount=0)
    return "not refused"


@way("read only")
def swallowed() -> Any:
    try:
        Price.objects.update(amount=0)
    except Exception:
        return "swallowed"
    return "not refused"


@step
def write_in_a_step() -> None:
    """Write to a live table."""
    Price.objects.update(amount=0)


@way("read only")
def in_a_step() -> Any:
    write_in_a_step()
    return "not refused"


@way("read only")
def with_a_cursor_on_the_server() -> Any:
    with transaction.atomic():
        return len([*Price.objects.select_for_update().iterator()])


def _own_connection() -> Any:
    psycopg.connect(os.environ["SHADOW_URL"], connect_timeout=3).execute("DELETE FROM stock_price").connection.commit()
    return "not refused"


@way("kernel")
def connection_of_its_own() -> Any:
    return _own_connection()


@way("kernel")
def connection_of_a_thread() -> Any:
    caught: list[Any] = []

    def connect() -> None:
        try:
            caught.append(_own_connection())
        except Exception as error:
            caught.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=connect)
    thread.start()
    thread.join()
    return caught[0]


@way("scratch")
def second_alias() -> Any:
    with connections["other"].cursor() as cursor:
        return str(cursor.execute("SELECT sqlite_version()").fetchone()[0])


def _ended() -> None:
    """End the transaction past the guard."""
    connection.connection.pgconn.exec_(b"COMMIT")


@way("guard")
def beneath_the_driver() -> Any:
    _ended()
    return "not refused"


@way("guard")
def statement_behind_the_end() -> Any:
    _ended()
    Item.objects.update(count=0)
    return "not refused"


@way("guard")
def write_beneath_behind_the_end() -> Any:
    _ended()
    sent = connection.connection.pgconn.exec_(b"UPDATE stock_item SET count = 0")
    return sent.error_message.decode()


@way("guard", "nothing")
def everything_taken_off() -> Any:
    _ended()
    pgconn = connection.connection.pgconn
    pgconn.exec_(b"SET default_transaction_read_only = off")
    sent = pgconn.exec_(b"UPDATE public.stock_item SET count = 0")
    return sent.error_message.decode() or "not refused"


@way("its end")
def message_of_the_protocol() -> Any:
    text = b"COMMIT\0"
    os.write(connection.connection.fileno(), b"Q" + (len(text) + 4).to_bytes(4, "big") + text)
    time.sleep(0.2)
    os.read(connection.connection.fileno(), 10_000)
    Item.objects.update(count=0)
    return "not refused"


SLOW = {"slow": lambda: run("SELECT pg_sleep(60)")}


@contextmanager
def watched(url: str) -> Iterator[Callable[[], list[str]]]:
    """Prepare what some ways need, and listen; yield what tells what was heard."""
    with psycopg.connect(url, autocommit=True) as other:
        for sql in _HELP:
            other.execute(sql)  # type: ignore[call-overload]
        other.execute(f"LISTEN {CHANNEL}")  # type: ignore[call-overload]
        yield lambda: [note.channel for note in other.notifies(timeout=0.05)]


_HELP = [
    "CREATE PROCEDURE escaping() LANGUAGE plpgsql AS 'BEGIN COMMIT; END'",
    f"CREATE FUNCTION told_others() RETURNS void LANGUAGE sql AS $$ SELECT pg_notify('{CHANNEL}', 'x') $$",
    "CREATE FUNCTION make_object() RETURNS oid LANGUAGE sql AS 'SELECT lo_create(0)'",
    "CREATE FUNCTION as_owner() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'UPDATE stock_price SET amount = 0'",
    "CREATE FUNCTION lock_others() RETURNS void LANGUAGE sql AS 'SELECT pg_advisory_lock(1)'",
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION postgres_fdw",
]
