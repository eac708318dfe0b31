"""Seeing, deciding, seeing payloads, dry-running, replaying: five permissions; what one may not do is refused."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from django.test import Client

from django_celery_replay.admin.decisions import CHOICES
from django_celery_replay.admin.frozen import freeze
from django_celery_replay.store import DjangoStore
from tests.django_admin import visitors
from tests.django_admin.builders import failed, group, lease, row
from tests.django_admin.conftest import Put
from tests.django_admin.forms import buttons
from tests.django_admin.markup import text_of
from tests.django_admin.test_deciding import BASE, LETTERS, seen
from tests.django_admin.visitors import DRY_RUN, PAYLOAD, READS, REPLAY, TRIAGE

SIGNED = freeze([("s", 0), ("t", 0)]).sign
ONE = freeze([("s", 0)]).sign
READ = {kind: f"{visitors.APP}.view_{kind}" for kind in visitors.KINDS}


def verb(name: str) -> dict[str, str]:
    return {"verb": name, "letters": "many", "text": "x", "assignee": "x"}


POSTS: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
    **{
        f"decide-{name}": ("deadletter/decide/", verb(name), (READ["deadletter"], choice.permission))
        for name, choice in CHOICES.items()
    },
    **{
        f"list-{name}": (
            "deadletter/",
            {"action": name, "index": "all"},
            (READ["deadletter"], {"replay": REPLAY, "dry-run": DRY_RUN}.get(name, TRIAGE)),
        )
        for name in [*(name for name, choice in CHOICES.items() if choice.for_many), "replay", "dry-run"]
    },
    "dry-run": ("deadletter/trial/", {"letters": "many", "confirmed": "1"}, (READ["deadletter"], DRY_RUN)),
    "fork": (
        "deadletter/s/fork/",
        {"letters": "one", "args": "[8]", "kwargs": "{}", "stubs": "{}", "confirmed": "1"},
        (READ["deadletter"], DRY_RUN, PAYLOAD),
    ),
    "replay": (
        "deadletter/replay/",
        {"letters": "many", "looked": "1", "confirmed": "1", "reason": "x"},
        (READ["deadletter"], REPLAY),
    ),
    "abort": ("deadletter/operation/op/decide/", {"verb": "aborted", "text": "x"}, (READ["deadletter"], REPLAY)),
    "edit": (
        "deadletter/s/edit/",
        {"letters": "one", "args": "[8]", "kwargs": "{}", "text": "x", "save": "1"},
        (READ["deadletter"], TRIAGE, PAYLOAD),
    ),
    "restore": ("deadletter/s/edit/", {"letters": "one", "restore": "1"}, (READ["deadletter"], TRIAGE, PAYLOAD)),
    "reveal": ("deadletter/s/reveal/", {"confirmed": "1", "text": "x"}, (READ["deadletter"], PAYLOAD)),
    "reveal-parked": ("parkedjob/s/reveal/", {"confirmed": "1", "text": "x"}, (READ["parkedjob"], PAYLOAD)),
    "free": ("parkedjob/s/free/", {"confirmed": "1", "text": "x"}, (READ["parkedjob"], TRIAGE)),
    "release": ("resourcelease/s/release/", {"confirmed": "1", "text": "x"}, (READ["resourcelease"], TRIAGE)),
    "note-group": ("lettergroup/g/note/", {"text": "x"}, (READ["lettergroup"], TRIAGE)),
}
NEEDS = [(name, permission) for name, (_, _, permissions) in POSTS.items() for permission in permissions]
TOKENS = {"one": ONE, "many": SIGNED}


def everything(store: DjangoStore) -> Any:
    letters = {letter.submission: letter for letter in store.letters()}
    told = [store.history(submission=name) for name in "st"] + [store.history(group_id="g")]
    return letters, told, store.rows(), store.leases()


def post(visitor: Client, name: str) -> Any:
    path, values, _ = POSTS[name]
    if "letters" in values:
        values = {**values, "letters": TOKENS[values["letters"]]()}
    return visitor.post(f"{BASE}/{path}", values)


@pytest.fixture
def records(put: Put) -> None:
    put(*failed("s", group_id="g"), *failed("t", group_id="g"), group("g"), row(), lease())


@pytest.mark.parametrize(("name", "permission"), NEEDS)
def test_each_permission_is_needed(
    visitor: Client, store: DjangoStore, shop: Celery, records: None, name: str, permission: str
) -> None:
    before = everything(store)
    visitors.welcome([each for each in visitors.ALL if each != permission])
    assert post(visitor, name).status_code == 403
    assert everything(store) == before


@pytest.mark.parametrize("name", [name for name in POSTS if name not in ("abort", "decide-assign")])
def test_those_permissions_are_enough(
    visitor: Client, store: DjangoStore, shop: Celery, records: None, name: str
) -> None:
    visitors.welcome(POSTS[name][2])
    assert post(visitor, name).status_code in (200, 302)


@pytest.mark.parametrize("name", POSTS)
def test_strangers_are_sent_to_the_login(visitor: Client, store: DjangoStore, records: None, name: str) -> None:
    before = everything(store)
    visitors.welcome(None)
    assert post(visitor, name)["Location"].startswith("/admin/login/")
    assert everything(store) == before


def test_buttons_that_one_may_not_press_are_there_and_name_the_permission(visitor: Client, records: None) -> None:
    visitors.welcome(READS)
    pages = {
        "letter": (f"{LETTERS}s/change/", ["Note", "Discard", "Assign", "Dry-run"], [TRIAGE, REPLAY, DRY_RUN]),
        "parked": (f"{BASE}/parkedjob/s/change/", ["Free it before its time"], [TRIAGE]),
        "group": (f"{BASE}/lettergroup/g/change/", ["Note", "Go on with all of them"], [TRIAGE, REPLAY]),
        "list": (LETTERS, ["Go on with the selected", "Go on with all that match"], [TRIAGE, REPLAY]),
    }
    for path, labels, permissions in pages.values():
        page = seen(visitor, path)
        assert all(buttons(page)[label].disabled for label in labels)
        for permission in permissions:
            assert permission in text_of(page.content.decode())


def test_who_may_do_nothing_can_select_nothing(visitor: Client, records: None) -> None:
    assert 'class="action-select"' in seen(visitor, LETTERS).content.decode()
    visitors.welcome(READS)
    assert 'class="action-select"' not in seen(visitor, LETTERS).content.decode()


def test_editing_needs_the_payload_to_be_seen(visitor: Client, records: None) -> None:
    visitors.welcome([each for each in visitors.ALL if each != PAYLOAD])
    assert visitor.get(f"{LETTERS}s/edit/").status_code == 403
    page = seen(visitor).content.decode()
    assert f"{LETTERS}s/edit/" not in page
    assert f"To edit the payload you need the permission “{PAYLOAD}”." in text_of(page)
    assert "Reveal the payload" not in page


def test_forking_needs_the_payload_to_be_seen(visitor: Client, records: None) -> None:
    visitors.welcome([each for each in visitors.ALL if each != PAYLOAD])
    assert visitor.get(f"{LETTERS}s/fork/").status_code == 403
    page = seen(visitor).content.decode()
    assert f"{LETTERS}s/fork/" not in page
    assert f"To fork you need the permission “{PAYLOAD}”." in text_of(page)
