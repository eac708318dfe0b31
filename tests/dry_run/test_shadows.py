"""Dry runs on shadows of a PostgreSQL database: its SQL works, and what is there stays as it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from django_celery_replay.shadow import places
from tests.docs.pages import blocks
from tests.dry_run import shadow_attempts
from tests.support import pgbouncer, project_database
from tests.support.workers import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
Found = dict[str, Any]
Runs = Callable[..., Found]
OWNER = "postgres"
EVERYTHING = {name: held for name, held in shadow_attempts.HELD.items() if held[0] != "its end"}


@pytest.fixture(scope="module")
def database(postgres_dsn: str) -> Iterator[Callable[[], str]]:
    """Return what makes an empty database, where the extension is that a superuser has to add."""
    with ExitStack() as stack:

        def make() -> str:
            url = project_database.copied(postgres_dsn, "template1", stack)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE EXTENSION hstore")
            return url

        yield make


@pytest.fixture(scope="module")
def reader(postgres_dsn: str) -> Iterator[Callable[[str], str]]:
    """Return what makes the role of the how-to in a database, by its very statements."""
    name = f"replay_reader_{uuid.uuid4().hex[:8]}"
    page = blocks("docs/how-to/dry-run-a-failed-job.md")
    (shown,) = [block.text for block in page if block.text.startswith("CREATE ROLE")]
    made = []

    def make(url: str) -> str:
        database, owner = urlsplit(url).path[1:], urlsplit(url).username or OWNER
        known = shown.replace("replay_reader", name).replace("DATABASE shop", f"DATABASE {database}")
        statements = known.replace("FOR ROLE shop", f"FOR ROLE {owner}").split(";\n")
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements[bool(made) :]:
                if statement.strip():
                    connection.execute(statement)  # type: ignore[call-overload]
        made.append(url)
        return name

    yield make
    for url in made:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
    if made:
        with psycopg.connect(postgres_dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def runs(database: Callable[[], str], reader: Callable[[str], str]) -> Runs:
    """Return what runs bodies of the project on a shadow."""

    def run(group: str, *bodies: str, superuser: bool = False, **env: str) -> Found:
        url = database()
        role = reader(url) if not superuser else urlsplit(url).username or OWNER
        known = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'django_app'}", "SHADOW_URL": url, **env}
        command = [sys.executable, "-m", "tests.dry_run.shadow_project", url, role, group, *bodies]
        done = subprocess.run(command, cwd=ROOT, env=known, capture_output=True, text=True, timeout=350, check=False)
        assert done.returncode == 0, done.stderr
        found: Found = json.loads(done.stdout)
        return found

    return run


@pytest.fixture(scope="module")
def worked(runs: Runs) -> Found:
    return runs("work")


@pytest.mark.parametrize(
    ("body", "result"),
    [
        # Old numbers come from the live table's own sequence, by its name; its second one is taken by hand.
        ("write", [10, [[4]], 2, [[3]]]),
        ("search", [2, 1, 1, 1, "12345678901234567.123456789012", ["nut", "bolt"], [1, 2], ["bolt", "nut"]]),
        ("own_sql", [[[7, 13]], [["[1, null]"]], [[5]], [["1,2,3"]]]),
        ("transactions", [10, ["outer"]]),
        ("errors_of_statements", [["UniqueViolation", "CheckViolation", "UniqueViolation"], 4, 2]),
        ("deferred_constraints", ["ExclusionViolation", 1]),
        ("cursors_on_the_server", [302, 302, 302]),
        ("a_thread", 6),
        ("a_second_alias", 6),
        ("read_live", 40),
        ("connections_closed", 6),
        ("locks_of_its_own", [3, 5]),
        ("copies", ["x", "z"]),
        ("notices", "told nobody"),
        (
            "a_thread_in_the_way",
            [5, ["another thread of this job has been in a transaction for 5 s; a shadow database has one"]],
        ),
        ("called_away", 5),
        ("rows_as_they_come", [[1, 2, 3], 2]),
        ("database_error", None),
    ],
)
def test_postgres_own_sql_does_its_work_on_a_shadow(worked: Found, body: str, result: Any) -> None:
    found = worked[body]
    assert found["result"] == result, found
    assert found["ends"] == ("succeeds" if result is not None else "fails_another_way"), found
    assert (found["blocked"], found["began_as_then"]) == ([], True)
    assert (found["unchanged"], found["heard"], found["left_behind"]) == (True, [], 0)


def test_what_it_changed_is_told_row_by_row(worked: Found) -> None:
    changed = {(row["record"], row["field"]): (row["before"], row["after"]) for row in worked["write"]["state"]}
    assert changed["stock.item:7", "count"] == (3, 4)
    assert changed["stock.item:10", "name"] == ("(absent)", "washer")
    assert changed["stock.move:1", "item_id"] == ("(absent)", 10)


def test_the_report_tells_what_is_a_copy_and_what_is_live(worked: Found) -> None:
    told = worked["read_live"]["surroundings"]
    assert told["shadow"] == (
        "copies of stock_booked, stock_item, stock_move, stock_old; whatever else it reads is live"
    )
    assert (told["live_data"], told["not_recorded"]) == ("stock_price", "")
    assert worked["write"]["surroundings"]["live_data"] == ""
    assert worked["notices"]["surroundings"]["would_notify"] == "2 times"


def test_what_a_copy_has_not_is_listed(worked: Found) -> None:
    told = worked["write"]["surroundings"]["unlike_it"]
    assert re.fullmatch(
        r"not enforced stock\.move: foreign keys stock_move_item_id_\w+; not enforced stock\.item: triggers on_item",
        told,
    ) or re.fullmatch(
        r"not enforced stock\.item: triggers on_item; not enforced stock\.move: foreign keys stock_move_item_id_\w+",
        told,
    )


def test_an_error_of_the_database_is_not_put_down_to_sqlite(worked: Found) -> None:
    assert worked["database_error"]["said"].endswith("django.db.utils.DataError: division by zero")


def test_the_first_line_tells_that_the_role_can_only_read(worked: Found) -> None:
    assert re.search(r"; database: default as replay_reader_\w+, which can only read$", worked["write"]["sandbox"])


@pytest.fixture(scope="module", params=["reader", "superuser"])
def tried(request: pytest.FixtureRequest, runs: Runs) -> tuple[int, Found]:
    superuser = request.param == "superuser"
    return int(superuser), runs("escapes", superuser=superuser)


@pytest.mark.parametrize("name", EVERYTHING)
def test_no_way_leads_to_the_live_database(tried: tuple[int, Found], name: str) -> None:
    who, found = tried[0], tried[1][name]
    layer = EVERYTHING[name][who]
    assert found["unchanged"] == (layer != "nothing"), found
    assert (found["heard"], found["left_behind"]) == ([], 0)
    told = [f"{what} {detail}" for what, detail, _ in found["blocked"]]
    if layer in shadow_attempts.LAYERS:
        assert any(line.endswith(f", held by {shadow_attempts.LAYERS[layer]}") for line in told), found
        assert found["ends"] == "blocked"
    elif layer != "nothing":
        assert not told, found


def test_what_a_step_tried_is_told_under_its_name(tried: tuple[int, Found]) -> None:
    ((what, detail, step),) = tried[1]["in_a_step"]["blocked"]
    assert (what, step) == ("database.statement", "write_in_a_step")
    assert detail.startswith("UPDATE stock_price: cannot execute UPDATE in a read-only transaction")


def test_an_end_of_its_transaction_is_told_and_what_held_from_then_on(tried: tuple[int, Found]) -> None:
    held_by = ("the rights of its role from then on", "nothing from then on")[tried[0]]
    for name in ("beneath_the_driver", "everything_taken_off", "message_of_the_protocol"):
        told = [detail for _, detail, _ in tried[1][name]["blocked"]]
        assert f"its transaction on 'default' was ended, held by {held_by}" in told
    assert tried[1]["message_of_the_protocol"]["unchanged"]


def test_the_first_line_tells_that_a_superuser_is_only_guarded(tried: tuple[int, Found]) -> None:
    said = tried[1]["insert"]["sandbox"]
    assert ("; database: default guarded, not enforced: " in said) == bool(tried[0])
    assert said.endswith("is a superuser") == bool(tried[0])


def test_a_statement_ends_with_its_run(runs: Runs) -> None:
    found = runs("escapes", "slow", SECONDS="2")["slow"]
    assert (found["ends"], found["said"]) == ("died", "it did not come to an end: killed after 2 s")
    assert (found["unchanged"], found["left_behind"]) == (True, 0)


@pytest.mark.parametrize(
    ("grants", "told"),
    [
        ([], None),
        (["GRANT INSERT ON stock TO {}"], "may write to stock"),
        (["GRANT UPDATE (a) ON stock TO {}"], "may write to stock"),
        (
            ["GRANT TRUNCATE ON stock TO {}", "GRANT USAGE ON SEQUENCE stock_id_seq TO {}"],
            "may write to stock and 1 more",
        ),
        (["GRANT CREATE ON SCHEMA public TO {}"], "may create in the schema public"),
        (["GRANT pg_write_all_data TO {}"], "may act as pg_write_all_data"),
        (["ALTER ROLE {} CREATEROLE"], "may create roles"),
        (["GRANT pg_read_all_data TO {}"], None),
    ],
)
def test_whatever_a_role_may_beside_reading_is_found(
    database: Callable[[], str], grants: Sequence[str], told: str | None
) -> None:
    url, role = database(), sql.Identifier(f"replay_may_{uuid.uuid4().hex[:8]}")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE stock (id serial, a int)")
        for statement in ["CREATE ROLE {}", "GRANT SELECT ON stock TO {}", *grants, "SET ROLE {}"]:
            connection.execute(sql.SQL(statement).format(role))  # type: ignore[arg-type]
        found = connection.execute(places._MAY).fetchall()  # type: ignore[call-overload]
        connection.rollback()
    assert found[:1] == ([(told,)] if told else [])


# What is refused before anything runs


def test_whoever_requires_the_kernel_is_refused_a_role_that_may_write(runs: Runs) -> None:
    refused = runs("work", "write", superuser=True, STRICT="1")["refused"]
    assert "is not enforced by the database: " in refused
    assert "is a superuser; " in refused
    assert refused.endswith("[shadow-unavailable]")


def test_whoever_requires_the_kernel_is_content_with_a_reader(runs: Runs) -> None:
    assert runs("work", "write", STRICT="1")["write"]["ends"] == "succeeds"


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_a_pooler_is_refused(runs: Runs, postgres_dsn: str, mode: str) -> None:
    if pgbouncer.binary() is None:
        pytest.skip("no PgBouncer: apt-get install pgbouncer")
    with ExitStack() as stack:
        port = pgbouncer.start(postgres_dsn, mode, stack)
        refused = runs("work", "write", superuser=True, SHADOW=json.dumps({"HOST": "127.0.0.1", "PORT": port}))[
            "refused"
        ]
    assert "is reached through a pooler" in refused
    assert "give HOST and PORT of the server itself in replay_sandbox_database" in refused
    assert refused.endswith("[shadow-unavailable]")


def test_a_server_that_is_not_there_is_told(runs: Runs) -> None:
    refused = runs("work", "write", SHADOW=json.dumps({"HOST": "127.0.0.1", "PORT": 1}))["refused"]
    assert "the shadow of 'default' can't be reached: " in refused
    assert refused.endswith("[shadow-unavailable]")
