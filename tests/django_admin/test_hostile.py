"""What tasks and their callers wrote can do nothing on the pages."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from celery import Celery
from django.test import Client

from celery_replay.states import Verb
from django_celery_replay.admin.frozen import freeze
from django_celery_replay.models import ProcessedJob
from django_celery_replay.store import DjangoStore
from tests.django_admin.builders import attempt, entry, group, holding, job, lease, letter, message, row, step, trace
from tests.django_admin.conftest import Page, Put
from tests.django_admin.markup import tags_of
from tests.django_admin.visitors import KINDS

HOSTILE = [
    "<script>evil()</script>",
    '"><img src=x onerror=evil()>',
    "' onmouseover='evil()",
    "javascript:evil()",
    "{{ evil }}{% evil %}",
    "\u202egpj.exe",
    "a\x00<b>evil",
    "\ud83d<b>evil",
    "␀:\\x3cscript\\x3eevil",
    "line\r\nSet-Cookie: evil",
]


def poisoned(record: Any, text: str, **changes: Any) -> Any:
    """Put a text into every text field."""
    hints = get_type_hints(type(record))
    texts = {f.name: text for f in fields(record) if hints[f.name] in (str, str | None)}
    return type(record)(**{**vars(record), **texts, **changes})


def tags_in(html: str) -> list[str]:
    """Return a page's tags that could do something, after a look at what is in all of them."""
    assert "\u202e" not in html
    assert "\x00" not in html
    for _tag, attributes in tags_of(html):
        assert not {name for name in attributes if name.startswith("on")}
        for name in ("href", "src", "action", "formaction"):
            assert not (attributes.get(name) or "").startswith("javascript:")
    return [tag for tag, _ in tags_of(html) if tag in ("script", "img", "b")]


@pytest.fixture
def inert(page: Page) -> Any:
    """Return what compares a page's tags with those of the same page about harmless records."""

    def inert(path: str) -> list[str]:
        return tags_in(page(path))

    return inert


def records(text: str) -> list[Any]:
    payload = json.dumps({text: text})
    return [
        poisoned(job(claim=None), text, submission="s", claim=None, result=payload, failure=payload),
        poisoned(attempt(), text, submission="s"),
        poisoned(step(), text, scope="s", output=payload),
        poisoned(
            letter(),
            text,
            submission="s",
            message=message(
                [text], {text: text}, headers={text: text}, task={"parameters": [[text, "POSITIONAL_ONLY"]]}
            ),
            edited=message([text, text], {text: [text]}),
        ),
        poisoned(row(), text, submission="s", message=message([text])),
        poisoned(group(), text, group_id="s"),
        poisoned(lease(), text, resource="s", submission="s"),
        poisoned(holding(), text, resource="s", submission="s"),
        *(
            poisoned(entry(), text, entry_id=f"e{n}", details=json.dumps({"replay": text, "task_id": text}), **about)
            for n, about in enumerate(
                (
                    {"submission": "s", "group_id": "s", "operation_id": "op", "verb": Verb.REPLAYED},
                    {"submission": "s", "group_id": "s", "operation_id": "op", "verb": Verb.FAILED_AGAIN},
                    {"submission": "s", "group_id": "s"},
                )
            )
        ),
        *of_trials(text),
    ]


def of_trials(text: str) -> list[Any]:
    """Build the history of dry runs that tell nothing but this."""
    moment = {"what": text, "detail": text, "step": text}
    row = dict.fromkeys(("state", "record", "field", "before", "after"), text)
    side = {"outcome": text, "failure": {"type": text, "message": text}, "result": {text: text}}
    kept = {
        **dict.fromkeys(("mode", "ends", "said", "sandbox", "code", "summed"), text),
        "then": side,
        "now": side,
        "steps": [{"then": text, "now": text + "2", "same": False}, text, None],
        "blocked": [moment, text, 7],
        "state": [row, text],
        "state_differs": [row, {text: text}],
        **{name: [text, {text: text}, None] for name in ("published", "left_running", "unlike")},
        "began_as_then": False,
        "surroundings": {text: text, "mail": {text: [text]}},
        "output": {"stdout": text, "stderr": text},
    }
    names = json.dumps({"mode": "fork", "changed": [text], "varied": [text]})
    return [
        poisoned(
            entry(), text, entry_id=f"{of}-{name}-{verb}", submission=name, operation_id=of, verb=verb, details=details
        )
        for of, name in (("one", "s"), ("both", "s"), ("both", "t"))
        for verb, details in ((Verb.TRIAL_WANTED, names), (Verb.TRIAL_BEGUN, "{}"), (Verb.TRIED, json.dumps(kept)))
    ]


