from __future__ import annotations

from dataclasses import replace

from celery_replay.clock import SECOND
from celery_replay.states import RowStatus
from tests.cli.conftest import kept
from tests.conformance.callers import opens, runs
from tests.rules.builders import ask, delivery


def test_it_says_who_waits_for_whom_and_why(shop):
    runs(shop.store, "owner", key="ship:5")
    opens(shop.store, "waits", key="ship:5")
    shop.clock.now += 90 * SECOND
    title, line = shop.types("parked list").stdout.splitlines()
    assert title.split()[:5] == ["id", "task", "status", "reason", "waited"]
    assert line.split()[:6] == ["waits", "shop.ship", "parked", "in_flight", "1m", "30s"]
    assert line.split()[-3:] == ["owner", "open", "ship:5"]


def test_json_has_seconds_and_iso_times(shop):
    runs(shop.store, "owner", key="ship:5")
    opens(shop.store, "waits", key="ship:5")
    shop.clock.now += 90 * SECOND
    (row,) = shop.reads("parked list")
    assert (row["waited"], row["parked_at"]) == (90.0, "2023-11-14T22:13:20.000000Z")
    assert (row["waits_for"], row["waits_for_status"]) == ("owner", "open")


def test_more_than_the_limit_is_said(shop):
    runs(shop.store, "owner")
    for name in "abc":
        opens(shop.store, name)
    result = shop.types("parked list --limit 2")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["a", "b"]
    assert result.stderr == "more: raise --limit\n"


def test_an_empty_lot_ends_with_one(shop):
    assert shop.types("parked list").exit_code == 1


def test_a_parked_job_is_sent_before_its_time_and_that_is_written_down(shop):
    runs(shop.store, "owner")
    shop.store.open(ask("waits", delivery=replace(delivery("waits"), message=lambda: kept(b"[[5], {}, {}]"))))
    result = shop.types("parked free waits --actor ann --because", "the bank is back")
    assert (result.exit_code, result.stdout.split()[:2]) == (0, ["freed", "waits"])
    assert shop.store.row("waits").status is RowStatus.SENT
    (entry,) = shop.store.history(submission="waits")
    assert (entry.verb, entry.actor, entry.text) == ("freed", "ann", "the bank is back")


def test_what_is_not_parked_is_told_one_by_one(shop):
    runs(shop.store, "owner")
    told = shop.reads("parked free owner nobody --because x")
    assert [(one["id"], one["verdict"], one["said"]) for one in told] == [
        ("owner", "refused", "it is not parked"), ("nobody", "refused", "it is not parked"),
    ]  # fmt: skip
    assert shop.types("parked free owner --because x").exit_code == 4
    assert shop.types("parked free owner").exit_code == 2
