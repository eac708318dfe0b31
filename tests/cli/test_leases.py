from __future__ import annotations

from dataclasses import replace

from celery_replay.clock import SECOND
from celery_replay.states import RowStatus
from tests.cli.conftest import kept
from tests.conformance.callers import step
from tests.conformance.test_leases import closes, runs, waits
from tests.rules.builders import delivery, ending

LEASE = 60 * SECOND


def finishes(shop, name, seconds, *resources):
    job = runs(shop.store, name, *resources)
    shop.clock.now += seconds * SECOND
    closes(shop.store, job, *resources)


def test_it_says_who_has_what_for_how_long_and_whether_that_is_unusual(shop):
    for number in range(100):
        finishes(shop, f"job-{number}", number, f"order:1-{number}")
    runs(shop.store, "long", "order:7", lease_us=3600 * SECOND, worker="w@a")
    waits(shop.store, shop.clock, "b", "order:7")
    shop.clock.now += 99 * SECOND
    (row,) = shop.reads("leases list")
    assert (row["resource"], row["task"], row["id"], row["worker"]) == ("order:7", "shop.ship", "long", "w@a")
    assert (row["age"], row["usual"], row["overdue"]) == (100.0, 94.0, True)
    assert (row["alive"], row["waiting"]) == (True, 1)
    title, line = shop.types("leases list").stdout.splitlines()
    assert title.split()[:4] == ["resource", "task", "id", "alive"]
    assert line.split()[:4] == ["order:7", "shop.ship", "long", "yes"]


def test_a_holder_that_went_silent_is_not_alive(shop):
    runs(shop.store, "a", "r")
    shop.clock.now += LEASE
    (row,) = shop.reads("leases list")
    assert (row["alive"], row["usual"], row["overdue"]) == (False, None, False)


def test_an_empty_list_ends_with_one(shop):
    assert shop.types("leases list").exit_code == 1
    assert shop.types("leases show order:7").exit_code == 1


def test_a_resource_shows_its_last_holders_and_marks_who_met(shop):
    finishes(shop, "first", 5, "r")
    zombie = runs(shop.store, "zombie", "r")
    shop.clock.now += LEASE
    holder = runs(shop.store, "next", "r")
    shop.clock.now += SECOND
    accepted, _ = shop.store.close(
        zombie, ending(delivery=delivery("zombie"), nonce=zombie.nonce, claim=None, resources=("r",))
    )
    assert not accepted
    waits(shop.store, shop.clock, "b", "r")
    (told,) = shop.reads("leases show r")
    assert (told["id"], told["alive"]) == (holder.submission, True)
    assert [row["id"] for row in told["line"]] == ["b"]
    zombie_row, first = told["holders"]
    assert (zombie_row["id"], zombie_row["end"], zombie_row["overlaps"]) == ("zombie", "lapsed", [told["fence"]])
    assert (first["id"], first["end"], first["overlaps"]) == ("first", "released", [])
    assert first["fence"] < zombie_row["fence"] < told["fence"]
    shown = shop.types("leases show r").stdout
    assert "last holders" in shown
    assert "waiting, in their order" in shown


def test_a_free_resource_shows_who_had_it(shop):
    finishes(shop, "a", 5, "r")
    (told,) = shop.reads("leases show r")
    assert (told["held"], told["alive"], told["age"]) == (False, False, None)
    assert [row["id"] for row in told["holders"]] == ["a"]


def test_a_resource_is_taken_only_from_a_holder_that_is_dead(shop):
    runs(shop.store, "a", "r")
    result = shop.types("leases release r --because stuck")
    assert (result.exit_code, result.stdout.split()[0]) == (4, "refused")
    assert "not known to be dead" in result.stdout
    assert list(shop.store.history(submission="a")) == []
    shop.clock.now += LEASE
    assert shop.types("leases release r --actor ann --because stuck").exit_code == 0
    assert list(shop.store.leases()) == []
    (entry,) = shop.store.history(submission="a")
    assert (entry.verb, entry.actor, entry.text) == ("lease_freed", "ann", "stuck")


def test_force_takes_it_from_a_living_one_whose_token_is_old_from_then_on(shop):
    job = runs(shop.store, "a", "r")
    before = shop.store.lease("r").fence
    sent = kept(b"[[5], {}, {}]")
    waits(shop.store, shop.clock, "b", "r", delivery=replace(delivery("b"), message=lambda: sent))
    (told,) = shop.reads("leases release r --force --actor ann --because", "it hangs")
    assert (told["verdict"], told["id"], told["fence"]) == ("lease_freed", "a", before)
    assert shop.store.lease("r").fence > before
    assert shop.store.row("b").status is RowStatus.SENT
    assert shop.store.claim_step(job, step(job), delivery("a"))[0] is False


def test_what_nobody_has_is_refused_and_a_reason_is_needed(shop):
    assert shop.types("leases release r --because x").exit_code == 4
    assert shop.types("leases release r").exit_code == 2


def test_the_parking_lot_says_for_which_resource_somebody_waits_and_who_has_it(shop):
    runs(shop.store, "a", "order:7")
    waits(shop.store, shop.clock, "b", "order:7")
    (row,) = shop.reads("parked list")
    assert (row["reason"], row["resource"]) == ("lease_held", "order:7")
    assert (row["waits_for"], row["waits_for_status"]) == ("a", "open")
    assert shop.types("parked list").stdout.splitlines()[1].split()[-1] == "order:7"
