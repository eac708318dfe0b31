"""Old records go in batches of a bounded size."""

from __future__ import annotations

from celery_replay.clock import SECOND
from celery_replay.states import Outcome
from django_celery_replay.store import DjangoStore
from tests.django_store.builders import ask, chunk, ending
from tests.support.django_stores import direct_connection

TABLES = ("processedjob", "attempt", "tracechunk", "steprecord", "parkedjob", "deadletter")


def counts(store: DjangoStore) -> dict[str, int]:
    connection = direct_connection(store.alias)
    with connection.cursor() as cursor:
        found = {}
        for table in TABLES:
            cursor.execute(f"SELECT count(*) FROM django_celery_replay_{table}")
            found[table] = cursor.fetchone()[0]
    connection.close()
    return found


def test_many_old_jobs_go_in_bounded_batches_with_all_that_hangs_on_them(store: DjangoStore) -> None:
    for number in range(120):
        of = ask(keep_us=1)
        job = store.open(of).facts.job
        store.flush(chunks=[chunk(of)])
        store.close(job, ending(of, Outcome.FAILED if number % 12 == 0 else Outcome.SUCCEEDED))
    kept = ask("kept")
    store.open(kept)
    store.flush(chunks=[chunk(kept)])
    batches = []
    while gone := store.prune(50):
        batches.append(gone)
    assert batches == [50, 50, 10]
    left = counts(store)
    assert left["processedjob"] == left["tracechunk"] == 11
    assert left["attempt"] == left["deadletter"] == 10


def test_a_job_that_somebody_works_on_is_left_for_later(postgres_store: DjangoStore) -> None:
    for name in ("busy", "free"):
        of = ask(name, keep_us=1)
        postgres_store.close(postgres_store.open(of).facts.job, ending(of))

    def step(unit: object) -> int:
        unit.job("busy")  # type: ignore[attr-defined]
        return postgres_store.prune()

    assert postgres_store._atomically(step) == 1
    assert postgres_store.job("free") is None
    assert postgres_store.prune() == 1


def test_a_waiter_keeps_what_it_waits_with(store: DjangoStore) -> None:
    first = ask("first", "k", keep_us=1)
    job = store.open(first).facts.job
    store.open(ask("waiter", "k"))
    store.close(job, ending(first, Outcome.SUCCEEDED, canvas_us=SECOND))
    assert store.prune() == 1
    assert store.row("waiter") is not None
