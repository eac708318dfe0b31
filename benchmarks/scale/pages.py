"""The admin's pages, as its reader gets them: from the request to the last byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import cycle, repeat
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.db.models import Model
from django.test import Client
from django.test.utils import setup_test_environment
from django.urls import reverse

from celery_replay.states import Effect, LetterState, Reason
from celery_replay.stores.base import Store
from django_celery_replay import models

from .questions import DAY, LETTER_MS, LIST_MS, Question


def pages(store: Store) -> list[Question]:
    """Ask for lists and records."""
    setup_test_environment()
    client = Client()
    user, _ = get_user_model().objects.get_or_create(username="reader", is_superuser=True, is_staff=True)
    client.force_login(user)
    newest, some = store.letters(1)[0], store.letters(50)
    groups = store.groups(50)
    largest = max(store.groups(10_000), key=lambda each: each.filed)
    middle = newest.last_failed - 45 * DAY
    looks = {
        "": {},
        ", a page from the middle": {"p": f"{middle},x"},
        " in state open": {"state": str(LetterState.OPEN)},
        " in a rare state": {"state": str(LetterState.REPLAY_PENDING)},
        " of a task": {"operation": largest.operation},
        " of the largest group": {"group_id": largest.group_id},
        " for a rare reason": {"reason": str(Reason.RETRY_NEVER_CAME)},
        " for a reason that none has": {"reason": str(Reason.REVOKED)},
        " by effect": {"effect": str(Effect.PROVEN)},
        " of somebody who has none": {"assignee": "nobody's name"},
        ", searched by key": {"q": next(each.key for each in some if each.key)},
        ", searched by a task id": {"q": newest.task_id},
        ", searched in vain": {"q": "nothing"},
    }
    of_groups = {name: look for name, look in looks.items() if name in ("", " of a task", " for a rare reason")}
    return [
        *_lists(client, models.DeadLetter, "letters", looks),
        *_lists(client, models.LetterGroup, "groups", {**of_groups, ", decided ones too": {"show": "all"}}),
        *_lists(client, models.ProcessedJob, "jobs", {"": {}}),
        *_records(client, models.DeadLetter, "one letter", [each.submission for each in some]),
        *_records(client, models.ProcessedJob, "one job", [each.submission for each in some]),
        *_records(client, models.LetterGroup, "one group", [each.group_id for each in groups]),
        *_records(client, models.LetterGroup, "the largest group", [largest.group_id]),
    ]


def _lists(client: Client, model: type[Model], what: str, looks: Mapping[str, dict[str, str]]) -> Iterator[Question]:
    """Ask for those looks that the list has filters for."""
    if not admin.site.is_registered(model):
        return
    filters = {each.parameter_name for each in admin.site.get_model_admin(model).list_filter} | {"p", "q"}
    path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    for name, query in looks.items():
        if query.keys() <= filters:
            ask = partial(_get, client, repeat(path), query)
            yield Question(name=f"admin: {what}{name}", ask=ask, most_ms=LIST_MS)


def _records(client: Client, model: type[Model], what: str, keys: Iterable[str]) -> Iterator[Question]:
    if not admin.site.is_registered(model):
        return
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"
    paths = cycle([reverse(name, args=[quote(key)]) for key in keys])
    yield Question(name=f"admin: {what}", ask=partial(_get, client, paths, {}), most_ms=LETTER_MS)


def _get(client: Client, paths: Iterator[str], query: dict[str, Any]) -> None:
    path = next(paths)
    response = client.get(path, query)
    assert response.status_code == 200, (path, query, response)
