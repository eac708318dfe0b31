from __future__ import annotations

from dataclasses import replace

from celery_replay.runtime import runtime_of
from celery_replay.states import RowStatus
from tests.cli.conftest import kept
from tests.conformance.callers import closes, opens, runs
from tests.rules.builders import ask, delivery


def parks(shop, name, subject="owner"):
    sent = replace(delivery(name), message=lambda: kept(b"[[5], {}, {}]"))
    shop.store.open(ask(name, delivery=sent))


def test_nothing_left_is_said_and_is_zero(shop):
    result = shop.types("drain")
    assert (result.exit_code, result.stdout.split()) == (0, ["left", "nothing"])


def test_what_is_parked_is_waited_for_and_what_is_left_is_told(shop):
    runs(shop.store, "owner")
    parks(shop, "waits")
    result = shop.types("drain --timeout 0 --json")
    assert (result.exit_code, '"left": 1' in result.stdout) == (1, True)
    assert "no steward leads" in result.stderr


def test_it_ends_when_the_last_one_has_gone(shop, monkeypatch):
    job = runs(shop.store, "owner")
    opens(shop.store, "waits")

    def owner_ends(seconds):
        closes(shop.store, job)
        runs(shop.store, "waits")
        shop.store.flush(advanced=["owner", "waits"])

    monkeypatch.setattr("celery_replay.cli.draining.time.sleep", owner_ends)
    assert shop.types("drain --timeout 60").exit_code == 0


def test_what_waits_on_disk_for_the_store_counts(shop):
    spool = runtime_of(shop.app).spool
    spool.folder.mkdir(parents=True, exist_ok=True)
    (spool.folder / "1.json").write_text("{}")
    assert shop.reads("drain --timeout 0")[0]["left"] == 1


def test_sending_puts_all_of_it_on_its_queues_and_writes_that_down(shop):
    runs(shop.store, "owner")
    for number in range(3):
        parks(shop, f"waits{number}")
    result = shop.types("drain --send --actor ann --because", "the plugin goes")
    assert (result.exit_code, result.stdout.split()) == (0, ["left", "nothing"])
    assert {row.status for row in shop.store.rows()} == {RowStatus.SENT}
    with shop.app.connection_for_read() as connection:
        assert connection.SimpleQueue("celery").qsize() == 3
    (entry,) = shop.store.history(submission="waits0")
    assert (entry.actor, entry.text) == ("ann", "the plugin goes")


def test_sending_without_a_reason_is_refused(shop):
    assert shop.types("drain --send").exit_code == 2


def test_letters_that_wait_are_told(shop):
    shop.fails("letter")
    result = shop.types("drain")
    assert (result.exit_code, "dead letters wait" in result.stdout) == (0, True)
