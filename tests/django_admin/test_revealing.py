"""Payloads unredacted, once and with a reason; parked jobs freed before their time."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from celery import Celery
from django.test import Client

from celery_replay.states import RowStatus, Verb
from django_celery_replay.store import DjangoStore
from tests.django_admin import visitors
from tests.django_admin.builders import failed, message, row
from tests.django_admin.conftest import Put
from tests.django_admin.forms import buttons, press
from tests.django_admin.markup import text_of
from tests.django_admin.test_deciding import BASE, LETTERS, every_vendor, seen

PARKED = f"{BASE}/parkedjob/s/change/"
REVEAL = "Reveal the payload"
BARE = {"address": f"{LETTERS}s/change/", "parked": PARKED}


def text(response: Any) -> str:
    return text_of(response.content.decode())


@every_vendor
@pytest.mark.parametrize("path", BARE.values(), ids=BARE)
def test_a_payload_is_shown_once_with_its_secrets_and_that_is_written_down(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    put(*failed(), row(message=message([7, "4242"], {})))
    page = seen(visitor, path)
    assert "4242" not in page.content.decode()

    revealed = press(visitor, page, REVEAL, text="ticket 12")

    assert '[ 7, "4242" ]' in text(revealed)
    assert "no-store" in revealed["Cache-Control"]
    assert revealed.redirect_chain == []
    assert [(e.verb, e.actor, e.text) for e in store.history(submission="s")] == [(Verb.REVEALED, "ann", "ticket 12")]
    after = seen(visitor, path)
    assert "4242" not in after.content.decode()
    assert "revealed ann ticket 12" in text(after)
    assert "4242" not in caplog.text + revealed.request["PATH_INFO"] + revealed.request["QUERY_STRING"]


def test_without_a_reason_nothing_is_shown(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(*failed())
    asked = press(visitor, seen(visitor), REVEAL, text=" ")
    assert "4242" not in asked.content.decode()
    assert "This field is required." in text(asked)
    assert list(store.history(submission="s")) == []
    assert "4242" in press(visitor, asked, REVEAL, text="ticket 12").content.decode()


def test_a_mended_payload_is_revealed_beside_the_original(put: Put, visitor: Client) -> None:
    put(*failed(edited=message([8, "9999"], {})))
    revealed = text(press(visitor, seen(visitor), REVEAL, text="x"))
    assert revealed.index('"4242"') < revealed.index("Mended args") < revealed.index('"9999"')


def test_what_is_not_json_stays_closed(put: Put, visitor: Client) -> None:
    put(*failed(message=message(body=b"\x80\x04N.", content_type="application/x-python-serialize")))
    assert "only JSON is decoded" in text(press(visitor, seen(visitor), REVEAL, text="x"))


def test_what_could_not_be_written_down_is_not_shown(
    put: Put, visitor: Client, store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from celery_replay.exceptions import StoreUnavailable

    def down(*_: Any) -> None:
        raise StoreUnavailable("the database can't be reached")

    put(*failed())
    page = seen(visitor)
    monkeypatch.setattr(type(store), "decide", down)
    refused = press(visitor, page, REVEAL, text="x")
    assert refused.status_code == 503
    assert "4242" not in refused.content.decode()


@every_vendor
def test_a_parked_job_is_freed_with_a_reason(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(row())
    page = seen(visitor, PARKED)
    asked = press(visitor, page, "Free it before its time", text="")
    assert "This field is required." in text(asked)
    after = press(visitor, asked, "Free it", text="the other one is dead")
    found = store.row("s")
    assert found is not None
    assert found.status is RowStatus.RELEASED
    assert "freed ann the other one is dead" in text(after)


def test_a_job_that_is_on_its_way_is_not_freed(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(row(status=RowStatus.PARKED))
    page = seen(visitor, PARKED)
    put(row(status=RowStatus.TAKEN))
    assert "It is on its way already: taken" in text(press(visitor, page, "Free it before its time", text="x"))
    assert buttons(seen(visitor, PARKED))["Free it before its time"].disabled
    visitors.welcome([p for p in visitors.ALL if p != visitors.TRIAGE])
    assert "“django_celery_replay.triage_deadletter”" in text(seen(visitor, PARKED))
