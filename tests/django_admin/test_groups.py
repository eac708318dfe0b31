"""What the pages of groups show: causes, with counts and trends."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from celery_replay.clock import wall
from celery_replay.stores.units import HOUR
from django_celery_replay.models import UncountedLetter
from django_celery_replay.store import DjangoStore
from tests.django_admin.builders import NOW, entry, group, letter
from tests.django_admin.conftest import Page, Put
from tests.django_admin.markup import tags_of, text_of
from tests.django_admin.test_deciding import every_vendor

PATH = "lettergroup/g/change/"


def test_a_group_is_named_by_its_error_and_its_innermost_own_function(put: Put, page: Page) -> None:
    put(group("g", error_message="order 1042 " + "x" * 5_000, filed=12_345, unresolved=1_234))
    text = text_of(page("lettergroup/"))
    assert "shop.bank.CardRefused in shop/bank.py:charge order 1042 xxx" in text
    assert "1,234 of 12,345" in text
    assert "x" * 200 not in text
    put(group("g", error_type="", frames=""))
    assert "exception no" in text_of(page("lettergroup/"))


def test_groups_without_unresolved_letters_are_shown_where_all_are_asked_for(put: Put, page: Page) -> None:
    put(group("a", operation="orders.a"), group("b", operation="orders.b", unresolved=0))
    assert "1 in all" in text_of(page("lettergroup/"))
    assert "2 in all" in text_of(page("lettergroup/", show="all"))
    assert "1 in all" in text_of(page("lettergroup/", show="all", operation="orders.b"))
    assert "1 in all" in text_of(page("lettergroup/", show="all", q="orders.b"))


def test_a_group_leads_to_its_letters(put: Put, page: Page) -> None:
    put(group("g:1"), letter("a", group_id="g:1"), letter("b", group_id="other"))
    links = [attributes.get("href") or "" for tag, attributes in tags_of(page("lettergroup/")) if tag == "a"]
    address = next(link for link in links if "group_id=" in link)
    text = text_of(page(address.removeprefix("/admin/django_celery_replay/")))
    assert "1 in all" in text


@every_vendor
def test_the_trend_is_of_the_last_24_hours(put: Put, page: Page) -> None:
    now = wall()
    put(*(group("g", filed=count, last_seen=now - hours * HOUR) for hours, count in ((0, 2), (3, 7), (30, 100))))
    for path in ("lettergroup/", PATH):
        html = page(path)
        assert "9 in 24 hours, 7 in the busiest hour, 2 in this one" in text_of(html)
        bars = [attributes for tag, attributes in tags_of(html) if tag == "rect"]
        assert [(bar["x"], bar["height"]) for bar in bars] == [("80", "20"), ("92", "6")]


def test_a_group_says_why_it_is_one(put: Put, page: Page) -> None:
    put(group("g1:abc"), entry("n", group_id="g1:abc", text="an outage"), entry("d", group_id="g1:abc", submission="s"))
    text = text_of(page("lettergroup/g1_3Aabc/change/"))
    why = text[text.index("Why these are one group") :]
    for fact in ("Task shop.ship", "Reason exception", "shop/tasks.py:ship shop/bank.py:charge", "version g1 of the"):
        assert fact in why
    assert text.count("noted ann") == 1


@every_vendor
def test_letters_that_nobody_has_counted_yet_are_counted(
    put: Put, visitor: Client, page: Page, store: DjangoStore
) -> None:
    def uncounted(name: str) -> None:
        values: dict[str, Any] = {**vars(group("g", filed=1, unresolved=1)), "newest": name, "last_seen": NOW + 1}
        UncountedLetter.objects.using(store.alias).create(**values)

    put(group("g", filed=3, unresolved=2))
    uncounted("a")
    assert "3 of 4" in text_of(page("lettergroup/"))
    uncounted("b")
    assert "Unresolved 4 Ever filed 5" in text_of(page(PATH))


@pytest.mark.parametrize("path", ["lettergroup/", PATH])
def test_messages_of_groups_are_redacted(put: Put, page: Page, path: str) -> None:
    put(group("g", error_message="password=hunter2 was wrong"))
    html = page(path)
    assert "password=[redacted]" in html
    assert "hunter2" not in html
