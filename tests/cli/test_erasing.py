from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.exceptions import ConfigurationError
from celery_replay.serialization import pack
from celery_replay.states import Outcome, Verb
from tests.cli.conftest import kept, ship
from tests.conformance.callers import closes, runs
from tests.conformance.remains import tables_with
from tests.rules.builders import delivery

PERSON = "ann.lee"


@pytest.fixture
def erasable(shop):
    """Let a job fail, and one of another person."""
    shop.fails("a", kept(f'[["{PERSON}"], {{}}, {{}}]'.encode()), message=f"no {PERSON}")
    shop.fails("other", kept(b'[["ben"], {}, {}]'), message="no ben")
    shop.store.flush(advanced=["a", "other"])
    return shop


def test_all_of_a_key_is_erased_and_no_other(erasable):
    result = erasable.types("erase --key ship:a --yes --actor bob --because", "request 7")
    assert (result.exit_code, result.stdout.split()) == (0, ["erased", "a", "shop.ship"])
    assert tables_with(erasable.store, PERSON) == set()
    assert tables_with(erasable.store, "ben")
    (entry,) = erasable.store.history(submission="a")
    assert (entry.verb, entry.actor, entry.text) == ("erased", "bob", "request 7")
    assert "[erased]" in erasable.types("dlq show a").stdout


def test_the_key_is_not_told_again(erasable):
    result = erasable.types("erase --key ship:a --yes --because x --json")
    assert "ship:a" not in result.output


def test_erasing_asks_first_and_needs_a_reason(erasable):
    asked = erasable.types("erase --key ship:a --because x")
    assert (asked.exit_code, "Erase the data of 1 jobs for good?" in asked.stderr) == (2, True)
    assert erasable.types("erase --key ship:a --yes").exit_code == 2
    assert tables_with(erasable.store, PERSON)


def test_a_task_narrows_a_key(erasable):
    assert erasable.types("erase --key ship:a --task shop.pay --yes --because x").exit_code == 1
    assert erasable.types("erase --key ship:a --task shop.ship --yes --because x").exit_code == 0


@pytest.mark.parametrize("line", ["", "--key a --job b", "--task shop.ship"])
def test_it_has_to_be_said_whose_data(erasable, line):
    assert "whose data?" in erasable.types(f"erase {line} --yes --because x").stderr


def test_a_job_is_erased_with_its_replays(erasable):
    decision = Decision(verb=Verb.REPLAYED, actor="ann", replay="a2", details='{"task_id": "a2"}')
    row = erasable.store.begin_replay("a", decision, b"again")
    erasable.store.mark_sent(row, SECOND)
    again = runs(erasable.store, "a2", task_id="a2", claim="a", original="a", key=PERSON)
    closes(erasable.store, again, Outcome.SUCCEEDED, result=f'"{PERSON}"', canvas=False)
    told = erasable.reads("erase --job a2 --yes --because x")
    assert [(one["id"], one["verdict"]) for one in told] == [("a", "erased"), ("a2", "erased")]
    assert tables_with(erasable.store, PERSON) == set()


def test_a_job_that_runs_is_told_and_the_others_are_erased(erasable):
    runs(erasable.store, "b", claim=None, key="ship:a")
    told = {one["id"]: (one["verdict"], one["said"]) for one in erasable.reads("erase --key ship:a --yes --because x")}
    assert told == {"a": ("erased", ""), "b": ("refused", "it has not ended: it is open")}
    assert erasable.types("erase --key ship:a --yes --because x").exit_code == 4


class Target:
    """A business database that keeps markers."""

    def __init__(self, problem: str = "") -> None:
        self.erased: list[tuple[str, str]] = []
        self.problem = problem

    def check(self, aliases: Sequence[str]) -> None: ...

    def erase(self, using: str, identity: str) -> None:
        if self.problem:
            raise ConfigurationError(self.problem)
        self.erased.append((using, identity))


def atomic(shop, target):
    """Run a job that leaves a marker."""
    task = shop.app.task(ship, name="shop.pay", shared=False, atomic="bank", replay_target=target)
    job = runs(shop.store, "paid", claim="digest", key="pay:1", delivery=replace(delivery("paid"), operation=task.name))
    closes(shop.store, job, claim="digest", canvas=False)


def test_the_result_in_a_marker_goes_too(shop):
    target = Target()
    atomic(shop, target)
    assert shop.types("erase --key pay:1 --yes --because x").exit_code == 0
    assert target.erased == [("bank", "digest")]


def test_a_marker_that_can_not_be_reached_is_told(shop):
    atomic(shop, Target("no tables"))
    (told,) = shop.reads("erase --key pay:1 --yes --because x")
    assert (told["verdict"], told["said"]) == ("erased", "its marker keeps the result: no tables")


def test_a_marker_of_a_task_that_is_not_here_is_told(shop):
    message = pack({"v": 1, "task": {"protection": "atomic"}, "headers": {}})
    shop.fails("a", message)
    shop.store.flush(advanced=["a"])
    shop.app.tasks.pop("shop.ship")
    result = shop.types("erase --job a --yes --because x")
    assert (result.exit_code, "not registered here" in result.stdout) == (4, True)
