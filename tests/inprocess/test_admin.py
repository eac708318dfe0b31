"""What is pressed in the admin is run by a worker, and the pages tell how it ended."""

from __future__ import annotations

import pytest
from celery import _state
from django.db import connections

from tests.django_admin import visitors
from tests.django_admin.forms import press
from tests.django_admin.markup import text_of
from tests.support.django_stores import close_stores, make_django_store

LETTERS = "/admin/django_celery_replay/deadletter/"


@pytest.fixture
def admin(lab, client, settings, tmp_path, django_db_blocker, monkeypatch):
    """Lend a visitor of the admin; the lab's worker and the web process have one store, on SQLite."""
    with django_db_blocker.unblock():
        store = lab.use(make_django_store(f"sqlite:///{tmp_path / 'replay.sqlite3'}", lab.clock))
        settings.CELERY_REPLAY_STORE = f"django://{store.alias}"
        settings.MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
        settings.MIDDLEWARE = [
            "tests.django_admin.visitors.middleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ]
        monkeypatch.setattr(_state, "default_app", lab.app)
        visitors.welcome(visitors.ALL)
        yield client
        lab.idle()
        lab.runtime.heartbeat.drain()
        close_stores()
        connections[store.alias].close()


def failed(lab, task, order_id):
    result = task.delay(order_id)
    lab.error(result)
    lab.settled(result.id)
    return lab.letter(result.id)


def text(response):
    return text_of(response.content.decode())


def test_many_are_replayed_and_the_operations_page_follows_each_to_its_end(lab, admin):
    switch = {"down": True}

    @lab.task(idempotency_key="ship:{order_id}", stepwise=True)
    def ship(order_id):
        lab.log.append(order_id)
        if switch["down"] or order_id == 2:
            raise ConnectionError(f"no answer about {order_id}")

    letters = [failed(lab, ship, number) for number in range(3)]
    switch["down"] = False
    lab.log.clear()

    page = admin.post(LETTERS, {"action": "replay", "index": "all"})
    assert "3 ✓ is sent" in text(page)
    assert lab.log == []
    operation = press(admin, page, "Replay for real", reason="the carrier is up", rate="")
    path = operation.request["PATH_INFO"]

    lab.wait(lambda: "1 ✗ failed again" in text(admin.get(path)), "the last one's end")
    lab.wait(lambda: "2 ✓ resolved" in text(admin.get(path)), "the others' end")
    assert sorted(lab.log) == [0, 1, 2]
    assert "ConnectionError: no answer about 2" in text(admin.get(path))
    own = text(admin.get(f"{LETTERS}{letters[0].submission}/change/"))
    for said in ("✓ resolved", "Resolved by replayed", "replayed ann the carrier is up", "✓ succeeded"):
        assert said in own


def test_a_mended_payload_runs_as_it_was_mended(lab, admin):
    @lab.task(idempotency_key="charge:{order_id}", stepwise=True)
    def charge(order_id, amount):
        lab.log.append((order_id, amount))
        if amount < 0:
            raise ValueError

    result = charge.delay(7, -3)
    lab.error(result)
    lab.settled(result.id)
    letter = lab.letter(result.id)
    path = f"{LETTERS}{letter.submission}"
    looked = press(admin, admin.get(f"{path}/edit/"), "Look at the difference", args="[7, 3]", text="negated")
    page = press(admin, press(admin, looked, "Save the mended payload"), "Replay…")
    press(admin, page, "Replay for real", reason="mended")
    lab.wait(lambda: "Resolved by replayed" in text(admin.get(f"{path}/change/")), "its end")
    assert lab.log == [(7, -3), (7, 3)]
