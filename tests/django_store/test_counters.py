"""Groups of dead letters count right, and nobody waits for that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from celery_replay.dead_letters import Decision
from celery_replay.records import ERASED, Group
from celery_replay.states import Outcome, Verb
from django_celery_replay.store import DjangoStore
from django_celery_replay.tables import GROUPS, LETTERS
from tests.conformance.remains import tables_with
from tests.django_store.builders import FAILURE, ask, chunk, ending
from tests.support.django_stores import direct_connection
from tests.support.together import at_once

FILERS, EACH = 6, 15


def fail(store: DjangoStore, name: str | None = None, cause: str = "") -> None:
    of = ask(name)
    failure = replace(FAILURE, frames=(cause,))
    job = store.open(of).facts.job
    assert store.close(job, ending(of, Outcome.FAILED, failure=failure), [chunk(of)]) == (True, ())


@contextmanager
def busy(store: DjangoStore) -> Iterator[None]:
    """Have somebody count in every group for a while."""
    connection = direct_connection(store.alias)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT group_id FROM {GROUPS.name} FOR UPDATE")
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")
    connection.close()


def erase(store: DjangoStore, name: str) -> None:
    decision = Decision(verb=Verb.ERASED, actor="ann")
    store.erase(name, decision, lambda chunk, job: (chunk, ()))


def only(store: DjangoStore) -> Group:
    (group,) = store.groups(unresolved=False)
    return group


def waited(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def test_many_who_file_letters_of_one_cause_at_once_count_every_one(store: DjangoStore) -> None:
    def file(number: int) -> None:
        for n in range(EACH):
            fail(store, cause="same" if n % 3 else f"own {number}")

    at_once(FILERS, file)
    total = {group.frames: (group.filed, group.unresolved) for group in store.groups()}
    assert total.pop("same") == (FILERS * EACH * 2 // 3,) * 2
    assert total == {f"own {number}": (EACH // 3,) * 2 for number in range(FILERS)}
    bars = store.trend([group.group_id for group in store.groups()], 0)
    assert sum(sum(hours.values()) for hours in bars.values()) == FILERS * EACH


def test_who_files_a_letter_does_not_wait_for_its_group(postgres_store: DjangoStore) -> None:
    fail(postgres_store)
    with busy(postgres_store):
        assert waited(lambda: fail(postgres_store, "meanwhile")) < 2
        assert waited(lambda: only(postgres_store)) < 2
        assert only(postgres_store).filed == 1
    group = only(postgres_store)
    assert (group.filed, group.unresolved, group.newest) == (2, 2, "meanwhile")
    assert list(postgres_store.trend([group.group_id], 0)[group.group_id].values()) == [2]


def test_what_was_left_uncounted_is_counted_once(postgres_store: DjangoStore) -> None:
    fail(postgres_store)
    with busy(postgres_store):
        for _ in range(3):
            fail(postgres_store)
    assert sum(at_once(4, lambda _: postgres_store.count_up())) == 3
    assert postgres_store.count_up() == 0
    assert only(postgres_store).filed == 4


def test_what_is_erased_is_erased_among_the_uncounted_too(postgres_store: DjangoStore) -> None:
    fail(postgres_store)
    with busy(postgres_store):
        fail(postgres_store, "meanwhile")
        postgres_store.flush(advanced=["meanwhile"])
        assert "UncountedLetter" in tables_with(postgres_store, FAILURE.message)
        postgres_store.erase("meanwhile", Decision(verb=Verb.ERASED, actor="ann"), lambda chunk, job: (None, ()))
        assert "UncountedLetter" not in tables_with(postgres_store, FAILURE.message)
    assert only(postgres_store).error_message == "[erased]"


def test_an_older_letter_that_is_counted_late_does_not_become_the_newest(postgres_store: DjangoStore) -> None:
    fail(postgres_store)
    with busy(postgres_store):
        fail(postgres_store, "older")
    fail(postgres_store, "newer")
    group = only(postgres_store)
    letter = postgres_store.letter("newer")
    assert letter is not None
    assert (group.filed, group.newest, group.last_seen) == (3, "newer", letter.last_failed)


def test_a_group_outlives_its_last_letter_where_a_new_one_comes_meanwhile(store: DjangoStore) -> None:
    of = ask("old")
    store.close(store.open(of).facts.job, ending(of, Outcome.FAILED, keep_us=1))
    store.decide("old", Decision(verb=Verb.DISCARDED, actor="ann"))
    connection = direct_connection(store.alias)
    with connection.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("BEGIN")
        columns = ", ".join(map(connection.ops.quote_name, LETTERS.columns[1:]))
        cursor.execute(
            f"INSERT INTO {LETTERS.name} (submission, {columns}) SELECT 'new', {columns} FROM {LETTERS.name}"
        )
        cursor.execute(f"UPDATE {GROUPS.name} SET filed = filed + 1")
        pruning = pool.submit(store.prune)
        time.sleep(0.5)
        cursor.execute("COMMIT")
        assert pruning.result() == 1
    connection.close()
    assert (only(store).filed, store.letter("old")) == (2, None)


def test_a_letter_that_is_erased_before_it_is_counted_stays_erased(postgres_store: DjangoStore) -> None:
    fail(postgres_store)
    with busy(postgres_store):
        fail(postgres_store, "erased")
    erase(postgres_store, "erased")
    assert (only(postgres_store).newest, only(postgres_store).error_message) == ("erased", ERASED)
