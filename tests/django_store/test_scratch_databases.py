"""What a child process does to its scratch databases: the live ones, and their connections, do not notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import InterfaceError, connections, router, transaction

from celery_replay.snapshots.capture import capture
from celery_replay.snapshots.tree import Tree
from django_celery_replay.scratch import Template, fill, replace_databases, template
from django_celery_replay.scratch.databases import owners_of
from django_celery_replay.state_provider import DjangoState
from tests.django_store.everything import PORTABLE, Customer, tables
from tests.support.django_stores import database_alias
from tests.support.workers import ROOT, SOURCES


@pytest.fixture
def made(tmp_path: Path) -> Template:
    folder = tmp_path / "template"
    folder.mkdir()
    return template(folder, PORTABLE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def live(business: str) -> Iterator[str]:
    with tables(business, *PORTABLE):
        Customer.objects.using(business).bulk_create(Customer(id=n, name=f"c{n}") for n in range(1, 6))
        yield business


@pytest.fixture
def other(tmp_path: Path) -> Iterator[str]:
    alias = database_alias(f"sqlite:///{tmp_path}/other.sqlite3")
    with tables(alias, *PORTABLE):
        yield alias
    connections[alias].close()
    del connections[alias]
    del connections.settings[alias]


def in_child(work: Callable[[], Any]) -> Any:
    """Return what a function returns in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writing, json.dumps(work()).encode())
            status = 0
        except BaseException:
            os.write(writing, traceback.format_exc()[-4000:].encode())
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0, said
    return json.loads(said)


def names(alias: str) -> list[str]:
    return [*Customer.objects.using(alias).order_by("id").values_list("name", flat=True)]


def snapshot(alias: str) -> Tree:
    built = capture({"all": lambda: Customer.objects.using(alias)}, [DjangoState()])
    return Tree(built.reference, lambda references: {one: built.blobs[one] for one in references})


def session(alias: str) -> Any:
    """Say which of its server's sessions a connection is."""
    query = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT connection_id()"}.get(connections[alias].vendor)
    if query is None:
        return None
    with connections[alias].cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()


def in_thread(work: Callable[[], Any]) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failed, failed


def raw(alias: str, sql: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)


def test_a_childs_work_is_seen_by_it_alone_and_the_parents_transaction_goes_on(
    live: str, other: str, made: Template, folder: Path
) -> None:
    def work() -> Any:
        replace_databases(folder, made)
        filled = fill(before, [live, other])
        rows = Customer.objects.using(live)
        assert names(live) == names(other) == ["c1", "c2", "c3", "c4", "c5"]
        rows.filter(id=1).delete()
        rows.filter(id=2).update(name="changed")
        assert rows.create(name="new").pk == 6
        in_thread(lambda: rows.create(name="of a thread"))
        in_thread(lambda: raw(live, "UPDATE everything_customer SET name = 'raw' WHERE id = 3"))
        raw(live, "DELETE FROM everything_customer WHERE id = 4")
        Customer.objects.using(other).filter(id=5).update(name="elsewhere")
        with transaction.atomic(using=live):
            rows.create(name="rolled back")
            transaction.set_rollback(True, using=live)
        in_thread(lambda: Customer.objects.using(other).create(name="of a thread"))
        return [filled.rows, names(live), names(other)]

    before = snapshot(live)
    Customer.objects.using(other).create(id=9, name="of the other")
    with transaction.atomic(using=live):
        Customer.objects.using(live).create(id=50, name="before the fork")
        here = session(live)
        found = in_child(work)
        assert session(live) == here
        Customer.objects.using(live).create(id=51, name="after the child")
    assert found == [
        {"everything.customer": 5},
        ["changed", "raw", "c5", "new", "of a thread"],
        ["c1", "c2", "c3", "c4", "elsewhere", "of a thread"],
    ]
    # As others see it: the commit has arrived.
    connections[live].close()
    assert names(live) == ["c1", "c2", "c3", "c4", "c5", "before the fork", "after the child"]
    assert names(other) == ["of the other"]
    Customer.objects.using(live).filter(id__gte=50).delete()
    assert snapshot(live).reference == before.reference


def test_every_alias_is_a_scratch_database_and_no_address_is_left(live: str, made: Template, folder: Path) -> None:
    def work() -> Any:
        settings.DATABASES = {live: dict(connections.settings[live])}
        replace_databases(folder, made)
        known = [settings.DATABASES, connections.settings]
        return [{one["ENGINE"] for some in known for one in some.values()} == {"django_celery_replay.scratch"}] + [
            Path(one["NAME"]).parent == folder and not one["HOST"] and not one["PASSWORD"]
            for some in known
            for one in some.values()
        ]

    assert all(in_child(work))


