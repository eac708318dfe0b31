from __future__ import annotations

from dataclasses import replace

import pytest

from celery_replay import message_leases
from celery_replay.clock import SECOND
from celery_replay.exceptions import StoreUnavailable
from celery_replay.runtime import use_store
from celery_replay.stores.memory import MemoryStore
from celery_replay.stores.reading import Pause
from tests.conformance.callers import opens, runs


class SharedStore(MemoryStore):
    shared = True


class AwayStore(MemoryStore):
    def _unit(self):
        raise StoreUnavailable("database 'replay' can't be reached: password=hunter2 \x1b[31m")

    _read = _unit


@pytest.fixture
def shared(shop):
    shop.store = SharedStore(shop.clock)
    use_store(shop.app, shop.store)
    return shop


def test_a_store_with_a_leader_is_healthy(shared):
    shared.store.lead("steward-1", 10 * SECOND)
    result = shared.types("status")
    assert result.exit_code == 0
    assert "leader          steward-1" in result.output
    assert "open letters    0" in result.output


def test_without_a_leader_it_says_so_and_ends_with_one(shared):
    result = shared.types("status")
    assert result.exit_code == 1
    assert "! no steward leads" in result.output


def test_a_store_in_memory_says_that_nobody_elses_jobs_are_in_it(shop):
    shop.store.lead("steward-1", 10 * SECOND)
    result = shop.types("status")
    assert result.exit_code == 1
    assert "memory of one process" in result.output


def test_a_store_that_is_away_is_told_in_a_sentence_without_secrets_or_escape_codes(shop):
    use_store(shop.app, AwayStore())
    result = shop.types("status")
    assert result.exit_code == 1
    assert "can't be reached: password=[redacted] \\x1b[31m" in result.output
    assert "Traceback" not in result.output


def test_what_waits_is_counted_and_its_age_told(shared):
    shared.fails("a")
    runs(shared.store, "b")
    opens(shared.store, "c")
    shared.clock.now += 200 * SECOND
    output = shared.types("status").output
    assert "open letters    1\n" in output
    assert "parked          1, the oldest for 3m 20s" in output


def test_counts_stop_at_a_bound(shared):
    for number in range(101):
        shared.fails(str(number))
    assert "open letters    100+" in shared.types("status").output


def test_json_has_the_same_fields_whether_the_store_answers_or_not(shared):
    (well,) = shared.reads("status")
    use_store(shared.app, AwayStore())
    (away,) = shared.reads("status")
    assert list(well) == list(away)
    assert (well["reachable"], away["reachable"], away["healthy"]) == (True, False, False)


@pytest.mark.parametrize(
    "line",
    [
        "trace list",
        "trace show x",
        "jobs find --key x",
        "jobs show x",
        "dlq list",
        "dlq show x",
        "dlq groups",
        "dlq group x",
        "dlq replay x --dry-run",
        "dlq replay --task x --because x",
        "dlq operations",
        "dlq operation x",
        "dlq pause x",
        "dlq resume x",
        "dlq abort x --because x",
        "run x --mode real --because x",
        "dlq follow x",
        "dlq discard x --because x",
        "dlq edit x --undo",
        "dlq assign x ann",
        "dlq note x text",
        "parked list",
        "parked free x --because x",
        "erase --key x --because x --yes",
        "prune",
    ],
)
def test_every_other_command_ends_with_three_and_a_sentence_where_the_store_is_away(shop, line):
    use_store(shop.app, AwayStore())
    result = shop.types(line)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert "[store-unavailable]" in result.stderr
    assert "\x1b" not in result.stderr
    assert "hunter2" not in result.stderr


@pytest.mark.parametrize(
    ("broker", "wanted", "says"),
    [
        ("redis://localhost", True, "renewed while"),
        ("sqs://", True, "renewed while"),
        ("redis://localhost", False, "comes twice"),
        ("amqp://localhost", True, "not needed"),
        ("gcpubsub://projects/shop", True, "not needed"),
        ("sqlalchemy+sqlite:///broker", True, "does not bring"),
        ("azurestoragequeues://", True, "not known"),
    ],
)
def test_it_says_what_keeps_a_running_jobs_message_from_other_workers(broker, wanted, says):
    assert says in message_leases.describe({"broker_url": broker}, wanted=wanted)


class PausedStore(SharedStore):
    def __init__(self, clock):
        super().__init__(clock)
        self.pause = Pause(since=clock.now - 60 * SECOND, until=clock.now + 540 * SECOND)

    def overview(self, *given, **named):
        return replace(super().overview(*given, **named), paused=self.pause)


def test_that_resources_are_given_to_nobody_is_told_with_its_times(shop):
    use_store(shop.app, PausedStore(shop.clock))
    glance = shop.reads("status")[0]
    assert glance["grants_paused_since"] == "2023-11-14T22:12:20.000000Z"
    assert glance["grants_paused_until"] == "2023-11-14T22:22:20.000000Z"
    assert not glance["healthy"]
    result = shop.types("status")
    assert result.exit_code == 1
    assert "! the store may have lost what it knew: until 2023-11-14 22:22:20" in result.output
