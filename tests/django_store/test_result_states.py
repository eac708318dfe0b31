"""Which state of a task stays, in Django's database as Celery's result backend."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, states
from django.db import connections, transaction
from django_celery_results.backends import DatabaseBackend as StockBackend
from django_celery_results.models import TaskResult

from django_celery_replay.results import DatabaseBackend
from tests.support.django_stores import direct_connection

ENDS = (states.SUCCESS, states.FAILURE, states.REVOKED)
ON_THE_WAY = (states.PENDING, states.RECEIVED, states.STARTED, states.RETRY, "PROGRESS")
ERROR = ValueError("wrong")


def value_of(state: str, number: int) -> Any:
    return ERROR if state in states.EXCEPTION_STATES else {"number": number}


def replaces(state: str, stored: str) -> bool:
    return stored != states.SUCCESS and (state in ENDS or stored not in ENDS)


@pytest.mark.parametrize("stored", [*ENDS, *ON_THE_WAY])
def test_an_end_stays_before_what_is_none_and_a_success_before_everything(
    results: DatabaseBackend, stored: str
) -> None:
    for state in (*ENDS, *ON_THE_WAY):
        task_id = f"{stored}-{state}"
        results.store_result(task_id, value_of(stored, 1), stored)
        results.store_result(task_id, value_of(state, 2), state)
        assert results.get_state(task_id) == (state if replaces(state, stored) else stored)
        if state == stored == states.SUCCESS:
            assert results.get_result(task_id) == {"number": 1}


def test_a_row_is_what_the_stock_backend_writes(results: DatabaseBackend) -> None:
    stock = StockBackend(app=results.app)
    results.app.conf.result_extended = True
    request = SimpleNamespace(
        id="", task="ship", argsrepr="(1,)", kwargsrepr="{}", hostname="w@h", children=[], periodic_task_name="daily",
        meta={"tenant": 7},
    )  # fmt: skip
    for state in (states.STARTED, states.RETRY, states.FAILURE):
        for backend, task_id in ((stock, "theirs"), (results, "ours")):
            backend.store_result(task_id, value_of(state, 1), state, traceback="line 1", request=request)
        theirs, ours = (TaskResult.objects.filter(task_id=task_id).values().get() for task_id in ("theirs", "ours"))
        assert (ours["date_started"], ours["date_done"]) > (theirs["date_started"], theirs["date_done"])
        own = ("id", "task_id", "date_created", "date_started", "date_done")
        assert {k: v for k, v in ours.items() if k not in own} == {k: v for k, v in theirs.items() if k not in own}


def at_the_same_time(first: Callable[[], None], then: Callable[[], None]) -> None:
    """Begin the second while the first one's transaction is open; it waits, or is done before."""
    written, waiting = threading.Event(), threading.Event()

    def later() -> None:
        written.wait(10)
        waiting.set()
        then()
        connections.close_all()

    other = threading.Thread(target=later)
    other.start()
    with transaction.atomic(using=alias_of_results()):
        first()
        written.set()
        waiting.wait(10)
        # Until it waits for our lock.
        threading.Event().wait(0.3)
    other.join(30)
    assert not other.is_alive()


def alias_of_results() -> str:
    return TaskResult.objects.all().db


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
def test_a_retry_that_is_written_beside_a_success_loses(results: DatabaseBackend, known: bool) -> None:
    if known:
        results.store_result("t", ERROR, states.RETRY)
    at_the_same_time(
        lambda: results.store_result("t", 5, states.SUCCESS) and None,
        lambda: results.store_result("t", ERROR, states.RETRY) and None,
    )
    assert (results.get_state("t"), results.get_result("t")) == (states.SUCCESS, 5)


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
def test_a_success_that_is_written_beside_a_retry_wins(results: DatabaseBackend, known: bool) -> None:
    if known:
        results.store_result("t", ERROR, states.RETRY)
    at_the_same_time(
        lambda: results.store_result("t", ERROR, states.RETRY) and None,
        lambda: results.store_result("t", 5, states.SUCCESS) and None,
    )
    assert (results.get_state("t"), results.get_result("t")) == (states.SUCCESS, 5)


SESSION = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT connection_id()"}
END = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}


@pytest.mark.parametrize("database_url", ["postgresql", "mariadb"], indirect=True)
def test_a_connection_that_was_lost_is_opened_again(results: DatabaseBackend) -> None:
    results.store_result("t", 1, states.STARTED)
    connection = connections[alias_of_results()]
    other = direct_connection(alias_of_results())
    with connection.cursor() as cursor, other.cursor() as killer:
        cursor.execute(SESSION[connection.vendor])
        killer.execute(END[connection.vendor].format(*cursor.fetchone()))
    other.close()
    results.store_result("t", 5, states.SUCCESS)
    assert results.get_state("t") == states.SUCCESS


@pytest.mark.parametrize("how", ["result_backend", "CELERY_RESULT_BACKEND"])
def test_celery_finds_it_by_its_name(settings: Any, how: str) -> None:
    name = "django_celery_replay.results:DatabaseBackend"
    app = Celery(set_as_current=False)
    if how == "result_backend":
        app.conf.result_backend = name
    else:
        settings.CELERY_RESULT_BACKEND = name
        app.config_from_object("django.conf:settings", namespace="CELERY")
    assert type(app.backend) is DatabaseBackend
