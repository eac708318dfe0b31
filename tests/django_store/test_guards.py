"""Fences and markers in the business database."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connections, transaction

from celery_replay.clock import new_id, wall
from celery_replay.exceptions import ConfigurationError, RolledBack
from django_celery_replay import fenced, marked, register_fence
from django_celery_replay.markers import erase, forget
from django_celery_replay.models import Fence, Marker
from tests.django_store.guarded import effects, run, write


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
