"""Fences and markers in the business database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaitingError
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connections, transaction

from celery_replay.clock import new_id, wall
from celery_replay.exceptions import ConfigurationError, FenceRefused, RolledBack
from django_celery_replay import fenced, marked, register_fence
from django_celery_replay.markers import erase, forget
from django_celery_replay.models import Fence, Marker


class Client:
    """A thread with a database connection of its own, told what to do step by step."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._pool = ThreadPoolExecutor(1)

    def do(self, what: Callable[[], Any]) -> Future[Any]:
        return self._pool.submit(what)

    def _close(self) -> None:
        connections[self.alias].close()

    def end(self) -> None:
        # A thread's connection is its own: it has to be looked up there.
        self.do(self._close).result(10)
        self._pool.shutdown()


@contextmanager
def clients(alias: str, count: int) -> Iterator[list[Client]]:
    made = [Client(alias) for _ in range(count)]
    try:
        yield made
    finally:
        for client in made:
            client.end()


def write(alias: str, name: str, token: int, inside: Callable[[], Any] = int, mark: str = "") -> str:
    try:
        with fenced(alias, name, token):
            inside()
            Marker.objects.using(alias).create(identity=mark or f"{name}-{token}", nonce="n", marked_at=wall())
    except FenceRefused:
        return "refused"
    return "written"


def test_a_newer_token_refuses_older_ones(business: str) -> None:
    assert write(business, "order", 5) == "written"
    assert write(business, "order", 4) == "refused"
    assert write(business, "order", 6) == "written"
    assert write(business, "another order", 1) == "written"
    assert set(Fence.objects.using(business).values_list("name", "token")) == {("order", 6), ("another order", 1)}


def test_the_same_attempt_may_write_twice(business: str) -> None:
    for _ in range(2):
        with fenced(business, "order", 5):
            pass


def test_a_refused_write_leaves_nothing(business: str) -> None:
    register_fence(business, "order", 9)
    assert write(business, "order", 8) == "refused"
    assert not Marker.objects.using(business).exists()


def test_a_failed_write_leaves_no_token(business: str) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        write(business, "order", 9, fail)
    assert write(business, "order", 8) == "written"


def test_hostile_names_are_fenced_apart(business: str) -> None:
    for name in ("a\x00", "a\\x00", "\ud800", "x" * 1000, "x" * 999 + "y"):
        assert write(business, name, 2, mark=new_id()) == "written"
        assert write(business, name, 1) == "refused"


def test_a_zombie_waits_for_the_new_owners_commit_and_is_refused(business: str) -> None:
    """The old owner comes in the middle of the new owner's transaction; a third one after both."""
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        assert go_on.wait(10)

    with clients(business, 3) as (new, old, later):
        first = new.do(lambda: write(business, "order", 2, hold))
        assert inside.wait(10)
        second = old.do(lambda: write(business, "order", 1))
        with pytest.raises(StillWaitingError):
            second.result(0.2)
        go_on.set()
        assert first.result(10) == "written"
        assert second.result(10) == "refused"
        assert later.do(lambda: write(business, "order", 1)).result(10) == "refused"


def test_an_old_owner_in_the_middle_of_its_write_ends_it_before_the_new_one_begins(business: str) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        assert go_on.wait(10)

    with clients(business, 2) as (old, new):
        first = old.do(lambda: write(business, "order", 1, hold))
        assert inside.wait(10)
        second = new.do(lambda: write(business, "order", 2))
        with pytest.raises(StillWaitingError):
            second.result(0.2)
        go_on.set()
        assert (first.result(10), second.result(10)) == ("written", "written")
        assert list(Marker.objects.using(business).values_list("identity", flat=True)) == ["order-1", "order-2"]


def run(alias: str, identity: str, nonce: str, result: str | None = '"done"', hold: Callable[[], Any] = int) -> Any:
    with marked(alias, identity, nonce) as marker:
        if marker.done:
            return ("found", marker.result)
        Fence.objects.using(alias).create(name=f"effect of {nonce}", token=1)
        hold()
        marker.complete(result)
    return ("did", result)


def effects(alias: str) -> list[str]:
    return sorted(Fence.objects.using(alias).values_list("name", flat=True))


def test_an_effect_is_done_once_and_its_result_kept(business: str) -> None:
    assert run(business, "job", "a") == ("did", '"done"')
    assert run(business, "job", "b") == ("found", '"done"')
    assert effects(business) == ["effect of a"]


