"""What a page costs does not depend on how much there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from django.contrib import admin
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from celery_replay.records import HistoryEntry
from celery_replay.states import Outcome, Verb
from django_celery_replay.admin.reading import jobs_beginning
from django_celery_replay.store import DjangoStore
from tests.django_admin.builders import NOW, attempt, entry, failed, group, job, lease, letter, row, step, trace
from tests.django_admin.conftest import Page, Put

every_vendor = pytest.mark.parametrize("database_url", ["sqlite_url", "postgres_dsn", "mariadb_url"], indirect=True)


def fill(put: Put, count: int) -> None:
    numbers = range(count)
    put(
        *(job(f"s{n:04}", key=f"order:{n:04}", claim=f"c{n}", started_at=NOW - n) for n in numbers),
        *(attempt(f"s{0:04}", f"n{n}", Outcome.RETRY_SCHEDULED, started_at=NOW + n) for n in numbers),
        *(step("c0", f"step {n}") for n in numbers),
        *(trace(f"s{0:04}", f"n{n}", {"name": "started"}) for n in numbers),
        *(letter(f"s{n:04}", traceback="x" * 10_000, group_id="g0") for n in numbers),
        *(group(f"g{n}", last_seen=NOW - n) for n in numbers),
        *(entry(f"e{n}", submission="s0000", at=NOW + n) for n in numbers),
        *(entry(f"f{n}", group_id="g0", at=NOW + n) for n in numbers),
        *(replayed(f"s{n:04}") for n in numbers),
        *(lease(f"r{n:04}", f"s{n:04}") for n in numbers),
        *(row(f"s{n:04}", subject=f"c{n + 1}") for n in numbers),
    )


def replayed(name: str) -> HistoryEntry:
    details = json.dumps({"replay": name, "task_id": "t"})
    return entry(f"o{name}", submission=name, operation_id="op", verb=Verb.REPLAYED, details=details)


@pytest.fixture
def queries(store: DjangoStore, page: Page) -> Iterator[Any]:
    """Return what gets the queries that a page makes."""

    def queries(path: str, **query: str) -> list[str]:
        with CaptureQueriesContext(connections[store.alias]) as captured:
            page(path, **query)
        found = [each["sql"] for each in captured.captured_queries]
        # Not ours: how a connection is set up.
        return [sql for sql in found if sql.startswith("SELECT") and "django_celery_replay" in sql]

    return queries


FACETS = {"_facets": "1"} if hasattr(admin, "ShowFacets") else {}
"""What asks for counts by filter, since Django 5.0."""
COSTS = {
    "processedjob/": 2,
    "deadletter/": 5,
    "lettergroup/": 4,
    "parkedjob/": 3,
    "resourcelease/": 1,
    "processedjob/s0000/change/": 6,
    "deadletter/s0000/change/": 6,
    "deadletter/operation/op/": 5,
    "lettergroup/g0/change/": 3,
    "parkedjob/s0000/change/": 4,
}


@every_vendor
def test_pages_cost_the_same_for_few_and_many_records(put: Put, queries: Any) -> None:
    for count in (1, 220):
        fill(put, count)
        assert {path: len(queries(path)) for path in COSTS} == COSTS


@every_vendor
def test_no_list_counts_skips_or_reads_what_is_large(put: Put, queries: Any) -> None:
    fill(put, 220)
    for path, query in [
        ("processedjob/", {}),
        ("processedjob/", {"q": "order:"}),
        ("processedjob/", {"status": "succeeded", "since": "month", "all": "", **FACETS}),
        ("processedjob/", {"p": f"{NOW - 50},s0050"}),
        ("deadletter/", {"q": "order:", "state": "open"}),
        ("deadletter/", {"group_id": "g0", "state": "unresolved", "effect": "unknown", "assignee": "-"}),
        ("lettergroup/", {"q": "shop", "show": "all"}),
        ("parkedjob/", {"q": "order:", "status": "parked"}),
        ("resourcelease/", {"q": "order:"}),
    ]:
        for sql in queries(path, **query):
            assert "COUNT(" not in sql
            assert "OFFSET" not in sql
            assert "DISTINCT" not in sql
            columns = sql.partition(" FROM ")[0].replace('"', "").replace("`", "").split(", ")
            names = {column.rpartition(".")[2] for column in columns if "(" not in column}
            assert not names & {"result", "failure", "traceback", "error_message", "message", "edited"}


@every_vendor
@pytest.mark.parametrize("values", [{"action": "replay"}, {"action": "discard"}])
def test_pages_about_many_letters_cost_the_same_for_few_and_many(
    put: Put,
    visitor: Client,
    store: DjangoStore,
    shop: Celery,
    monkeypatch: pytest.MonkeyPatch,
    values: dict[str, str],
) -> None:
    ran: list[Any] = []
    run = store._run
    monkeypatch.setattr(store, "_run", lambda *args, **more: (ran.append(args), run(*args, **more))[1])
    costs = []
    for count in (1, 150):
        put(*(record for n in range(count) for record in failed(f"s{n}")), *(step(f"s{n}") for n in range(count)))
        ran.clear()
        with CaptureQueriesContext(connections[store.alias]) as captured:
            page = visitor.post("/admin/django_celery_replay/deadletter/", {**values, "index": "all"})
        assert f"{count} dead letter" in page.content.decode()
        costs.append((len(ran), len([q for q in captured.captured_queries if "SELECT" in q["sql"]])))
    assert costs[0] == costs[1]
    assert sum(costs[0]) < 20


@pytest.mark.parametrize("database_url", ["postgres_dsn"], indirect=True)
def test_postgresql_answers_a_search_by_its_indexes(put: Put, store: DjangoStore) -> None:
    put(*(job(f"s{n:05}", key=f"order:{n:05}", started_at=NOW - n) for n in range(3_000)))
    connection = connections[store.alias]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE django_celery_replay_processedjob")
    for term in ("order:00042", "task-s0004", "s00042"):
        plan = jobs_beginning(term).order_by("-started_at", "-pk")[:101].explain()
        assert "Seq Scan" not in plan
        assert "replay_job_key" in plan


def test_sqlite_answers_a_search_and_a_page_by_its_indexes(put: Put, store: DjangoStore) -> None:
    plan = jobs_beginning("order:").explain()
    assert "SCAN" not in plan
    for index in ("replay_job_key", "replay_job_task", "replay_job_trace"):
        assert index in plan