def test_an_inherited_connection_that_somebody_kept_is_refused(live: str, made: Template, folder: Path) -> None:
    def work() -> Any:
        replace_databases(folder, made)
        with pytest.raises(InterfaceError, match="another process"):
            kept.cursor()
        kept.close()
        return connections[live].vendor

    kept = connections[live]
    kept.ensure_connection()
    assert in_child(work) == "sqlite"
    assert names(live) == ["c1", "c2", "c3", "c4", "c5"]


@pytest.mark.parametrize("server", ["postgres_dsn", "mariadb_url"])
def test_nothing_is_sent_to_the_parents_server_whatever_a_driver_tries(
    request: pytest.FixtureRequest, server: str, made: Template, folder: Path
) -> None:
    alias = database_alias(request.getfixturevalue(server))

    def work() -> Any:
        driver = connections[alias].connection
        number = (driver if hasattr(driver, "fileno") else driver._sock).fileno()
        replace_databases(folder, made)
        taken = os.path.samestat(os.fstat(number), Path(os.devnull).stat())
        with suppress(Exception):
            # Would end the parent's session, through the socket that they have in common.
            driver.close()
        return taken

    here = session(alias)
    assert in_child(work) is True
    assert session(alias) == here
    connections[alias].close()


def test_where_the_files_can_not_be_made_no_live_database_is_in_reach(live: str, made: Template, folder: Path) -> None:
    def work() -> Any:
        with pytest.raises(OSError, match="No such file"):
            replace_databases(folder / "missing", made)
        return [one["ENGINE"] for one in connections.settings.values()]

    assert set(in_child(work)) == {"django_celery_replay.scratch"}


def test_aliases_of_one_live_database_are_one_scratch_database() -> None:
    server = {"ENGINE": "django.db.backends.postgresql", "HOST": "db", "PORT": 5432, "NAME": "shop"}
    found = owners_of(
        {
            "default": server,
            "journal": {**server, "OPTIONS": {"connect_timeout": 3}},
            "archive": {**server, "NAME": "archive"},
            "replica": {**server, "HOST": "replica", "TEST": {"MIRROR": "journal"}},
            "one": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
            "two": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        }
    )
    assert found["default"] == found["journal"] == found["replica"]
    assert len({*found.values()}) == 4


def test_rows_are_filled_where_the_routers_send_their_models(
    live: str, other: str, made: Template, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Router:
        def db_for_read(self, model: Any, **hints: Any) -> str:
            return other

        db_for_write = db_for_read

    def work() -> Any:
        replace_databases(folder, made)
        fill(before)
        return [names(live), names(other)]

    before = snapshot(live)
    monkeypatch.setattr(router, "routers", [Router()])
    assert in_child(work) == [[], ["c1", "c2", "c3", "c4", "c5"]]


def test_the_template_is_made_beside_open_live_connections(live: str, tmp_path: Path) -> None:
    with transaction.atomic(using=live):
        Customer.objects.using(live).create(id=60, name="open")
        template(tmp_path, PORTABLE)
        template(tmp_path, PORTABLE)
        assert connections[live].in_atomic_block
    assert "open" in names(live)


SCRIPT = """
import os, sys
from pathlib import Path
import django
from django.conf import settings
folder = Path(sys.argv[1])
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "live.sqlite3")}},
    INSTALLED_APPS=["django.contrib.contenttypes"],
)
django.setup()
from django.contrib.contenttypes.models import ContentType as Kind
from django.db import connection, transaction
from django_celery_replay.scratch import replace_databases, template
with connection.schema_editor() as editor:
    editor.create_model(Kind)
made = template(folder)
(folder / "scratch").mkdir()
with transaction.atomic():
    Kind.objects.create(app_label="a", model="before")
    child = os.fork()
    if child == 0:
        replace_databases(folder / "scratch", made)
        Kind.objects.create(app_label="a", model="of the child")
        assert Kind.objects.count() == 1
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    Kind.objects.create(app_label="a", model="after")
connection.close()
print(*Kind.objects.order_by("id").values_list("model", flat=True))
"""


def test_a_child_that_ends_as_any_program_does_rolls_nothing_back(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.returncode) == ("before after", 0), done.stderr
