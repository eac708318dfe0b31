"""Any store: derived data is made again from the events of one entity, in the order of its fences."""

from __future__ import annotations

import random
from typing import Any

import pytest

from celery_replay import derivations
from celery_replay.clock import SECOND
from celery_replay.derivations import Derived, derived, held, history_of, problems
from celery_replay.exceptions import ConfigurationError
from celery_replay.records import HOLDINGS
from celery_replay.states import Outcome
from celery_replay.stores.base import Store
from celery_replay.trace import Recorder, summarised
from tests.conformance.callers import closes, runs
from tests.conformance.world import Clock

CHANCE = random.Random(7)


@pytest.fixture(autouse=True)
def _none_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derivations, "_declared", {})


@pytest.fixture
def totals() -> tuple[Derived, dict[int, list[int]]]:
    kept: dict[int, list[int]] = {}

    def rebuild(events: list[Any], order_id: int) -> None:
        kept[order_id] = [event.attributes["n"] for event in events if event.name == "added"]

    return (
        derived(
            "totals",
            of="order:{order_id}",
            check=lambda order_id: None if kept.get(order_id) else f"nothing of {order_id}",
            rebuild=rebuild,
        ),
        kept,
    )


def adds(
    store: Store, clock: Clock, name: str, n: int, order: str = "order:7", outcome: Outcome = Outcome.SUCCEEDED
) -> None:
    """Run a job that has the entity and records two events; its process's clock is wrong."""
    job = runs(store, name, claim=None, task_id=name, trace_id=name, resources=(order, "other"))
    recorder = Recorder(name, job.nonce, {"job": name, "fence": 1})
    at = clock.now + CHANCE.randrange(-3600, 3600) * SECOND
    recorder.record("started", at=at)
    for resource in ("other", order):
        lease = store.lease(resource)
        assert lease is not None
        recorder.record("lease_acquired", at=at, attributes={"resource": resource}, fence=lease.fence)
    for one in (n, n + 1):
        recorder.record("added", at=at, domain=True, attributes={"n": one})
    recorder.record(str(outcome), at=at)
    store.flush(chunks=recorder.take())
    closes(store, job, outcome, claim=None, canvas=False, resources=(order, "other"))
    clock.now += SECOND


@pytest.mark.parametrize("count", [3, HOLDINGS + 5])
def test_events_come_in_the_order_of_fences_whatever_the_clocks_said(
    store: Store, clock: Clock, totals: Any, count: int
) -> None:
    one, kept = totals
    for number in range(count):
        adds(store, clock, f"job-{CHANCE.randrange(10**9)}", 2 * number)
        adds(store, clock, f"else-{number}", 1_000, order="order:8")
    history = history_of(store, one, {"order_id": 7})
    one.rebuild(list(history.events), order_id=7)
    assert kept == {7: list(range(2 * count))}
    assert history.missing == 0
    fences = [event.fence for event in history.events]
    assert fences == sorted(fences, key=lambda fence: fence or 0)
    assert problems(one, {"order_id": 7}) == []
    assert problems(one, {"order_id": 9}) == ["nothing of 9"]


def test_what_failed_is_left_out_unless_it_is_wanted(store: Store, clock: Clock, totals: Any) -> None:
    one, _ = totals
    adds(store, clock, "good", 0)
    adds(store, clock, "bad", 10, outcome=Outcome.FAILED)
    every = derived("all", of=one.of, check=one.check, rebuild=one.rebuild, failed=True)
    for which, wanted in ((one, [0, 1]), (every, [0, 1, 10, 11])):
        history = history_of(store, which, {"order_id": 7})
        assert [event.attributes["n"] for event in history.events if event.domain] == wanted
        assert history.missing == 0


def test_what_is_gone_is_counted(store: Store, clock: Clock, totals: Any) -> None:
    one, _ = totals
    adds(store, clock, "old", 0)
    clock.now += 3600 * SECOND
    assert store.thin(1800 * SECOND, summarised)[0] >= 1
    adds(store, clock, "new", 2)
    history = history_of(store, one, {"order_id": 7})
    assert ([event.attributes["n"] for event in history.events if event.domain], history.missing) == ([2, 3], 1)


def test_who_has_it_now_is_told(store: Store, clock: Clock, totals: Any) -> None:
    assert held(store, "order:7") == ""
    runs(store, "a", claim=None, resources=("order:7",), worker="w")
    assert held(store, "order:7") == "shop.ship a on w"
    clock.now += 100 * SECOND
    assert held(store, "order:7") == ""


def test_an_entity_that_nobody_ever_had_has_no_events(store: Store, totals: Any) -> None:
    assert history_of(store, totals[0], {"order_id": 7}).events == ()


def nothing(order_id: int) -> None:
    """Find nothing."""


def none(events: list[Any], order_id: int) -> None:
    """Make nothing."""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"of": "orders"}, "must name values"),
        ({"of": "order:{}"}, "must name values"),
        ({"of": "order:{number}"}, "check= must take number by name"),
        ({"rebuild": nothing}, "rebuild= must take order_id by name"),
    ],
)
def test_a_declaration_that_can_not_work_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        derived("totals", **{"of": "order:{order_id}", "check": nothing, "rebuild": none, **wrong})


def test_a_name_is_declared_once() -> None:
    derived("totals", of="order:{order_id}", check=nothing, rebuild=none)
    derived("totals", of="order:{order_id}", check=nothing, rebuild=none)
    with pytest.raises(ConfigurationError, match="declared twice"):
        derived("totals", of="sale:{order_id}", check=nothing, rebuild=none)


@pytest.mark.parametrize("answer", [True, False, [1]])
def test_a_check_that_says_no_text_is_refused(answer: Any) -> None:
    one = derived("totals", of="order:{order_id}", check=lambda order_id: answer, rebuild=none)
    with pytest.raises(ConfigurationError, match="must return what is wrong as text"):
        problems(one, {"order_id": 7})
