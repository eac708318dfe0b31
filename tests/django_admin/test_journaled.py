"""Pages that show a journal, and decide in the ledger beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery
from django.test import Client

from celery_replay.exceptions import StoreUnavailable
from celery_replay.states import LetterState, Outcome, Reason, RowStatus, Verdict
from celery_replay.stores.journaled import JournaledStore
from tests.django_admin.builders import failed, job, lease, row
from tests.django_admin.conftest import Page, Put
from tests.django_admin.forms import press
from tests.django_admin.markup import text_of
from tests.django_admin.test_deciding import seen
from tests.django_admin.test_replaying import SEND, sent
from tests.django_store.builders import ask, ending
from tests.support import redis_server

BASE = "/admin/django_celery_replay"
pytestmark = pytest.mark.parametrize("ledger_url", ["redis_url"], indirect=True)


def archive(store: JournaledStore) -> None:
    while store._archive(0, 500):
        pass


@contextmanager
def ledger_down(store: JournaledStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*_: Any) -> Any:
        raise StoreUnavailable("redis can't be reached")

    with monkeypatch.context() as patch:
        patch.setattr(store.ledger._pool, "take", refuse)  # type: ignore[attr-defined]
        yield


def test_a_letter_that_redis_lost_is_replayed_from_its_page(
    put: Put, visitor: Client, store: JournaledStore, shop: Celery, ledger_url: str
) -> None:
    put(*failed())
    redis_server.flush(ledger_url)
    assert store.ledger.letter("s") is None

    page = press(visitor, seen(visitor), "Replay…")
    after = press(visitor, page, SEND, reason="the bank is up again")

    (task_id,) = sent(shop)
    assert f"It is being replayed, as task {task_id}." in text_of(after.content.decode())
    for one in (store.ledger, store.journal):
        letter = one.letter("s")
        assert letter is not None
        assert letter.state is LetterState.REPLAY_PENDING
    assert store.ledger.job("s") is not None


def test_a_decision_is_on_the_page_that_follows(put: Put, visitor: Client, store: JournaledStore) -> None:
    put(*failed())
    after = press(visitor, seen(visitor), "Investigate", text="the bank is down")
    assert "Investigated." in text_of(after.content.decode())
    assert "investigated ann the bank is down" in text_of(after.content.decode())


def test_what_is_parked_in_redis_is_shown_and_freed(
    visitor: Client, page: Page, store: JournaledStore, shop: Celery
) -> None:
    of = ask("holder", key="order-5")
    assert store.open(of).verdict is Verdict.RUN
    waiting = ask("waiter", key="order-5")
    assert store.open(waiting).verdict is Verdict.PARKED
    archive(store)

    text = text_of(page("parkedjob/"))
    assert "shop.tasks.ship" in text
    assert "parked" in text

    visitor.post(f"{BASE}/parkedjob/waiter/free/", {"confirmed": "1", "text": "it may"})
    found = store.ledger.row("waiter")
    assert found is not None
    assert found.status is RowStatus.RELEASED

    store.close(None, ending(of, result="1"))
    archive(store)
    assert "released" in text_of(page("parkedjob/"))


def test_a_lease_in_redis_is_shown_and_taken_from_a_dead_holder(put: Put, visitor: Client, store: Any) -> None:
    put(job("a", status=Outcome.OPEN), lease("r", "a"), row("b", subject="lease:r", reason=Reason.LEASE_HELD))
    assert "r shop.ship a" in text_of(visitor.get(f"{BASE}/resourcelease/").content.decode())
    visitor.post(f"{BASE}/resourcelease/r/release/", {"confirmed": "1", "text": "its node is gone"})
    assert (store.ledger.leases(), store.journal.leases()) == ([], [])


def test_pages_can_be_read_while_redis_is_down_and_say_that_nothing_can_be_decided(
    put: Put, visitor: Client, store: JournaledStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(*failed())
    page = seen(visitor)
    with ledger_down(store, monkeypatch):
        assert "no" in text_of(visitor.get(f"{BASE}/deadletter/").content.decode())
        assert visitor.get(f"{BASE}/deadletter/s/change/").status_code == 200
        refused = press(visitor, page, "Investigate", text="?")
        assert refused.status_code == 503
    letter = store.letter("s")
    assert letter is not None
    assert letter.state is LetterState.OPEN
