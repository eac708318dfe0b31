from __future__ import annotations

import pytest

from celery_replay.cli.groups import bar
from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.states import Verb
from celery_replay.stores.units import HOUR


@pytest.fixture
def three(shop):
    """Let two jobs fail of one cause, and later one of another."""
    shop.clock.now -= shop.clock.now % HOUR
    shop.fails("a")
    shop.clock.now += 2 * HOUR
    shop.fails("b")
    shop.fails("other", type="KeyError", frames=("shop/tasks.py:ship", "shop/bank.py:pay"))
    return shop


def test_letters_of_one_cause_are_one_row(three):
    title, *rows = three.types("dlq groups").stdout.splitlines()
    assert title.split()[:6] == ["group", "unresolved", "filed", "last", "24", "hours"]
    told = {tuple(row.split()[1:3]) for row in rows}
    assert told == {("2", "2"), ("1", "1")}
    assert any(row.endswith("shop/bank.py:pay") for row in rows)


def test_its_trend_is_a_bar_of_the_last_hours(three):
    (row,) = (row for row in three.types("dlq groups").stdout.splitlines() if "ValueError" in row)
    assert row.split()[3] == "·" * 21 + "█·█"
    (group,) = (group for group in three.reads("dlq groups") if group["error_type"].endswith("ValueError"))
    assert group["last_24_hours"] == [0] * 21 + [1, 0, 1]
    assert (group["first_seen"], group["last_seen"]) != (group["last_seen"], group["first_seen"])


def test_a_bar_is_as_high_as_its_count():
    assert bar([0, 1, 4, 8]) == "·▁▄█"
    assert bar([0, 0]) == "··"
    assert bar([1, 1000]) == "▁█"


def test_groups_without_anything_to_decide_are_shown_on_request(three):
    three.store.decide("other", Decision(verb=Verb.DISCARDED, actor="ann"))
    assert len(three.reads("dlq groups")) == 1
    assert {(group["filed"], group["unresolved"]) for group in three.reads("dlq groups --all")} == {(1, 0), (2, 2)}


@pytest.mark.parametrize(("filters", "found"), [("--task shop.ship", 2), ("--task x", 0), ("--reason rejected", 0)])
def test_groups_are_filtered(three, filters, found):
    assert len(three.reads(f"dlq groups {filters}")) == found
    assert three.types(f"dlq groups {filters}").exit_code == (0 if found else 1)


def test_a_page_of_groups_tells_how_to_get_the_next_one(three):
    three.clock.now += SECOND
    three.fails("last", type="E")
    first = three.types("dlq groups --limit 2")
    hint = first.stderr.strip().removeprefix("more: add ")
    rest = three.types(f"dlq groups {hint}")
    seen = [line.split()[0] for page in (first, rest) for line in page.stdout.splitlines()[1:]]
    assert len(seen) == len(set(seen)) == 3


def test_the_beginning_of_a_groups_id_names_it(three):
    groups = three.reads("dlq groups")
    for group in groups:
        shown = three.reads(f"dlq list --group {group['group']}")
        assert len(shown) == group["filed"]
        assert {letter["group"] for letter in shown} == {group["group"]}
        assert three.reads(f"dlq list --group {group['group_id']}") == shown


def test_a_beginning_that_fits_none_or_several_is_told(three):
    assert three.types("dlq list --group zzz").exit_code == 1
    assert three.types("dlq list --group", "").exit_code == 0
    groups = {group["group_id"].partition(":")[2] for group in three.reads("dlq groups")}
    common = next((a for a in "0123456789abcdef" if sum(name.startswith(a) for name in groups) > 1), None)
    if common:
        assert three.types(f"dlq list --group {common}").exit_code == 2


def test_a_group_is_shown_with_what_was_noted_about_it(three):
    (group, _) = three.reads("dlq groups")
    three.types("dlq note a b other", "about each")
    result = three.types(f"dlq note --group {group['group']} --actor ann", "the bank knows")
    assert result.stdout.split()[0] == "noted"
    output = three.types(f"dlq group {group['group']}").stdout
    assert "frames" in output
    assert "the bank knows" in output
    (shown,) = three.reads(f"dlq group {group['group']}")
    assert [(entry["verb"], entry["actor"]) for entry in shown["notes"]] == [("noted", "ann")]
