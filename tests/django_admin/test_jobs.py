"""What the pages of jobs show."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from celery_replay.clock import SECOND
from celery_replay.states import Outcome
from tests.django_admin.builders import NOW, attempt, job, letter, row, step, trace
from tests.django_admin.conftest import Page, Put
from tests.django_admin.markup import tags_of, text_of


def test_a_list_names_what_ran_and_how_it_ended(put: Put, page: Page) -> None:
    put(job(key="order:1", attempts=3, worker="web-3"))
    text = text_of(page("processedjob/"))
    assert "shop.ship ✓ succeeded order:1 2023-11-14 22:13:20 1.50 s 3 web-3" in text
    assert "1 in all" in text


def test_times_are_the_readers_own(put: Put, page: Page, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    put(job())
    assert "2023-11-15 07:13:20.000 JST" in text_of(page("processedjob/s/change/"))


def test_an_open_job_does_not_look_like_an_open_letter(put: Put, page: Page) -> None:
    put(job(status=Outcome.OPEN, closed_at=None), letter())
    assert "▶ open" in text_of(page("processedjob/"))
    assert "✗ open" in text_of(page("deadletter/"))


def test_the_newest_come_first_and_older_ones_follow(put: Put, page: Page) -> None:
    # Several began at the same time, across the border between two pages.
    put(*(job(f"s{n:03}", key=f"key-{n:03}", started_at=NOW - n // 50 * SECOND) for n in range(250)))
    seen: list[str] = []
    path, counts = "", []
    while path is not None:
        html = page(f"processedjob/{path}")
        seen += [word for word in text_of(html).split() if word.startswith("key-")]
        counts.append(len(seen))
        path = next((a["href"] for tag, a in tags_of(html) if tag == "a" and a.get("rel") == "next"), None)  # type: ignore[assignment]
    assert counts == [100, 200, 250]
    assert sorted(seen) == [f"key-{n:03}" for n in range(250)]
    assert [n // 50 for n in map(int, (word[4:] for word in seen))] == sorted(n // 50 for n in range(250))


def test_a_place_that_means_nothing_is_the_beginning(put: Put, page: Page) -> None:
    put(job())
    for place in ("2", "x", "9" * 40 + ",s", "1,\x00", ","):
        assert "shop.ship" in text_of(page("processedjob/", p=place))


def test_a_job_is_found_by_all_that_names_it(put: Put, page: Page) -> None:
    put(job("s-one", key="order:1"), job("s-two", key="order:2"))
    for term in ("s-one", "task-s-one", "trace-s-o", "order:1", "s-o"):
        text = text_of(page("processedjob/", q=term))
        assert "order:1" in text
        assert "order:2" not in text


@pytest.mark.parametrize("database_url", ["sqlite_url", "postgres_dsn"], indirect=True)
@pytest.mark.parametrize("term", ["order:", "caf\u00e9", "\ud7ff", "\uffff", "\U0010ffff"])
def test_a_search_finds_what_goes_on_with_any_character(put: Put, page: Page, term: str) -> None:
    found = [term, f"{term}1", f"{term}\U0001f511"]
    others = ["another", term[:-1], "\U0010fffe"]
    put(*(job(f"key-{n}", key=key) for n, key in enumerate([*found, *others])))
    html = page("processedjob/", q=term)
    assert [f"key-{n}/" in html for n in range(len(found))] == [True] * len(found)
    assert [f"key-{n + len(found)}/" in html for n in range(len(others))] == [False] * len(others)
    assert "0 in all" in text_of(page("processedjob/", q="one"))


def test_filters_keep_what_was_chosen(put: Put, page: Page) -> None:
    put(job("a", key="key-a"), job("b", key="key-b", status=Outcome.FAILED, operation="shop.charge"))
    for query in ({"status": "failed"}, {"operation": "shop.charge"}):
        text = text_of(page("processedjob/", **query))
        assert "key-b" in text
        assert "key-a" not in text
    assert "0 in all" in text_of(page("processedjob/", since="day"))
    assert "0 in all" in text_of(page("processedjob/", operation="a\x00"))


def test_a_job_shows_its_attempts_steps_and_relations(put: Put, page: Page) -> None:
    put(
        job(key="order:1", claim="c1", causation_id="parent", origin="first", letter=True),
        attempt(nonce="n1", outcome=Outcome.RETRY_SCHEDULED, started_at=NOW - SECOND),
        attempt(nonce="n2", outcome=Outcome.LOST, note="killed"),
        step("c1", "charge:1"),
        letter(),
        row(),
    )
    html = page("processedjob/s/change/")
    text = text_of(html)
    table = text[text.index("Attempts that ended") :]
    assert table.index("↻ retry scheduled") < table.index("✗ lost")
    for fact in ("killed", "charge card charge:1 ✓ settled", "Fence 1", "Acknowledged late"):
        assert fact in text
    links = {a.get("href") for tag, a in tags_of(html) if tag == "a"}
    for path in ("processedjob/parent", "processedjob/first", "deadletter/s", "parkedjob/s"):
        assert f"/admin/django_celery_replay/{path}/change/" in links


def test_the_failure_is_shown_and_its_secrets_are_not(put: Put, page: Page) -> None:
    put(job(status=Outcome.FAILED, failure='{"type": "E", "message": "password=hunter2", "reason": "exception"}'))
    text = text_of(page("processedjob/s/change/"))
    assert "Message password=[redacted]" in text
    assert "hunter2" not in text


def test_the_timeline_tells_attempts_failures_and_own_events_apart(put: Put, page: Page) -> None:
    put(
        job(published_at=NOW - SECOND),
        attempt(nonce="n2", started_at=NOW + 30 * SECOND, ended_at=NOW + 33 * SECOND),
        trace("s", "n1", {"name": "started"}, {"name": "timed_out", "status": "fail", "attributes": {"limit": 5}}),
        trace(
            "s",
            "n2",
            {"name": "started"},
            {"name": "order_loaded", "domain": True, "attributes": {"version": 7, "password": "hunter2"}},
            {"name": "begun", "step": "charge", "side_effect": True, "attributes": {"body": "y" * 3000}},
            {"name": "succeeded"},
            at=NOW + 30 * SECOND,
        ),
    )
    text = text_of(page("processedjob/s/change/"))
    for line in (
        "+0.0 ms 2023-11-14 22:13:19.000 UTC · published",
        "+2.00 s 2023-11-14 22:13:21.000 UTC #1 ✗ timed_out failed limit 5",
        "+32.00 s 2023-11-14 22:13:51.000 UTC #2 ◆ order_loaded recorded by the task version 7 password [redacted]",
        "#2 ⇢ charge: begun side effect body",
        "#2 ✓ succeeded",
    ):
        assert line in text
    assert "bytes, kept apart" in text


def test_the_timeline_marks_where_the_job_failed(put: Put, page: Page) -> None:
    put(
        job(status=Outcome.FAILED, nonce="n2"),
        trace("s", "n1", {"name": "retry_scheduled", "status": "fail"}),
        trace("s", "n2", {"name": "refused", "status": "fail"}, {"name": "failed", "status": "fail"}, at=NOW + SECOND),
    )
    text = text_of(page("processedjob/s/change/"))
    assert "✗ retry_scheduled failed" in text
    assert "✗ failed failed here" in text
    assert text.count("failed here") == 1


def test_a_job_without_events_or_attempts_says_so(put: Put, page: Page) -> None:
    put(job(result=None))
    text = text_of(page("processedjob/s/change/"))
    for heading in (
        "Timeline No events",
        "Attempts that ended None.",
        "Side-effect steps None.",
        "Result None is kept.",
    ):
        assert heading in text


def test_a_very_long_trace_is_cut(put: Put, page: Page) -> None:
    put(job(), *(trace("s", f"n{n}", *[{"name": f"event-{n}"}] * 600, at=NOW + n) for n in range(4)))
    text = text_of(page("processedjob/s/change/"))
    assert "The first 1000 events; there may be more." in text
    assert "event-1" in text
    assert "event-2" not in text


def test_what_is_not_there_is_not_found(visitor: Client) -> None:
    for key in ("nothing", "a%00b"):
        assert visitor.get(f"/admin/django_celery_replay/processedjob/{key}/change/").status_code == 404


def test_results_and_outputs_are_redacted(put: Put, page: Page) -> None:
    put(job(result='{"receipt": "R-77", "api_key": "sk-1"}'), step(output='{"card_token": "4242"}'))
    text = text_of(page("processedjob/s/change/"))
    assert 'Result { "receipt": "R-77", "api_key": "[redacted]" }' in text
    assert '{ "card_token": "[redacted]" }' in text
    assert "sk-1" not in text
    assert "4242" not in text


def test_results_that_can_not_be_shown_are_told_of(put: Put, page: Page) -> None:
    for result, said in (
        ("what", "4 characters that are no JSON."),
        (f'"{"x" * 600_000}"', "600,002 characters of JSON"),
    ):
        put(job(result=result))
        assert said in text_of(page("processedjob/s/change/"))
