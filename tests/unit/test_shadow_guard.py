"""The guard of shadow databases reads SQL as PostgreSQL does, as far as quotes and comments go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_celery_replay.shadow import guard

TABLES = frozenset({"shop_order", "Odd name"})


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("COMMIT", "COMMIT"),
        ("\n ; ;; commit", "COMMIT"),
        ("select 1;/**/END", "END"),
        ("/* /* */ select 1 */ abort", "ABORT"),
        ("-- select\nROLLBACK", "ROLLBACK"),
        ("ROLLBACK PREPARED 'x'", "ROLLBACK PREPARED"),
        ("COMMIT PREPARED 'x'", "COMMIT PREPARED"),
        ("PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION"),
        ("BEGIN", "BEGIN"),
        ("START TRANSACTION READ WRITE", "START TRANSACTION"),
        ("SELECT $$ ; $$, $a$ $$ $a$; COMMIT", "COMMIT"),
        (r"SELECT E'\''; COMMIT --'", "COMMIT"),
        (r"SELECT '\'; COMMIT --'", "COMMIT"),
        ('SELECT "a"";" FROM b; COMMIT', "COMMIT"),
        ("SET LOCAL ROLE x", "SET LOCAL ROLE"),
        ('SET "role" = x', "SET"),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET TRANSACTION"),
        ("SET default_transaction_read_only TO off", "SET DEFAULT_TRANSACTION_READ_ONLY"),
        ("RESET ALL", "RESET ALL"),
        ("RESET SESSION AUTHORIZATION", "RESET SESSION AUTHORIZATION"),
        ("DISCARD TEMP", "DISCARD"),
        ("LOCK shop_price", "LOCK"),
        ("LOCK TABLE ONLY shop_order, shop_price IN SHARE MODE", "LOCK TABLE"),
        ("COPY shop_order TO '/tmp/x'", "COPY"),
        ("COPY shop_order FROM PROGRAM 'x'", "COPY"),
        ("ROLLBACK TO celery_replay_statement", "ROLLBACK"),
        ("RELEASE celery_replay_block_1", "RELEASE"),
        ('SELECT * FROM "dblink"(%s)', "dblink"),
        ("SELECT pg_catalog.PG_TERMINATE_BACKEND(1)", "pg_terminate_backend"),
        ("DO $a$ BEGIN PERFORM lo_unlink(1); END $a$", "lo_unlink"),
        ("DO 'BEGIN PERFORM pg_advisory_lock(1); END'", "pg_advisory_lock"),
    ],
)
def test_what_ends_the_transaction_or_stays_after_it_is_refused(sql: str, told: str) -> None:
    assert guard.objection(sql, TABLES) == told


@pytest.mark.parametrize(
    "sql",
    [
        "",
        ";",
        "SELECT 1 AS commit",
        "SELECT ';COMMIT;'",
        "SELECT $$;COMMIT;$$",
        'SELECT "a;COMMIT" FROM b -- ; COMMIT',
        "SELECT 'pg_advisory_lock'",
        "SELECT CASE WHEN a THEN b END",
        "SAVEPOINT a",
        "ROLLBACK TO SAVEPOINT a",
        "ROLLBACK WORK TO a",
        "RELEASE SAVEPOINT a",
        "PREPARE commit AS SELECT 1",
        "SET search_path = a",
        "SET LOCAL statement_timeout = 1",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "SELECT set_config('app.tenant', %s, true)",
        "RESET work_mem",
        'LOCK TABLE shop_order, "Odd name" IN SHARE MODE NOWAIT',
        "COPY shop_order TO STDOUT",
        "DO $$ BEGIN NULL; END $$",
        "INSERT INTO a SELECT loread(1, 2)",
    ],
)
def test_all_else_is_left_to_the_server(sql: str) -> None:
    assert guard.objection(sql, TABLES) is None


@given(st.text(alphabet="'\"$a;-*/\\E \n") | st.text())
def test_whatever_is_no_sql_is_read_to_its_end(text: str) -> None:
    guard.objection(text, TABLES)
    guard.summary(text)


@given(st.text(alphabet="ab;'\"$-/*\\ \n"))
def test_a_quoted_text_hides_nothing_behind_it(text: str) -> None:
    literal = "'" + text.replace("'", "''") + "'"
    assert guard.objection(f"SELECT {literal}; COMMIT", TABLES) == "COMMIT"
    assert guard.objection(f"SELECT {literal}", TABLES) is None


@given(st.text(alphabet="ab;'\"$-/*\\ \n"), st.sampled_from(["COMMIT", "dblink", "PG_advisory_lock(1)", "", "x"]))
def test_what_begins_plainly_is_judged_as_if_it_was_read(text: str, end: str) -> None:
    for sql in (f"SELECT {text}{end}", f" \nselect '{text}' {end}", f"insert{text} {end}"):
        assert guard.objection(sql, TABLES) == guard._objection(sql, TABLES)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ('UPDATE "shop_order" SET "a" = %s', "UPDATE shop_order"),
        ("insert into public.shop_order (a) values ('secret')", "INSERT shop_order"),
        ("TRUNCATE TABLE ONLY shop_order", "TRUNCATE shop_order"),
        ("SELECT 'secret'", "SELECT"),
        ("", ""),
    ],
)
def test_a_statement_is_told_without_its_values(sql: str, told: str) -> None:
    assert guard.summary(sql) == told
