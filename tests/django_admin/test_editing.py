"""A payload is mended on a page: tried, looked at beside the original, saved; its secrets are not seen."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from celery import Celery
from django.test import Client

from celery_replay.dead_letters import Decision
from celery_replay.replay import message as messages
from celery_replay.states import LetterState, Verb
from django_celery_replay.store import DjangoStore
from tests.django_admin.builders import failed, message
from tests.django_admin.conftest import Put
from tests.django_admin.forms import buttons, press
from tests.django_admin.markup import text_of
from tests.django_admin.test_deciding import LETTERS, every_vendor, seen

EDIT = f"{LETTERS}s/edit/"
LOOK, SAVE = "Look at the difference", "Save the mended payload"


def payload(store: DjangoStore) -> Any:
    found = store.letter("s")
    assert found is not None
    return None if found.edited is None else messages.read(found.edited)


def text(response: Any) -> str:
    return text_of(response.content.decode())


@every_vendor
def test_a_payload_is_mended(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failed())
    page = seen(visitor, EDIT)
    assert "4242" not in page.content.decode()
    looked = press(visitor, page, LOOK, kwargs='{"note": "sturdy"}', text="it was the wrong note")
    for said in ('- removed "note": "fragile"', '+ added "note": "sturdy"', 'card_token "[redacted]" note "sturdy"'):
        assert said in text(looked)
    assert payload(store) is None

    after = press(visitor, looked, SAVE)

    assert (payload(store).args, payload(store).kwargs) == ((7, "4242"), {"note": "sturdy"})
    assert '+ added "note": "sturdy"' in text(after)
    assert [(e.verb, e.actor, e.text) for e in store.history(submission="s")] == [
        (Verb.EDITED, "ann", "it was the wrong note")
    ]
    assert "4242" not in after.content.decode()


def test_one_can_go_on_editing_after_looking(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failed())
    looked = press(visitor, seen(visitor, EDIT), LOOK, args="[8]", text="x")
    back = press(visitor, looked, "Go on editing")
    assert buttons(back)[LOOK].form.fields["args"] == ["[8]"]
    press(visitor, press(visitor, back, LOOK, args="[9]"), SAVE)
    assert payload(store).args == (9,)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"args": "[7,"}, "args is no JSON"),
        ({"kwargs": "[]"}, "kwargs must be a JSON object"),
        ({"kwargs": '{"colour": 1}'}, "got an unexpected keyword argument 'colour'"),
        ({"args": "[]"}, "missing a required argument: 'order'"),
        ({"kwargs": '{"note": "[redacted]"}'}, "stands where something else was hidden"),
        ({"text": ""}, "This field is required."),
    ],
)
def test_what_the_task_does_not_take_is_refused_with_the_reason(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery, values: dict[str, str], said: str
) -> None:
    put(*failed())
    page = press(visitor, seen(visitor, EDIT), LOOK, **{"text": "x", **values})
    assert said in text(page)
    assert SAVE not in buttons(page)
    fields = buttons(seen(visitor, EDIT))[LOOK].form.fields
    visitor.post(EDIT, {**{name: value[0] for name, value in fields.items()}, "text": "x", **values, "save": "1"})
    assert payload(store) is None


def test_the_payload_of_a_task_that_is_not_known_here_is_not_mended(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*failed(operation="shop.gone"))
    page = press(visitor, seen(visitor, EDIT), LOOK, args="[1, 2, 3, 4]", text="x")
    assert "task shop.gone is not registered here: nobody can say what it takes" in text(page)
    assert SAVE not in buttons(page)


def test_what_changed_since_the_page_was_opened_is_not_overwritten(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*failed())
    looked = press(visitor, seen(visitor, EDIT), LOOK, args="[8]", text="x")
    store.decide("s", Decision(verb=Verb.ASSIGNED, actor="bob", assignee="bob"))
    after = press(visitor, looked, SAVE)
    assert "The letter changed since this page was opened" in text(after)
    assert buttons(after)[LOOK].form.fields["args"] == ["[8]"]
    assert payload(store) is None


def test_the_original_comes_back(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failed())
    press(visitor, press(visitor, seen(visitor, EDIT), LOOK, args="[8]", text="x"), SAVE)
    after = press(visitor, seen(visitor, EDIT), "Back to the original")
    assert "Its replay sends the original payload." in text(after)
    assert payload(store) is None


def test_a_changed_secret_is_told_of_and_not_shown(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failed())
    looked = press(visitor, seen(visitor, EDIT), LOOK, args='[7, "9999"]', text="x")
    assert "They differ in what is not shown here: in a redacted value" in text(looked)
    after = press(visitor, looked, SAVE)
    assert payload(store).args == (7, "9999")
    assert "9999" not in after.content.decode()


def test_a_form_of_one_letter_does_not_save_another(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*failed("a"), *failed("s"))
    fields = buttons(seen(visitor, f"{LETTERS}a/edit/"))[LOOK].form.fields
    values = {name: value[0] for name, value in fields.items()}
    assert visitor.post(EDIT, {**values, "text": "x", "save": "1"}).status_code == 400


def test_a_payload_that_is_not_json_has_no_form(put: Put, visitor: Client) -> None:
    put(*failed(message=message(body=pickle.dumps(1), content_type="application/x-python-serialize")))
    page = seen(visitor, EDIT)
    assert "only JSON is decoded" in text(page)
    assert LOOK not in buttons(page)
    put(*failed(message=message(["x" * 600_000])))
    assert "It is too large to be edited on a page." in text(seen(visitor, EDIT))


def test_what_can_not_be_seen_is_written_as_escapes_and_comes_back_the_same(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    odd = ["\u202e<b>", "\ud83d", "a\x00b", "\u2028", "</textarea><script>", "\r\n", "\x7f"]
    body = json.dumps([[7], {"note": odd}, {}]).encode()
    put(*failed(message=message(body=body)))
    page = seen(visitor, EDIT)
    assert "\u202e" not in page.content.decode()
    looked = press(visitor, page, LOOK, args="[8]", text="x")
    press(visitor, looked, SAVE)
    assert payload(store).kwargs == {"note": odd}


def test_a_letter_that_is_on_its_way_is_not_edited(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failed(state=LetterState.REPLAY_PENDING, replay="r"))
    assert EDIT not in seen(visitor).content.decode()
    after = press(visitor, press(visitor, seen(visitor, EDIT), LOOK, args="[8]", text="x"), SAVE)
    assert "It is being replayed already, as r" in text(after)
    assert payload(store) is None
