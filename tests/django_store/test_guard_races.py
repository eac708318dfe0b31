"""Fences and markers where two owners meet, on every database and isolation level: all must be current reads."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import OperationalError, transaction

from celery_replay.exceptions import FenceRefused
from django_celery_replay import fenced
from django_celery_replay.models import Fence, Marker
from tests.django_store.guarded import Hold, clients, effects, run, waits, write, written


def test_a_zombie_waits_for_the_new_owners_commit_and_is_refused(leveled: str) -> None:
    """The old owner comes in the middle of the new owner's transaction; a third one after both."""
    hold = Hold()
    with clients(leveled, 3) as (new, old, later):
        first = new.do(lambda: write(leveled, "order", 2, hold))
        hold.await_reached()
        second = old.do(lambda: write(leveled, "order", 1))
        assert waits(second)
        hold.let_go()
        assert first.result(10) == "written"
        assert second.result(10) == "refused"
        assert later.do(lambda: write(leveled, "order", 1)).result(10) == "refused"
    assert written(leveled) == ["order-2"]


def test_an_old_owner_in_the_middle_of_its_write_ends_it_before_the_new_one_begins(leveled: str) -> None:
    hold = Hold()
    with clients(leveled, 2) as (old, new):
        first = old.do(lambda: write(leveled, "order", 1, hold))
        hold.await_reached()
        second = new.do(lambda: write(leveled, "order", 2))
        assert waits(second)
        hold.let_go()
        assert (first.result(10), second.result(10)) == ("written", "written")
        assert old.do(lambda: write(leveled, "order", 1, mark="late")).result(10) == "refused"
    assert written(leveled) == ["order-1", "order-2"]


def test_where_the_first_of_several_fails_the_others_still_come_in_their_order(leveled: str) -> None:
    """Nobody has the row by then, so those who wait for it want to make it, all at once."""
    hold = Hold(ValueError("no"))
    with clients(leveled, 3) as (first, old, new):
        failing = first.do(lambda: write(leveled, "order", 1, hold))
        hold.await_reached()
        waiting = [old.do(lambda: write(leveled, "order", 2)), new.do(lambda: write(leveled, "order", 3))]
        assert all(waits(one) for one in waiting)
        hold.let_go()
        with pytest.raises(ValueError, match="no"):
            failing.result(10)
        results = [one.result(10) for one in waiting]
    assert results in (["written", "written"], ["refused", "written"])
    assert Fence.objects.using(leveled).get().token == 3


def test_what_an_open_transaction_saw_earlier_lets_no_zombie_in(leveled: str) -> None:
    """The old owner's transaction has a snapshot from before the new owner came."""

    def late(hold: Hold) -> None:
        with transaction.atomic(using=leveled):
            assert not Fence.objects.using(leveled).exists()
            hold()
            with fenced(leveled, "order", 1):
                pass

    hold = Hold()
    with clients(leveled, 2) as (old, new):
        zombie = old.do(lambda: late(hold))
        hold.await_reached()
        owner = new.do(lambda: write(leveled, "order", 2))
        # Where readers hold writers up, the new owner comes after the old one, who is then no zombie.
        comes_later = waits(owner)
        hold.let_go()
        refused = zombie.exception(10)
        assert owner.result(10) == "written"
    # Where the database sees the conflict before we do, it refuses by an error of its own.
    assert comes_later or isinstance(refused, (FenceRefused, OperationalError))


def test_a_second_transaction_waits_for_the_first_and_finds_its_effect(leveled: str) -> None:
    hold = Hold()
    with clients(leveled, 2) as (one, two):
        first = one.do(lambda: run(leveled, "job", "a", hold=hold))
        hold.await_reached()
        second = two.do(lambda: run(leveled, "job", "b"))
        assert waits(second)
        hold.let_go()
        assert first.result(10) == ("did", '"done"')
        assert second.result(10) == ("found", '"done"')
    assert effects(leveled) == ["effect of a"]


def test_where_the_first_transaction_fails_one_of_the_others_has_the_effect(leveled: str) -> None:
    hold = Hold(ValueError("no"))
    with clients(leveled, 3) as (one, two, three):
        first = one.do(lambda: run(leveled, "job", "a", hold=hold))
        hold.await_reached()
        others = [two.do(lambda: run(leveled, "job", "b")), three.do(lambda: run(leveled, "job", "c"))]
        assert all(waits(other) for other in others)
        hold.let_go()
        with pytest.raises(ValueError, match="no"):
            first.result(10)
        assert sorted(other.result(10)[0] for other in others) == ["did", "found"]
    assert len(effects(leveled)) == 1


def test_a_snapshot_from_before_the_effect_still_finds_its_result(leveled: str) -> None:
    """Some databases answer a plain SELECT from the snapshot, in which there is no marker."""

    def look(hold: Hold) -> Any:
        with transaction.atomic(using=leveled):
            assert not Fence.objects.using(leveled).exists()
            hold()
            return run(leveled, "job", "b")

    hold = Hold()
    with clients(leveled, 2) as (late, first):
        second = late.do(lambda: look(hold))
        hold.await_reached()
        owner = first.do(lambda: run(leveled, "job", "a"))
        waits(owner)
        hold.let_go()
        if isinstance(second.exception(10), OperationalError):
            assert owner.result(10) == ("did", '"done"')
        else:
            assert {second.result(10), owner.result(10)} == {("did", '"done"'), ("found", '"done"')}
    assert len(effects(leveled)) == 1


def test_of_many_at_once_one_has_the_effect_and_all_get_its_result(leveled: str) -> None:
    start = threading.Barrier(8)

    def one(nonce: str) -> Any:
        start.wait(10)
        return run(leveled, "job", nonce)

    with clients(leveled, 8) as all_of_them:
        ends = [client.do(lambda n=n: one(f"n{n}")) for n, client in enumerate(all_of_them)]
        assert sorted(end.result(30) for end in ends) == [("did", '"done"')] + [("found", '"done"')] * 7
    assert len(effects(leveled)) == 1


def test_of_many_at_once_each_writes_behind_all_older_ones_or_is_refused(leveled: str) -> None:
    start = threading.Barrier(8)

    def one(token: int) -> str:
        start.wait(10)
        return write(leveled, "order", token)

    with clients(leveled, 8) as all_of_them:
        ends = [client.do(lambda token=token: one(token)) for token, client in enumerate(all_of_them, 1)]
        told = [end.result(30) for end in ends]
    assert told[-1] == "written"
    assert Fence.objects.using(leveled).get().token == 8
    # Each row's time is of its own transaction, behind the fence.
    order = Marker.objects.using(leveled).order_by("marked_at").values_list("identity", flat=True)
    assert list(order) == [f"order-{token}" for token, end in enumerate(told, 1) if end == "written"]
