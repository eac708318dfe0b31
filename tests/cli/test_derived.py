from __future__ import annotations

import pytest

from celery_replay import derivations
from celery_replay.derivations import derived
from celery_replay.states import Verb
from celery_replay.trace import Recorder
from tests.conformance.callers import closes, runs


@pytest.fixture
def totals(shop, monkeypatch):
    """Declare derived data; lend where it is."""
    monkeypatch.setattr(derivations, "_declared", {})
    kept = {}

    def check(order_id):
        return [] if kept.get(order_id) == 3 else [f"{order_id} has {kept.get(order_id)}"]

    def rebuild(events, order_id):
        kept[order_id] = sum(event.attributes["n"] for event in events if event.name == "added")

    derived("totals", of="order:{order_id}", check=check, rebuild=rebuild)
    return kept


def adds(shop, name, n):
    job = runs(shop.store, name, claim=None, trace_id=name, resources=("order:7",))
    recorder = Recorder(name, job.nonce, {})
    recorder.record("lease_acquired", attributes={"resource": "order:7"}, fence=shop.store.lease("order:7").fence)
    recorder.record("added", domain=True, attributes={"n": n})
    recorder.record("succeeded")
    shop.store.flush(chunks=recorder.take())
    closes(shop.store, job, claim=None, resources=("order:7",))


def test_it_is_checked_made_again_and_written_down(shop, totals):
    for name, n in (("a", 1), ("b", 2)):
        adds(shop, name, n)
    assert shop.reads("derived list") == [{"name": "totals", "of": "order:{order_id}", "parameters": ["order_id"]}]
    result = shop.types("derived check totals --entity 7")
    assert (result.exit_code, result.stdout) == (4, "7 has None\n")
    assert shop.types("derived rebuild totals --entity 7 --because off").exit_code == 2
    line = "derived rebuild totals --entity order_id=7 --because off --actor bob --yes"
    assert shop.types(line).stdout == "made again from the events of 2 attempts\nnothing is wrong\n"
    assert totals == {7: 3}
    (entry,) = shop.store.history()
    assert (entry.verb, entry.actor, entry.text) == (Verb.REBUILT, "bob", "off")
    assert shop.reads("derived check totals --entity 7") == [{"derived": "totals", "entity": "order:7", "problems": []}]


def test_it_is_not_made_again_while_somebody_has_the_entity(shop, totals):
    adds(shop, "a", 3)
    runs(shop.store, "busy", claim=None, resources=("order:7",))
    line = "derived rebuild totals --entity 7 --because off --yes"
    refused = shop.types(line)
    assert (refused.exit_code, "is held by shop.ship busy" in refused.stderr, totals) == (1, True, {})
    # The one who has it has told nothing yet.
    assert "of 1 leases on order:7 no event is left" in shop.types(f"{line} --anyway").stderr
    assert shop.types(f"{line} --anyway --incomplete").exit_code == 0
    assert totals == {7: 3}


@pytest.mark.parametrize(
    "line", ["derived check totals --entity order_id=1 --entity x=2", "derived check totals --entity 1 --entity 2"]
)
def test_an_entity_that_does_not_fit_is_told(shop, totals, line):
    result = shop.types(line)
    assert (result.exit_code, "give order_id=VALUE" in result.stderr) == (2, True)


def test_a_name_that_nobody_declared_is_told(shop, totals):
    result = shop.types("derived check sums --entity 7")
    assert (result.exit_code, "declared are: totals" in result.stderr) == (1, True)
