"""Where the store is away, or newer than this version, a page says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.db import DEFAULT_DB_ALIAS, connections
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker

from celery_replay.stores.journaled import JournaledStore
from django_celery_replay.admin.frozen import freeze
from django_celery_replay.models import (
    Attempt,
    DeadLetter,
    HistoryEntry,
    LetterGroup,
    ParkedJob,
    ProcessedJob,
)
from django_celery_replay.models import StepRecord as StepRow
from django_celery_replay.store import DjangoStore
from tests.django_admin import visitors
from tests.django_admin.builders import attempt, entry, failed, group, lease, row, step
from tests.django_admin.conftest import Page, Put
from tests.django_admin.forms import press
from tests.django_admin.markup import text_of
from tests.django_admin.test_deciding import BASE, LETTERS, every_vendor, seen
from tests.django_admin.test_permissions import POSTS

AWAY = {
    "unreachable": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "127.0.0.1",
        "PORT": "1",
        "NAME": "gone",
        "USER": "x",
        "OPTIONS": {"connect_timeout": 2},
    },
    "not-migrated": {"ENGINE": "django.db.backends.sqlite3", "NAME": ""},
}


@pytest.fixture(params=AWAY)
def away(
    request: pytest.FixtureRequest,
    visitor: Client,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    django_db_blocker: DjangoDbBlocker,
) -> Any:
    """Make the records' database one that can't be read."""
    values = dict(AWAY[request.param])
    values["NAME"] = values["NAME"] or str(tmp_path / "empty.sqlite3")
    # A name for each: a process keeps what it knows of a database.
    alias = f"away-{request.param}"
    entries = {DEFAULT_DB_ALIAS: {}, alias: values}
    connections.configure_settings(entries)
    monkeypatch.setitem(connections.settings, alias, entries[alias])
    settings.CELERY_REPLAY_STORE = f"django://{alias}"
    yield
    connections[alias].close()


PAGES = [f"{kind}/{rest}" for kind in visitors.KINDS for rest in ("", "s/change/")]


@pytest.mark.parametrize("path", [*PAGES, "deadletter/operation/op/", "deadletter/s/edit/"])
def test_pages_say_that_the_records_can_not_be_read(visitor: Client, away: None, path: str) -> None:
    response = visitor.get(f"{BASE}/{path}")
    assert response.status_code == 503
    assert "This can't be done now" in text_of(response.content.decode())


@pytest.mark.parametrize("name", POSTS)
def test_decisions_say_that_they_can_not_be_carried_out(
    visitor: Client, away: None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, values, _ = POSTS[name]
    values = {**values, "letters": freeze([("s", 0)] if "edit" in path else [("s", 0), ("t", 0)]).sign()}
    response = visitor.post(f"{BASE}/{path}", values, follow=True)
    assert response.status_code == 503


def test_a_password_in_an_error_is_not_shown(
    put: Put, visitor: Client, store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from celery_replay.exceptions import StoreError

    def refuses(*_: Any) -> None:
        raise StoreError("can't reach postgresql://shop:hunter2@db/shop")

    put(*failed())
    page = seen(visitor)
    monkeypatch.setattr(DjangoStore, "decide", refuses)
    response = press(visitor, page, "Investigate")
    assert response.status_code == 503
    assert "hunter2" not in response.content.decode()


NEWER = [
    (ProcessedJob, "status"),
    (ProcessedJob, "ack"),
    (DeadLetter, "state"),
    (DeadLetter, "reason"),
    (DeadLetter, "category"),
    (DeadLetter, "effect"),
    (LetterGroup, "reason"),
    (ParkedJob, "status"),
    (ParkedJob, "reason"),
    (Attempt, "outcome"),
    (StepRow, "state"),
    (HistoryEntry, "verb"),
]


@every_vendor
def test_words_of_a_newer_version_are_shown_on_every_page(put: Put, page: Page, store: DjangoStore) -> None:
    put(
        *failed(group_id="s", replay="r", operation_id="op"),
        group(),
        row(subject="s"),
        attempt(),
        step(),
        entry("e", submission="s", operation_id="op"),
        entry("g", group_id="s"),
        lease(),
    )
    for model, name in NEWER:
        model._default_manager.using(store.alias).update(**{name: "half_<b>done</b>"})
    for path in [*PAGES, "deadletter/operation/op/"]:
        html = page(path).replace("Half", "half")
        # A lease's own pages have no words of these tables, and beside a ledger its word about an operation counts.
        others = ("resourcelease/", "deadletter/operation/") if isinstance(store, JournaledStore) else "resourcelease/"
        assert "half &lt;b&gt;done&lt;/b&gt;" in html or path.startswith(others)
        assert "half <b>" not in html


def test_a_letter_in_a_newer_versions_state_is_not_decided_about(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*failed("s"), *failed("t"))
    one, many = seen(visitor), freeze([("s", 0), ("t", 0)]).sign()
    DeadLetter.objects.using(store.alias).filter(pk="s").update(state="half_done")
    refused = press(visitor, one, "Investigate")
    assert refused.status_code == 503
    assert "which this version does not know; upgrade this process" in text_of(refused.content.decode())
    looked = visitor.post(f"{LETTERS}replay/", {"letters": many})
    assert looked.status_code == 200
    assert "1 ✗ left out: state 1 ✓ is sent 1 effect ✓ absent" in text_of(looked.content.decode())