@pytest.mark.parametrize("result", [None, "null", '"\x00\ud800"', "0"], ids=ascii)
def test_any_result_comes_back(business: str, result: str | None) -> None:
    run(business, "job", "a", result)
    assert run(business, "job", "b") == ("found", result)


def test_a_failed_effect_leaves_no_marker(business: str) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(business, "job", "a", hold=fail)
    assert run(business, "job", "b") == ("did", '"done"')


def test_a_second_transaction_waits_for_the_first_and_finds_its_effect(business: str) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        assert go_on.wait(10)

    with clients(business, 2) as (one, two):
        first = one.do(lambda: run(business, "job", "a", hold=hold))
        assert inside.wait(10)
        second = two.do(lambda: run(business, "job", "b"))
        with pytest.raises(StillWaitingError):
            second.result(0.2)
        go_on.set()
        assert first.result(10) == ("did", '"done"')
        assert second.result(10) == ("found", '"done"')
    assert effects(business) == ["effect of a"]


def test_a_second_transaction_does_the_effect_where_the_first_fails(business: str) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        assert go_on.wait(10)
        raise ValueError("no")

    with clients(business, 2) as (one, two):
        first = one.do(lambda: run(business, "job", "a", hold=hold))
        assert inside.wait(10)
        second = two.do(lambda: run(business, "job", "b"))
        go_on.set()
        with pytest.raises(ValueError, match="no"):
            first.result(10)
        assert second.result(10) == ("did", '"done"')
    assert effects(business) == ["effect of b"]


@pytest.mark.parametrize("complete", [True, False])
def test_a_swallowed_database_error_is_no_success(business: str, complete: bool) -> None:
    Fence.objects.using(business).create(name="taken", token=1)

    def body() -> None:
        with marked(business, "job", "a") as marker:
            with suppress(IntegrityError):
                Fence.objects.using(business).create(name="taken", token=2)
            if complete:
                marker.complete("1")

    with pytest.raises(RolledBack):
        body()
    assert not Marker.objects.using(business).exists()


def test_an_error_that_only_postgresql_remembers_is_no_success(postgres_business: str) -> None:
    def body() -> None:
        connection = connections[postgres_business]
        with marked(postgres_business, "job", "a"), connection.cursor() as cursor, suppress(DatabaseError):
            cursor.execute("SELECT 1/0")

    with pytest.raises(RolledBack):
        body()
    assert not Marker.objects.using(postgres_business).exists()


def test_an_error_inside_a_savepoint_may_be_swallowed(business: str) -> None:
    Fence.objects.using(business).create(name="taken", token=1)
    with marked(business, "job", "a") as marker:
        try:
            with transaction.atomic(using=business):
                Fence.objects.using(business).create(name="taken", token=2)
        except IntegrityError:
            pass
        marker.complete("1")
    assert run(business, "job", "b") == ("found", "1")


def test_old_markers_are_forgotten_in_batches(business: str) -> None:
    for n in range(5):
        run(business, f"job-{n}", f"n{n}")
    later = wall() + 1
    assert [forget(business, later, limit=3) for _ in range(3)] == [3, 2, 0]
    run(business, "job", "new")
    assert forget(business, later) == 0


def test_an_erased_marker_says_that_the_effect_was_done_and_no_more(business: str) -> None:
    for identity in ("job", "other"):
        run(business, identity, identity, result=f'"{identity} of ann"')
    erase(business, "job")
    erase(business, "unheard of")
    assert [run(business, identity, "b") for identity in ("job", "other")] == [
        ("found", None), ("found", '"other of ann"'),
    ]  # fmt: skip


def test_a_database_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'nowhere'"), fenced("nowhere", "order", 1):
        pass


@pytest.mark.parametrize("guard", [lambda: fenced("bare", "order", 1), lambda: marked("bare", "job", "n")])
def test_missing_tables_are_an_error_that_says_the_mend(tmp_path: object, guard: Any) -> None:
    entry = {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{tmp_path}/empty.sqlite3"}
    connections.configure_settings({"default": {}, "bare": entry})
    connections.settings["bare"] = entry
    try:
        with pytest.raises(ConfigurationError, match="migrate django_celery_replay --database bare"), guard():
            pass
    finally:
        connections["bare"].close()
        del connections["bare"]
        del connections.settings["bare"]
