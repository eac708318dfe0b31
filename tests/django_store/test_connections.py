"""Connections of the store's own: lost, forked, bounded, and nobody else's."""

from __future__ import annotations

import os
import threading
import time

import psycopg
import pytest
from django.db import connections, transaction

from celery_replay.exceptions import ConfigurationError, SchemaMismatch, StoreError, StoreUnavailable
from celery_replay.states import Verdict
from celery_replay.stores.pool import Pool
from celery_replay.stores.units import Contention
from django_celery_replay.store import DjangoStore
from tests.django_store.builders import ask, ending
from tests.support.django_stores import database_alias, direct_connection


def kill_connections(dsn: str) -> int:
    """End all connections to the store's database but our own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    return len(found)


def test_a_connection_that_was_killed_between_calls_is_replaced(postgres_store: DjangoStore, postgres_dsn: str) -> None:
    of = ask()
    job = postgres_store.open(of).facts.job
    assert kill_connections(postgres_dsn) >= 1
    accepted, _ = postgres_store.close(job, ending(of))
    assert accepted
    kill_connections(postgres_dsn)
    assert postgres_store.job(of.delivery.submission) is not None
    kill_connections(postgres_dsn)
    assert len(postgres_store.attempts(of.delivery.submission)) == 1


def test_a_connection_that_is_killed_in_the_middle_of_a_unit_is_replaced(
    postgres_store: DjangoStore, postgres_dsn: str
) -> None:
    tries = []

    def step(unit: object) -> int:
        tries.append(unit)
        if len(tries) == 1:
            kill_connections(postgres_dsn)
        unit.job("s")  # type: ignore[attr-defined]
        return len(tries)

    assert postgres_store._atomically(step) == 2


def test_prepared_statements_that_somebody_dropped_are_made_again(postgres_store: DjangoStore) -> None:
    """As after a failover of a proxy, or a DISCARD ALL between two clients."""
    for _ in range(5):
        postgres_store.job(postgres_store.open(ask()).facts.job.submission)  # type: ignore[union-attr]
    for call in (lambda: postgres_store.open(ask()), lambda: postgres_store.job("s")):
        postgres_store._run(lambda link: link.change("DEALLOCATE ALL"))
        call()


def test_what_the_project_says_of_prepared_statements_holds(postgres_dsn: str) -> None:
    alias = database_alias(postgres_dsn)
    entry = connections.settings[alias]
    connections.settings["unprepared"] = {**entry, "OPTIONS": {"prepare_threshold": None}}
    try:
        for name, threshold in ((alias, 3), ("unprepared", None)):
            store = DjangoStore(name)
            store.job("s")
            assert store._pool._idle[0].connection.connection.prepare_threshold == threshold
            store.close_connections()
    finally:
        del connections.settings["unprepared"]


def test_a_server_that_is_away_is_an_error_of_its_own(postgres_dsn: str) -> None:
    alias = database_alias(postgres_dsn)
    entry = {**connections.settings[alias], "PORT": "1"}
    connections.settings["away"] = entry
    try:
        store = DjangoStore("away")
        with pytest.raises(StoreUnavailable):
            store.open(ask())
        with pytest.raises(StoreUnavailable):
            store.job("s")
        with pytest.raises(StoreUnavailable):
            store.attempts("s")
    finally:
        del connections.settings["away"]


def test_the_answer_to_open_may_be_lost_on_the_way(postgres_store: DjangoStore) -> None:
    of = ask("s", "k")
    first = postgres_store.open(of)
    again = postgres_store.open(of)
    assert again.verdict is Verdict.RUN
    assert again.facts.job == first.facts.job


def test_the_answer_to_close_may_be_lost_on_the_way(store: DjangoStore) -> None:
    of = ask("s", "k")
    job = store.open(of).facts.job
    store.close(job, ending(of, canvas=True, result="1"))
    accepted, _ = store.close(job, ending(of, canvas=True, result="1"))
    assert accepted
    assert [str(attempt.outcome) for attempt in store.attempts("s")] == ["succeeded"]


def test_records_survive_the_rollback_of_the_tasks_transaction(
    postgres_business: str, postgres_store: DjangoStore
) -> None:
    of = ask("s")

    def body() -> None:
        with transaction.atomic(using=postgres_business):
            postgres_store.open(of)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        body()
    assert postgres_store.job("s") is not None


def test_django_does_not_know_our_connections(store: DjangoStore) -> None:
    store.open(ask())
    before = store._pool._idle[:]
    connections.close_all()
    store.open(ask())
    assert store._pool._idle == before


def test_a_child_process_opens_its_own_and_leaves_the_parents_alone(store: DjangoStore) -> None:
    store.open(ask("parent"))
    [link] = store._pool._idle
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.close_connections()
            store.open(ask("child"))
            own = store._pool._idle[0] is not link
            store.close_connections()
            os.write(writing, b"own" if own else b"same")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"own"
    os.close(reading)
    os.close(writing)
    assert store.job("child") is not None
    assert store._pool._idle == [link]


def test_a_fork_while_another_thread_uses_the_pool_does_not_hang(store: DjangoStore) -> None:
    store.open(ask())
    with store._pool._changed:
        child = os.fork()
        if child == 0:
            os._exit(0 if store.open(ask()).verdict is Verdict.RUN else 1)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert status == 0


class Dummy:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def pool() -> Pool:
    return Pool(Dummy, size=2, patience=0.1)  # type: ignore[arg-type]


def test_a_pool_lends_no_more_than_its_bound(pool: Pool) -> None:
    first, _ = pool.take(), pool.take()
    with pytest.raises(StoreUnavailable, match="busy"):
        pool.take()
    threading.Timer(0.02, lambda: pool.give(first)).start()
    assert pool.take() is first


def test_a_fresh_connection_is_none_of_those_at_hand(pool: Pool) -> None:
    first, second = pool.take(), pool.take()
    pool.give(first)
    pool.drop(second)
    assert pool.take(fresh=True) is not first
    assert first.closed  # type: ignore[attr-defined]
    assert second.closed  # type: ignore[attr-defined]


def test_a_connection_that_can_not_be_opened_takes_no_place(pool: Pool) -> None:
    def fail() -> Dummy:
        raise OSError("no")

    pool._connect = fail  # type: ignore[assignment]
    for _ in range(5):
        with pytest.raises(OSError, match="no"):
            pool.take()


def test_an_unexpected_error_in_a_unit_leaves_nothing_locked(store: DjangoStore) -> None:
    store.open(ask("s"))

    def step(unit: object) -> None:
        unit.job("s")  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    for _ in range(6):
        with pytest.raises(KeyboardInterrupt):
            store._atomically(step)
    assert store.job("s") is not None


def test_contention_in_a_unit_is_told_to_who_can_run_it_again(store: DjangoStore) -> None:
    with pytest.raises(Contention), store._unit():
        raise Contention
    assert store.open(ask()).verdict is Verdict.RUN


def test_a_newer_schema_is_refused(store: DjangoStore) -> None:
    _set_version(store.alias, 2)
    try:
        with pytest.raises(SchemaMismatch, match="upgrade celery-replay"):
            DjangoStore(store.alias).open(ask())
        _set_version(store.alias, 0)
        with pytest.raises(SchemaMismatch, match="migrate django_celery_replay"):
            DjangoStore(store.alias).open(ask())
    finally:
        _set_version(store.alias, 1)


def _set_version(alias: str, version: int) -> None:
    connection = direct_connection(alias)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE django_celery_replay_schemainfo SET version = {version}")
    connection.close()


def test_missing_tables_are_an_error_that_says_the_mend(tmp_path: object) -> None:
    entry = {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{tmp_path}/empty.sqlite3"}
    connections.configure_settings({"default": {}, "empty": entry})
    connections.settings["empty"] = entry
    try:
        with pytest.raises(SchemaMismatch, match="migrate django_celery_replay --database empty"):
            DjangoStore("empty").open(ask())
    finally:
        del connections.settings["empty"]


class Router:
    def db_for_write(self, model: type, **hints: object) -> str:
        return "elsewhere"


def test_the_routers_say_where_the_store_is(settings: object) -> None:
    assert DjangoStore().alias == "default"
    settings.DATABASE_ROUTERS = [f"{__name__}.Router"]  # type: ignore[attr-defined]
    assert DjangoStore().alias == "elsewhere"
    assert DjangoStore("default").alias == "default"


def test_an_unknown_database_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        DjangoStore("nowhere").open(ask())


def test_what_the_database_does_not_take_is_an_error_of_the_store(postgres_store: DjangoStore) -> None:
    with pytest.raises(StoreError, match="refused"):
        postgres_store.open(ask(generation=2**70, key="k"))
    with pytest.raises(StoreError, match="refused"):
        postgres_store.open(ask(generation=2**70, expires_at=2**60))
    assert postgres_store.open(ask()).verdict is Verdict.RUN
