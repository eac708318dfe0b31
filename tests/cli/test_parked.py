from __future__ import annotations

from celery_replay.clock import SECOND
from tests.conformance.callers import opens, runs


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
