"""The admin's pages, as its reader gets them: from the request to the last byte."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import cycle, repeat

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client
from django.test.utils import setup_test_environment

from celery_replay.states import Reason
from celery_replay.stores.base import Store
from django_celery_replay import models

from .questions import DAY, LETTER_MS, LIST_MS, Question

ROOT = "/admin/django_celery_replay"


def pages(store: Store) -> list[Question]:
    """Ask for lists and records."""
    setup_test_environment()
    client = Client()
    user, _ = get_user_model().objects.get_or_create(username="reader", is_superuser=True, is_staff=True)
    client.force_login(user)
    newest = store.letters(1)[0]
    some = store.letters(50)
    group = max(store.groups(10_000), key=lambda each: each.filed)
    middle = f"{newest.last_failed - 45 * DAY},x"
    lists: dict[str, tuple[str, dict[str, str]]] = {
        "admin: letters": ("deadletter/", {}),
        "admin: letters, a page from the middle": ("deadletter/", {"p": middle}),
        "admin: letters in state open": ("deadletter/", {"state": "open"}),
        "admin: letters in a rare state": ("deadletter/", {"state": "replay_pending"}),
        "admin: letters for a rare reason": ("deadletter/", {"reason": str(Reason.RETRY_NEVER_CAME)}),
        "admin: letters for a reason that none has": ("deadletter/", {"reason": str(Reason.REVOKED)}),
        "admin: letters, searched by key": ("deadletter/", {"q": next(each.key for each in some if each.key)}),
        "admin: letters, searched by a task id": ("deadletter/", {"q": newest.task_id}),
        "admin: letters, searched in vain": ("deadletter/", {"q": "nothing"}),
        "admin: jobs": ("processedjob/", {}),
    }
    records: dict[str, Iterator[str]] = {
        "admin: one letter": cycle(f"deadletter/{each.submission}/change/" for each in some),
        "admin: one job": cycle(f"processedjob/{each.submission}/change/" for each in some),
    }
    if admin.site.is_registered(models.LetterGroup):
        lists["admin: groups"] = ("lettergroup/", {})
        lists["admin: groups of a task"] = ("lettergroup/", {"operation": group.operation})
        records["admin: one group"] = cycle([f"lettergroup/{group.group_id.replace(':', '_3A')}/change/"])

    def get(paths: Iterator[str], query: dict[str, str]) -> None:
        response = client.get(f"{ROOT}/{next(paths)}", query)
        assert response.status_code == 200, (query, response)

    return [
        *(
            Question(name=name, ask=partial(get, repeat(path), query), most_ms=LIST_MS)
            for name, (path, query) in lists.items()
        ),
        *(Question(name=name, ask=partial(get, paths, {}), most_ms=LETTER_MS) for name, paths in records.items()),
    ]
