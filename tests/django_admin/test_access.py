"""Who may see what, and that nobody may change anything."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from celery_replay.states import Outcome
from django_celery_replay.models import ProcessedJob
from django_celery_replay.store import DjangoStore
from tests.django_admin import visitors
from tests.django_admin.builders import group, job, lease, letter, row, step
from tests.django_admin.conftest import Page, Put
from tests.django_admin.markup import text_of

BASE = "/admin/django_celery_replay"
PAGES = [f"{BASE}/{kind}/{rest}" for kind in visitors.KINDS for rest in ("", "s/change/")]
SECRET = "fragile"


@pytest.fixture
def records(put: Put) -> None:
    put(job(result=f'"{SECRET}"'), step(output=f'"{SECRET}"'), letter(), group(), row(), lease())


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_pages_are_only_read(visitor: Client, records: None, path: str, method: str) -> None:
    if (path, method) == (f"{BASE}/deadletter/", "post"):
        pytest.skip("there, what is to be done is asked")
    assert getattr(visitor, method)(path, {"action": "delete_selected", "_selected_action": "s"}).status_code == 405


@pytest.mark.parametrize("kind", visitors.KINDS)
@pytest.mark.parametrize("method", ["get", "post"])
def test_nothing_is_added_or_deleted(visitor: Client, records: None, kind: str, method: str) -> None:
    every = [f"{visitors.APP}.{verb}_{kind}" for verb in ("add", "change", "delete", "view")]
    visitors.welcome(every)
    for path in ("add/", "s/delete/"):
        assert getattr(visitor, method)(f"{BASE}/{kind}/{path}", {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("path", PAGES)
def test_each_kind_needs_its_permission(visitor: Client, records: None, path: str) -> None:
    kind = path.split("/")[3]
    visitors.welcome([p for p in (*visitors.READS, visitors.PAYLOAD) if not p.endswith(kind)])
    assert visitor.get(path).status_code == 403
    visitors.welcome([f"{visitors.APP}.view_{kind}"])
    assert visitor.get(path).status_code == 200


@pytest.mark.parametrize("path", PAGES)
def test_strangers_are_sent_to_the_login(visitor: Client, records: None, path: str) -> None:
    visitors.welcome(None)
    assert visitor.get(path)["Location"].startswith("/admin/login/")


@pytest.mark.parametrize("path", PAGES)
def test_payloads_need_a_permission_of_their_own(visitor: Client, page: Page, records: None, path: str) -> None:
    path = path.removeprefix(f"{BASE}/")
    has_payload = path.endswith("change/") and path.split("/")[0] not in ("lettergroup", "resourcelease")
    assert (SECRET in page(path)) == has_payload
    visitors.welcome(visitors.READS)
    html = page(path)
    assert SECRET not in html
    assert ("django_celery_replay.view_payload" in html) == has_payload


@pytest.mark.parametrize("lookup", ["result__startswith", "submission", "status__contains", "message__isnull"])
def test_conditions_in_the_address_do_not_guess_at_payloads(visitor: Client, records: None, lookup: str) -> None:
    assert visitor.get(f"{BASE}/processedjob/", {lookup: "x"}).status_code == 400


def test_sorting_by_other_columns_is_not_heard_of(put: Put, page: Page) -> None:
    put(job("a", worker="z", started_at=2), job("b", worker="y", started_at=1))
    text = text_of(page("processedjob/", o="7"))
    assert text.index(" z ") < text.index(" y ")


@pytest.mark.django_db
def test_the_projects_own_users_and_database_serve_as_well(client: Client) -> None:
    values: dict[str, Any] = {
        field.attname: field.default
        if field.has_default()
        else (0 if field.get_internal_type() != "CharField" else "x")
        for field in ProcessedJob._meta.concrete_fields
        if not field.null
    }
    ProcessedJob.objects.create(**{**values, "submission": "s", "status": Outcome.SUCCEEDED, "ack": "late"})
    user = User.objects.create_user("reader", is_staff=True)
    client.force_login(user)
    assert client.get(f"{BASE}/processedjob/s/change/").status_code == 403
    wanted = Permission.objects.filter(codename__in=["view_processedjob", "view_payload"])
    user.user_permissions.add(*wanted)
    assert "Result None is kept." in text_of(client.get(f"{BASE}/processedjob/s/change/").content.decode())
    assert "1 in all" in text_of(client.get(f"{BASE}/processedjob/").content.decode())
    assert "Processed jobs" in text_of(client.get("/admin/").content.decode())


class Router:
    alias = ""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return self.alias

    db_for_write = db_for_read


def test_a_router_may_say_where_the_records_are(put: Put, page: Page, store: DjangoStore, settings: Any) -> None:
    put(job())
    del settings.CELERY_REPLAY_STORE
    settings.DATABASE_ROUTERS = ["tests.django_admin.test_access.Router"]
    Router.alias = store.alias
    assert "1 in all" in text_of(page("processedjob/"))
    assert "succeeded" in text_of(page("processedjob/s/change/"))
