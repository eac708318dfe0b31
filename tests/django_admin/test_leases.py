"""What the pages of leases show, and what they do."""

from __future__ import annotations

from django.test import Client

from celery_replay.clock import SECOND, wall
from celery_replay.states import LeaseEnd, Outcome, Reason
from django_celery_replay.store import DjangoStore
from tests.django_admin.builders import NOW, holding, job, lease, row
from tests.django_admin.conftest import Page, Put
from tests.django_admin.markup import text_of

BASE = "/admin/django_celery_replay"


def test_the_list_shows_who_has_which_resource_and_leaves_out_what_is_free(put: Put, page: Page) -> None:
    put(job("a", status=Outcome.OPEN), lease("order:7", "a"), lease("order:8", "b", nonce="", until=None))
    text = text_of(page("resourcelease/"))
    assert "order:7 shop.ship a 2023-11-14 22:13:20 2023-11-14 22:14:20" in text
    assert "order:8" not in text


def test_a_lease_is_found_by_its_resource_and_by_its_holder(put: Put, page: Page) -> None:
    put(job("a", key="ship:1"), lease("order:7", "a"), lease("customer:1", "b"))
    for term in ("order:", "a", "ship:1"):
        text = text_of(page("resourcelease/", q=term))
        assert "order:7" in text
        assert "customer:1" not in text


def test_a_lease_shows_its_last_holders_and_whom_they_met(put: Put, page: Page) -> None:
    put(lease("r", "a"), holding("r", "before", end=LeaseEnd.RELEASED), job("before"))
    text = text_of(page("resourcelease/r/change/"))
    assert "has gone silent" in text
    assert f"{NOW - 1} shop.ship before" in text
    assert "released" in text


def test_the_parking_lot_shows_who_has_the_resource_that_is_waited_for(put: Put, page: Page) -> None:
    put(job("a", key="ship:1", status=Outcome.OPEN), lease("order:7", "a"))
    before = text_of(page("parkedjob/"))
    put(
        job("a", key="ship:1", status=Outcome.OPEN),
        lease("order:7", "a"),
        row("b", subject="lease:order:7", reason=Reason.LEASE_HELD),
    )
    assert "shop.ship ship:1 lease held" not in before
    assert "shop.ship ship:1 lease held" in text_of(page("parkedjob/"))


def test_a_resource_is_taken_from_a_dead_holder_and_not_from_a_living_one(
    put: Put, visitor: Client, store: DjangoStore
) -> None:
    answer = {"confirmed": "1", "text": "its node is gone"}
    put(job("a", status=Outcome.OPEN), lease("r", "a", until=wall() + 600 * SECOND))
    visitor.post(f"{BASE}/resourcelease/r/release/", answer)
    assert [found.resource for found in store.leases()] == ["r"]
    put(job("a", status=Outcome.OPEN), lease("r", "a"))
    visitor.post(f"{BASE}/resourcelease/r/release/", answer)
    assert list(store.leases()) == []
    (entry,) = store.history(submission="a")
    assert (entry.verb, entry.actor, entry.text) == ("lease_freed", "ann", "its node is gone")
