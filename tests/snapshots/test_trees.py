from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_replay.exceptions import SnapshotUnreadable
from celery_replay.serialization import pack
from celery_replay.snapshots.changes import NOTHING, changes
from celery_replay.snapshots.tree import INLINE, Tree, build
from celery_replay.snapshots.values import encoded


class Shelf(dict):
    """Blobs in memory; counts what is fetched."""

    fetched = 0

    def keep(self, built):
        self.update(built.blobs)
        return built.reference

    def fetch(self, references):
        self.fetched += len(references)
        return {reference: self[reference] for reference in references if reference in self}

    def tree(self, built):
        return Tree(self.keep(built), self.fetch)


def rows(numbers, **changed):
    return {
        f"shop.order:{n}": encoded({"id": n, "status": changed.get(f"n{n}", "paid"), "note": "x" * 40}) for n in numbers
    }


IDS = st.text(min_size=1, max_size=8)
STATES = st.dictionaries(st.sampled_from("ab"), st.dictionaries(IDS, st.integers(0, 3), max_size=80), max_size=2)


def of(states):
    return {
        name: {record: encoded({"n": n, "pad": "x" * 60}) for record, n in records.items()}
        for name, records in states.items()
    }


@given(STATES)
def test_what_was_built_can_be_read(states):
    shelf, bodies = Shelf(), of(states)
    tree = shelf.tree(build(bodies))
    assert {name: dict(tree.records(name)) for name in tree.names} == bodies
    assert tree.references() == set(shelf)


@given(STATES, STATES)
def test_changes_are_those_of_the_records(before, after):
    shelf = Shelf()
    found = {
        (one.state, one.record): one for one in changes(shelf.tree(build(of(before))), shelf.tree(build(of(after))))
    }
    for name in "ab":
        old, new = before.get(name, {}), after.get(name, {})
        for record in {*old, *new}:
            one = found.pop((name, record), None)
            if old.get(record) == new.get(record):
                assert one is None
            else:
                assert (one.before or {}).get("n") == old.get(record)
                assert (one.after or {}).get("n") == new.get(record)
    assert not found


@given(STATES)
def test_equal_records_are_the_same_snapshot_whatever_their_order(states):
    turned = {name: dict(reversed(list(records.items()))) for name, records in reversed(list(of(states).items()))}
    assert build(turned).reference == build(of(states)).reference


def test_ten_thousand_unchanged_rows_add_nothing():
    shelf = Shelf()
    shelf.keep(build({"orders": rows(range(10_000))}))
    before = set(shelf)
    again = build({"orders": rows(range(10_000))})
    assert set(again.blobs) <= before


def test_one_changed_row_of_many_adds_its_own_corner():
    shelf = Shelf()
    one = shelf.tree(build({"orders": rows(range(10_000))}))
    stored = sum(map(len, shelf.values()))
    other = build({"orders": rows(range(10_000), n777="shipped")})
    new = {reference: body for reference, body in other.blobs.items() if reference not in shelf}
    # One part, and the lists that lead to it.
    assert len(new) <= 4
    assert sum(map(len, new.values())) < stored / 20

    two = shelf.tree(other)
    shelf.fetched = 0
    (change,) = changes(one, two)
    assert [(field.name, field.before, field.after) for field in change.fields] == [("status", "paid", "shipped")]
    assert shelf.fetched <= 6


@pytest.mark.parametrize("number", [0, 4_321, 10_000])
def test_a_row_more_or_less_moves_no_other_part(number):
    shelf = Shelf()
    shelf.keep(build({"orders": rows(n for n in range(10_001) if n != number)}))
    more = build({"orders": rows(range(10_001))})
    assert len(set(more.blobs) - set(shelf)) <= 5


@pytest.mark.parametrize("seed", range(5))
def test_each_state_of_a_history_is_rebuilt_from_its_snapshot_alone(seed):
    chance = random.Random(seed)
    numbers, shelf, history = set(range(300)), Shelf(), []
    for turn in range(6):
        numbers ^= {chance.randrange(400) for _ in range(20)}
        state = rows(numbers, **{f"n{n}": f"changed {turn}" for n in chance.sample(sorted(numbers), 10)})
        history.append((shelf.keep(build({"orders": state})), state))
    for reference, state in history:
        needed = Tree(reference, shelf.fetch).references()
        # Nothing is a difference from another one: all others may go.
        alone = Shelf({name: body for name, body in shelf.items() if name in needed})
        assert dict(Tree(reference, alone.fetch).records("orders")) == state
    assert len(shelf) > 60


def test_a_few_rows_are_one_blob():
    few = rows(range(5))
    assert sum(map(len, few.values())) < INLINE
    assert len(build({"orders": few, "lines": rows(range(3))}).blobs) == 1


def test_the_same_rows_under_another_name_are_shared():
    shelf = Shelf()
    shelf.keep(build({"orders": rows(range(500))}))
    assert len(set(build({"open": rows(range(500))}).blobs) - set(shelf)) == 1


def test_added_and_removed_records_have_all_their_fields():
    shelf = Shelf()
    one, two = shelf.tree(build({"o": rows([1])})), shelf.tree(build({"o": rows([2])}))
    removed, added = changes(one, two)
    assert (removed.record, removed.after, added.before) == ("shop.order:1", None, None)
    assert [(field.name, field.after) for field in removed.fields] == [
        ("id", NOTHING),
        ("note", NOTHING),
        ("status", NOTHING),
    ]


def test_a_field_that_became_another_type_is_a_change():
    shelf = Shelf()
    one, two = (shelf.tree(build({"o": {"r": encoded({"n": n})}})) for n in (1, True))
    (change,) = changes(one, two)
    assert [field.name for field in change.fields] == ["n"]


# What is stored may be gone, damaged or hostile


def test_a_part_that_is_gone_is_told():
    shelf = Shelf()
    tree = shelf.tree(build({"orders": rows(range(500))}))
    shelf.pop(next(reference for reference in shelf if reference != tree.reference))
    with pytest.raises(SnapshotUnreadable, match="is gone"):
        tree.records("orders")


@pytest.mark.parametrize("body", [b"", b"z", b"zabc", b"j[]", b"j{", b"x", pack({"v": 1, "states": {}})])
def test_a_part_that_says_something_else_than_its_name_is_refused(body):
    shelf = Shelf()
    reference = shelf.keep(build({"orders": rows(range(5))}))
    shelf[reference] = body
    with pytest.raises(SnapshotUnreadable):
        Tree(reference, shelf.fetch)


def test_flipped_bits_are_noticed():
    chance = random.Random(1)
    shelf = Shelf()
    reference = shelf.keep(build({"orders": rows(range(30))}))
    whole = bytearray(shelf[reference])
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[chance.randrange(1, len(damaged))] ^= 1 << chance.randrange(8)
        shelf[reference] = bytes(damaged)
        with pytest.raises(SnapshotUnreadable):
            Tree(reference, shelf.fetch)
