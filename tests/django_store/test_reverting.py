"""An attempt is reverted: each row only where it still is as the attempt left it, and all rows or none."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from django.db import connections, models, transaction

from celery_replay.cli import replay
from celery_replay.runtime import runtime_of
from celery_replay.snapshots.capture import capture
from celery_replay.snapshots.changes import RecordChange, changes
from celery_replay.snapshots.reversal import Reversal, Way
from celery_replay.snapshots.tree import Tree
from celery_replay.states import Verb
from django_celery_replay.reverting import Reverting
from django_celery_replay.state_provider import DjangoState
from tests.django_store.shop import Shop

LABEL = "tests_reverting"


class Buyer(models.Model):  # noqa: DJ008
    name = models.CharField(max_length=40)
    password = models.CharField(max_length=40, default="hunter2")

    class Meta:
        app_label = LABEL


class Sale(models.Model):  # noqa: DJ008
    buyer = models.ForeignKey(Buyer, models.CASCADE, null=True)
    status = models.CharField(max_length=20, default="paid")
    total = models.DecimalField(max_digits=12, decimal_places=2, default="10.50")
    more = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now=True)
    note = models.TextField(null=True)  # noqa: DJ001
    version = models.IntegerField(default=1)

    class Meta:
        app_label = LABEL


@pytest.fixture
def shop(business: str) -> Iterator[str]:
    with connections[business].schema_editor() as editor:
        editor.create_model(Buyer)
        editor.create_model(Sale)
    yield business
    with connections[business].schema_editor() as editor:
        editor.delete_model(Sale)
        editor.delete_model(Buyer)


def sales(alias: str) -> models.QuerySet[Sale]:
    return Sale.objects.using(alias)


def buyers(alias: str) -> models.QuerySet[Buyer]:
    return Buyer.objects.using(alias)


def does(alias: str, body: Callable[[], Any]) -> list[RecordChange]:
    """Do something; return what it did, as snapshots tell."""
    states = {"sales": lambda: sales(alias), "buyers": lambda: buyers(alias)}
    before = capture(states, [DjangoState()])
    body()
    after = capture(states, [DjangoState()])
    shelf = {**before.blobs, **after.blobs}

    def fetch(names: Sequence[str]) -> dict[str, bytes]:
        return {name: shelf[name] for name in names}

    return list(changes(Tree(before.reference, fetch), Tree(after.reference, fetch)))


def reverts(
    alias: str, done: list[RecordChange], *, apply: bool = True, partly: bool = False, version: str = ""
) -> list[Reversal]:
    return list(Reverting(alias, version).revert(done, apply=apply, partly=partly))


def rows(alias: str) -> list[dict[str, Any]]:
    return [*sales(alias).order_by("pk").values(), *buyers(alias).order_by("pk").values()]


def test_changed_rows_get_what_they_had(shop: str) -> None:
    buyer = buyers(shop).create(name="ann")
    for number in range(3):
        sales(shop).create(buyer=buyer, more={"b": number, "a": [1.5, None]}, note=None if number else "é")
    before = rows(shop)
    done = does(shop, lambda: sales(shop).update(status="shipped", note="gone", more={}, total="0.10"))
    assert [one.refusal for one in reverts(shop, done)] == [""] * 3
    assert rows(shop) == before


def test_what_was_added_is_removed_and_what_was_removed_is_added(shop: str) -> None:
    sales(shop).create(note="old")
    before = rows(shop)

    def body() -> None:
        sales(shop).all().delete()
        sales(shop).create(note="new", buyer=buyers(shop).create(name="bob"))

    done = does(shop, body)
    found = reverts(shop, done)
    assert sorted(one.way for one in found) == [Way.DELETE, Way.DELETE, Way.INSERT]
    assert [one.refusal for one in found] == [""] * 3
    assert rows(shop) == before


def test_a_look_writes_nothing(shop: str) -> None:
    sales(shop).create()
    done = does(shop, lambda: sales(shop).update(status="shipped"))
    after = rows(shop)
    (found,) = reverts(shop, done, apply=False)
    assert (found.refusal, rows(shop)) == ("", after)
    assert [(row["field"], row["now"], row["then"]) for row in found.rows()] == [("status", "shipped", "paid")]


@pytest.mark.parametrize("apply", [True, False])
def test_one_row_that_was_changed_since_keeps_all_as_they_are(shop: str, apply: bool) -> None:
    first, _ = sales(shop).create(), sales(shop).create()
    done = does(shop, lambda: sales(shop).update(status="shipped"))
    sales(shop).filter(pk=first.pk).update(note="somebody was here")
    after = rows(shop)
    assert [one.refusal for one in reverts(shop, done, apply=apply)] == ["note was changed since", ""]
    assert rows(shop) == after


def test_partly_puts_back_what_can_be(shop: str) -> None:
    first, _ = sales(shop).create(), sales(shop).create()
    done = does(shop, lambda: sales(shop).update(status="shipped"))
    sales(shop).filter(pk=first.pk).update(note="somebody was here")
    reverts(shop, done, partly=True)
    assert [row["status"] for row in rows(shop)] == ["shipped", "paid"]


def test_a_change_of_case_or_of_spaces_is_one(shop: str) -> None:
    first, second = sales(shop).create(), sales(shop).create()
    done = does(shop, lambda: sales(shop).update(status="shipped"))
    sales(shop).filter(pk=first.pk).update(status="Shipped")
    sales(shop).filter(pk=second.pk).update(status="shipped ")
    assert [one.refusal for one in reverts(shop, done)] == ["status was changed since"] * 2


def test_rows_that_are_gone_or_are_there_again_are_told(shop: str) -> None:
    first, second = sales(shop).create(), sales(shop).create()

    def body() -> None:
        sales(shop).filter(pk=first.pk).update(status="shipped")
        sales(shop).filter(pk=second.pk).delete()

    done = does(shop, body)
    sales(shop).filter(pk=first.pk).delete()
    sales(shop).create(pk=second.pk)
    assert [one.refusal for one in reverts(shop, done)] == ["it is gone", "there is a row with its key again"]


def test_what_was_secret_can_not_be_put_back(shop: str) -> None:
    buyers(shop).create(name="ann")
    buyers(shop).create(name="bob")

    def body() -> None:
        buyers(shop).filter(name="ann").delete()
        buyers(shop).filter(name="bob").update(name="rob")

    found = reverts(shop, does(shop, body), partly=True)
    assert [one.refusal for one in found] == ["password is secret, and was not recorded", ""]
    assert list(buyers(shop).values_list("name", "password")) == [("bob", "hunter2")]


def test_a_row_to_which_others_refer_by_now_stays(shop: str) -> None:
    done = does(shop, lambda: buyers(shop).create(name="ann"))
    sales(shop).create(buyer=buyers(shop).get())
    (found,) = reverts(shop, done)
    assert "the database refused: IntegrityError" in found.refusal
    assert buyers(shop).count() == 1


def test_with_a_version_that_alone_is_compared_and_it_rises(shop: str) -> None:
    sales(shop).create()
    done = does(shop, lambda: sales(shop).update(status="shipped", version=2))
    sales(shop).update(note="does not matter")
    (found,) = reverts(shop, done, version="version")
    assert found.refusal == ""
    assert list(sales(shop).values_list("status", "version", "note")) == [("paid", 3, "does not matter")]
    (found,) = reverts(shop, done, version="version")
    assert found.refusal == "version was changed since"


def test_plain_data_is_no_row(shop: str) -> None:
    done = RecordChange(state="total", record="total", before={"value": 1}, after={"value": 2})
    (found,) = reverts(shop, [done])
    assert found.refusal == "it is no row of a model that is here"


def test_who_writes_at_the_same_moment_is_not_overwritten(shop: str) -> None:
    sale = sales(shop).create()
    done = does(shop, lambda: sales(shop).update(status="shipped"))
    written, goes_on = threading.Event(), threading.Event()

    def other() -> None:
        with transaction.atomic(using=shop):
            sales(shop).filter(pk=sale.pk).update(note="the other one")
            written.set()
            goes_on.wait(20)
        connections[shop].close()

    thread = threading.Thread(target=other)
    thread.start()
    assert written.wait(20)
    threading.Timer(0.5, goes_on.set).start()
    (found,) = reverts(shop, done)
    thread.join()
    # SQLite has one writer at a time, and refuses the second of two who have read.
    assert ("locked" if connections[shop].vendor == "sqlite" else "note was changed since") in found.refusal
    assert list(sales(shop).values_list("status", "note")) == [("shipped", "the other one")]


def test_a_write_between_look_and_statement_is_seen_by_the_statement(
    shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales(shop).create()
    done = does(shop, lambda: sales(shop).update(status="shipped"))
    sales(shop).update(note="somebody was here")
    monkeypatch.setattr("django_celery_replay.reverting._Row._compare", lambda *_: None)
    (found,) = reverts(shop, done)
    assert found.refusal == "it was changed since"
    assert sales(shop).get().status == "shipped"


# At the command line


@pytest.fixture
def stand(shop: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    from django.db import router

    # Where a project's routers would write these models.
    monkeypatch.setattr(router, "db_for_write", lambda model, **hints: shop)
    return Shop()


def types(stand: Shop, line: str) -> Any:
    result = CliRunner().invoke(replay, line.split(), obj=SimpleNamespace(app=stand.app), prog_name="replay")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def ships(stand: Shop, alias: str) -> str:
    sales(alias).create()

    @stand.task(name="ship", state={"sales": lambda: sales(alias)})
    def ship(self: Any) -> None:
        sales(alias).update(status="shipped")

    ship.apply(task_id="ship-1").get()
    runtime_of(stand.app).heartbeat.drain()
    return "ship-1"


def test_the_command_shows_first_and_writes_only_when_told(stand: Shop, shop: str) -> None:
    job = ships(stand, shop)
    shown = types(stand, f"snapshot revert {job} --json")
    assert (shown.exit_code, [json.loads(line)["then"] for line in shown.stdout.splitlines()]) == (0, ["paid"])
    assert sales(shop).get().status == "shipped"
    assert types(stand, f"snapshot revert {job} --apply --yes").exit_code == 2
    assert types(stand, f"snapshot revert {job} --apply --because mistake").exit_code == 2
    done = types(stand, f"snapshot revert {job} --apply --because mistake --actor bob --yes")
    assert (done.exit_code, "1 of 1 records were put back" in done.stderr) == (0, True)
    assert sales(shop).get().status == "paid"
    (entry,) = stand.store.history(submission=stand.job().submission)
    assert (entry.verb, entry.actor, entry.text) == (Verb.REVERTED, "bob", "mistake")
    assert stand.events()["reverted"].attributes["records"] == 1
    again = types(stand, f"snapshot revert {job} --apply --because again --yes")
    assert (again.exit_code, "nothing was written" in again.stderr) == (4, True)


def test_an_attempt_without_snapshots_is_told(stand: Shop, shop: str) -> None:
    job = ships(stand, shop)
    result = types(stand, f"snapshot revert {job} --attempt 7")
    assert (result.exit_code, "no snapshot before and after attempt #7" in result.stderr) == (1, True)