PAGES = [f"{kind}/{rest}" for kind in KINDS for rest in ("", "s/change/")]
PAGES += ["deadletter/operation/op/", "deadletter/s/edit/", "deadletter/s/fork/"]
PAGES += ["deadletter/s/trial/one/", "deadletter/trials/both/"]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_is_only_text(put: Put, inert: Any, text: str) -> None:
    put(*records("harmless"))
    harmless = [inert(path) for path in PAGES]
    put(*records(text))
    assert [inert(path) for path in PAGES] == harmless


FORMS = {
    "reveal": ("deadletter/s/reveal/", {"confirmed": "1"}),
    "reveal-parked": ("parkedjob/s/reveal/", {"confirmed": "1"}),
    "free": ("parkedjob/s/free/", {}),
    "release": ("resourcelease/s/release/", {}),
    "decide": ("deadletter/decide/", {"verb": "discard"}),
    "note": ("deadletter/decide/", {"verb": "note"}),
    "replay": ("deadletter/replay/", {"looked": "1"}),
    "edit": ("deadletter/s/edit/", {"look": "1"}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_in_forms_is_only_text(put: Put, visitor: Client, shop: Celery, form: str, text: str) -> None:
    # No browser sends half of a surrogate pair.
    typed = "x" if "\ud83d" in text else text
    path, values = FORMS[form]

    def tags(text: str, typed: str) -> list[str]:
        put(*records(text))
        revision = {"letters": freeze([("s", 0)]).sign(), "args": json.dumps([typed]), "kwargs": typed, **values}
        written = {"text": typed, "reason": typed, "unknown": typed, "rate": typed, "assignee": typed}
        response = visitor.post(f"/admin/django_celery_replay/{path}", {**written, **revision}, follow=True)
        assert response.status_code == 200
        # What was typed stands in its field as it was typed.
        return tags_in(response.content.decode().replace("\u202e", "").replace("\x00", ""))

    assert tags(text, typed) == tags("harmless", "harmless")


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_events_are_only_text(put: Put, inert: Any, text: str) -> None:
    put(job(), trace("s", "n", {"name": "harmless"}))
    harmless = inert("processedjob/s/change/")
    event = {"name": text, "domain": True, "step": text, "attributes": {text: {text: text}}}
    put(job(), trace("s", "n", event))
    assert inert("processedjob/s/change/") == harmless


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_names_have_pages_and_are_found(put: Put, page: Page, text: str) -> None:
    put(poisoned(job(claim=None), text, claim=None, result=None, failure=None))
    # No browser sends half of a surrogate pair.
    html = page("processedjob/", q="" if "\ud83d" in text else text)
    assert "1 in all" in html
    links = [
        a["href"] or ""
        for tag, a in tags_of(html)
        if tag == "a" and "/processedjob/" in (a.get("href") or "") and "/change/" in (a["href"] or "")
    ]
    assert len(links) == 1
    assert "Identity" in page(links[0].removeprefix("/admin/django_celery_replay/"))


def test_escaped_text_that_was_cut_is_shown_as_it_is(put: Put, page: Page) -> None:
    put(letter(error_message="\x00" * 1_000))
    assert "\\x00\\x00" in page("deadletter/")


def test_words_of_a_newer_version_are_listed(put: Put, page: Page, store: DjangoStore) -> None:
    put(job(), letter())
    ProcessedJob.objects.using(store.alias).update(status="half_<b>done</b>")
    assert "half &lt;b&gt;done&lt;/b&gt;" in page("processedjob/")
