from __future__ import annotations

import json
from typing import Any

from celery import Celery, _state
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.test import Client
from django.test.utils import setup_test_environment

from celery_replay.runtime import use_store
from django_celery_replay import ReplayTask
from django_celery_replay.store import DjangoStore
from tests.django_admin.builders import failed
from tests.django_admin.forms import press
from tests.django_admin.markup import text_of

BASE = "/admin/django_celery_replay"
PAGES = ("processedjob/", "deadletter/", "lettergroup/", "parkedjob/", "resourcelease/", "processedjob/s/change/")


class Command(BaseCommand):
    """One person's way through the admin, in a process of its own: there is one user model for as long as it lives."""

    def handle(self, *args: Any, **options: Any) -> None:
        setup_test_environment()
        call_command("migrate", verbosity=0, run_syncdb=True)
        call_command("migrate", database="replay", verbosity=0)
        store = shop()
        people = get_user_model()._default_manager
        ann, bob = (people.create(email=f"{name}@example.org", is_superuser=True) for name in ("ann", "bob"))
        hers, his = Client(), Client()
        hers.force_login(ann)
        his.force_login(bob)

        told = {
            "nobody": pressed(hers, "s", "Assign", assignee="nobody@example.org"),
            "assigned": pressed(hers, "s", "Assign", assignee="bob@example.org"),
            "replayed": text(press(hers, press(hers, letter(hers, "s"), "Replay…"), "Replay for real", reason="up")),
            "discarded": pressed(hers, "t", "Discard", text="a test"),
        }
        ann.delete()
        told["his"] = text(his.get(f"{BASE}/deadletter/?assignee=bob@example.org"))
        told |= {name: text(letter(his, name)) for name in "st"}
        statuses = {his.get(f"{BASE}/{path}").status_code for path in PAGES}
        history = [(str(entry.verb), entry.actor) for entry in store.history(submission="s")]
        self.stdout.write(json.dumps({"told": told, "statuses": sorted(statuses), "history": history}))


def shop() -> DjangoStore:
    """Make the store and the Celery app of this process, and two dead letters."""
    store = DjangoStore("replay")
    with store._unit() as unit:
        for record in [*failed("s"), *failed("t")]:
            unit.put(record)
    app = Celery("shop", task_cls=ReplayTask, broker="memory://", set_as_current=False)

    @app.task(name="shop.ship", shared=False, stepwise=True)
    def ship(order: int, card_token: str = "", note: str = "") -> None: ...

    use_store(app, store)
    _state.default_app = app
    return store


def letter(client: Client, name: str) -> Any:
    return client.get(f"{BASE}/deadletter/{name}/change/")


def text(response: Any) -> str:
    return text_of(response.content.decode())


def pressed(client: Client, name: str, label: str, **values: str) -> str:
    return text(press(client, letter(client, name), label, **values))
