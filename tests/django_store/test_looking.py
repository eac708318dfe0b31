"""Whoever looks at records neither waits for those who write them nor pays for what they do not look for."""

from __future__ import annotations

from typing import Any

from celery_replay.states import LetterState, Outcome
from django_celery_replay.store import DjangoStore
from tests.django_store.builders import ask, chunk, ending
from tests.django_store.test_shortcuts import round_trips


def test_a_look_does_not_wait_for_whoever_works_on_the_record(postgres_store: DjangoStore) -> None:
    of = ask("s")
    job = postgres_store.open(of).facts.job

    def step(unit: Any) -> None:
        assert unit.job("s") == job
        assert postgres_store.job("s") == job

    postgres_store._atomically(step)


def test_a_look_costs_one_round_trip(postgres_store: DjangoStore) -> None:
    of = ask("s")
    postgres_store.close(postgres_store.open(of).facts.job, ending(of, Outcome.FAILED), [chunk(of)])
    for look in (
        lambda: postgres_store.job("s"),
        lambda: postgres_store.letter("s"),
        lambda: postgres_store.steps("s"),
        lambda: postgres_store.letters(state=LetterState.OPEN),
    ):
        with round_trips(postgres_store) as count:
            assert look() is not None
            assert count() == 1


def test_what_is_rare_is_not_looked_for_as_if_it_were_frequent(postgres_store: DjangoStore) -> None:
    """A prepared statement has one plan for all values."""
    for _ in range(10):
        postgres_store.letters(state=LetterState.QUARANTINED)
    prepared = postgres_store._run(lambda link: link.rows("SELECT statement FROM pg_prepared_statements"))
    assert [statement for (statement,) in prepared if "deadletter" in statement] == []


def test_open_letters_are_counted_in_the_order_of_an_index(postgres_store: DjangoStore) -> None:
    """In the order of the table, a million jobs without a letter might come before the first one with."""
    asked: list[str] = []

    def plan(link: Any) -> str:
        link.cursor.execute("BEGIN")
        link.cursor.execute("SET LOCAL enable_sort = off")
        rows = link.look("EXPLAIN " + asked[0])
        link.cursor.execute("ROLLBACK")
        return "\n".join(row[0] for row in rows)

    with postgres_store._read() as reader:
        query = reader._query  # type: ignore[attr-defined]
        reader._query = lambda sql, values: asked.append(sql) or query(sql, values)  # type: ignore[attr-defined]
        assert reader.open_letters(100) == 0
    assert "Index Only Scan using replay_job_keep" in postgres_store._run(plan)
