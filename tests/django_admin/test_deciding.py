"""Decisions about one letter and about many: by the store, in somebody's name, with one result for each."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from celery_replay.dead_letters import Decision
from celery_replay.states import LetterState, Verb
from django_celery_replay.admin import batches, frozen
from django_celery_replay.store import DjangoStore
from tests.django_admin import visitors
from tests.django_admin.builders import NOW, failed, group, letter
from tests.django_admin.conftest import Put
from tests.django_admin.forms import buttons, press
from tests.django_admin.markup import text_of

BASE = "/admin/django_celery_replay"
LETTERS = f"{BASE}/deadletter/"
every_vendor = pytest.mark.parametrize(
    ("database_url", "ledger_url"),
    [("sqlite_url", ""), ("postgres_dsn", ""), ("mariadb_url", ""), ("sqlite_url", "redis_url")],
    indirect=True,
    ids=["sqlite", "postgresql", "mariadb", "journal"],
)


def told(store: DjangoStore, submission: str = "s") -> list[tuple[str, str, str]]:
    return [(str(e.verb), e.actor, e.text) for e in store.history(submission=submission)]


def state(store: DjangoStore, submission: str = "s") -> LetterState:
    found = store.letter(submission)
    assert found is not None
    return found.state


def seen(visitor: Client, path: str = f"{LETTERS}s/change/") -> Any:
    response = visitor.get(path)
    assert response.status_code == 200, response
    return response


def choose(visitor: Client, action: str, *selected: str, path: str = LETTERS) -> Any:
    """Choose an action of the list, for what is selected or for all that match."""
    beginning = f"Go on with {'the selected' if selected else 'all that match'}"
    label = next(name for name in buttons(seen(visitor, path)) if name.startswith(beginning))
    return press(visitor, seen(visitor, path), label, action=action, _selected_action=list(selected))


@every_vendor
@pytest.mark.parametrize(
    ("label", "verb", "state_after"),
    [
        ("Note", "noted", LetterState.OPEN),
        ("Investigate", "investigated", LetterState.INVESTIGATING),
        ("Quarantine", "quarantined", LetterState.QUARANTINED),
        ("Discard", "discarded", LetterState.DISCARDED),
        ("Assign to me", "assigned", LetterState.OPEN),
    ],
)
def test_a_button_decides_in_the_visitors_name(
    put: Put, visitor: Client, store: DjangoStore, label: str, verb: str, state_after: LetterState
) -> None:
    put(*failed())
    after = press(visitor, seen(visitor), label, text="the bank is down")
    assert (state(store), told(store)) == (state_after, [(verb, "ann", "the bank is down")])
    text = text_of(after.content.decode())
    assert f"{verb.capitalize()}." in text
    assert f"{verb} ann the bank is down" in text


def test_a_reason_is_asked_for_where_it_is_missing(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(*failed())
    asked = press(visitor, seen(visitor), "Discard")
    assert "This field is required." in text_of(asked.content.decode())
    assert state(store) is LetterState.OPEN
    press(visitor, asked, "Discard", text="a test")
    assert told(store) == [("discarded", "ann", "a test")]


def test_buttons_that_the_state_does_not_allow_can_not_be_pressed(put: Put, visitor: Client) -> None:
    put(letter(state=LetterState.DISCARDED))
    pressable = {name for name, button in buttons(seen(visitor)).items() if not button.disabled}
    assert pressable >= {"Note", "Open again", "Assign", "Assign to me"}
    assert not pressable & {"Investigate", "Quarantine", "Discard", "Replay…"}


def test_what_changed_since_the_page_was_opened_is_not_decided_about(
    put: Put, visitor: Client, store: DjangoStore
) -> None:
    put(*failed())
    page = seen(visitor)
    store.decide("s", Decision(verb=Verb.INVESTIGATED, actor="bob"))
    after = press(visitor, page, "Discard", text="a test")
    assert state(store) is LetterState.INVESTIGATING
    assert "The letter changed since you looked at it" in text_of(after.content.decode())


def test_a_note_is_taken_whatever_happened_meanwhile(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(*failed())
    page = seen(visitor)
    store.decide("s", Decision(verb=Verb.INVESTIGATED, actor="bob"))
    press(visitor, page, "Note", text="I called the bank")
    assert told(store)[-1] == ("noted", "ann", "I called the bank")


@every_vendor
def test_a_selection_is_decided_about_with_a_result_for_each(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(*failed("a"), *failed("b", state=LetterState.RESOLVED), *failed("c"), *failed("d"))
    asked = choose(visitor, "discard", "a", "b", "c")
    text = text_of(asked.content.decode())
    assert "Discard: 3 dead letters" in text
    assert "✓ resolved 1 left out: their state does not allow it" in text
    after = press(visitor, asked, "Discard", text="tests")
    text = text_of(after.content.decode())
    assert "1 ↷ left out 2 ✓ done" in text
    assert "it is resolved, and must be open or investigating or quarantined for that" in text
    assert [str(state(store, name)) for name in "abcd"] == ["discarded", "resolved", "discarded", "open"]
    again = visitor.get(after.request["PATH_INFO"])
    assert "1 ↷ left out 2 ✓ done" in text_of(again.content.decode())


def test_a_form_that_is_sent_twice_is_one_command(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(*failed("a"), *failed("b"))
    asked = choose(visitor, "note", "a", "b")
    first = press(visitor, asked, "Note", text="once")
    second = press(visitor, asked, "Note", text="once")
    assert first.request["PATH_INFO"] == second.request["PATH_INFO"]
    assert told(store, "a") == [("noted", "ann", "once")]


def test_what_one_request_has_no_time_for_follows_with_the_next(
    put: Put, visitor: Client, store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(*failed("a"), *failed("b"))
    monkeypatch.setattr(batches, "PATIENCE_S", 0)
    page = press(visitor, choose(visitor, "discard", "a", "b"), "Discard", text="tests")
    assert "1 of 2 are done. Press again to go on with the others." in text_of(page.content.decode())
    assert "2 ✓ done" in text_of(press(visitor, page, "Discard").content.decode())
    assert told(store, "a") == told(store, "b") == [("discarded", "ann", "tests")]


def test_all_that_match_the_filter_are_decided_about_and_nothing_else(
    put: Put, visitor: Client, store: DjangoStore
) -> None:
    put(*failed("a"), *failed("b"), *failed("c", operation="shop.other"))
    asked = choose(visitor, "quarantine", path=f"{LETTERS}?operation=shop.ship")
    put_later = [*failed("d")]
    with store._unit() as unit:
        for record in put_later:
            unit.put(record)
    press(visitor, asked, "Quarantine")
    assert [str(state(store, name)) for name in "abcd"] == ["quarantined", "quarantined", "open", "open"]


def test_one_command_is_bounded_and_says_so(put: Put, visitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "BOUND", 2)
    put(*(record for n, name in enumerate("abc") for record in failed(name, last_failed=NOW - n)))
    text = text_of(choose(visitor, "quarantine").content.decode())
    assert "Quarantine: 2 dead letters" in text
    assert "There are more: one command is about 2 at most, here the newest." in text


def test_a_list_says_how_many_one_command_takes(put: Put, visitor: Client) -> None:
    put(*(letter(f"s{n:03}") for n in range(101)))
    assert "Go on with all that match, 1,000 at most" in buttons(seen(visitor, LETTERS))


def test_nothing_chosen_is_said(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(*failed())
    page = seen(visitor, LETTERS)
    for values, said in (
        ({"action": "discard"}, "No dead letter was chosen."),
        ({"action": ""}, "Choose what is to be done first."),
        ({"action": "delete_selected", "_selected_action": ["s"]}, "Choose what is to be done first."),
    ):
        assert said in text_of(press(visitor, page, "Go on with the selected", **values).content.decode())
    assert told(store) == []


def test_a_groups_unresolved_letters_are_decided_about(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(
        group("g", unresolved=2),
        *failed("a", group_id="g"),
        *failed("b", group_id="g", state=LetterState.RESOLVED),
        *failed("c", group_id="other"),
    )
    page = seen(visitor, f"{BASE}/lettergroup/g/change/")
    press(visitor, press(visitor, page, "Go on with all of them", action="investigate"), "Investigate")
    assert [str(state(store, name)) for name in "abc"] == ["investigating", "resolved", "open"]


def test_a_group_has_notes(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(group("g"))
    page = seen(visitor, f"{BASE}/lettergroup/g/change/")
    after = press(visitor, page, "Note", text="an outage of the bank")
    assert "noted ann an outage of the bank" in text_of(after.content.decode())
    press(visitor, page, "Note", text=" ")
    assert len(store.history(group_id="g")) == 1


def test_a_choice_that_nobody_signed_is_refused(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(*failed())
    for token in ("", "x", '["s",0]'):
        values = {"verb": "investigate", "letters": token}
        assert visitor.post(f"{LETTERS}decide/", values).status_code == 400
    signed = frozen.freeze([("s", 0)]).sign()
    assert visitor.post(f"{LETTERS}decide/", {"verb": "explode", "letters": signed}).status_code == 400
    assert told(store) == []


@pytest.mark.parametrize("path", ["decide/", "replay/", "s/reveal/", "operation/x/decide/"])
@pytest.mark.parametrize("method", ["get", "head", "put", "delete"])
def test_nothing_is_decided_by_looking(put: Put, visitor: Client, path: str, method: str) -> None:
    put(*failed())
    assert getattr(visitor, method)(f"{LETTERS}{path}").status_code == 405


def test_forms_of_other_sites_are_refused(put: Put, visitor: Client, store: DjangoStore) -> None:
    put(*failed())
    strict = Client(enforce_csrf_checks=True)
    visitors.welcome(visitors.ALL)
    values = {"verb": "investigate", "letters": frozen.freeze([("s", 0)]).sign()}
    for path in ("decide/", "replay/", "s/reveal/", "s/edit/", ""):
        assert strict.post(f"{LETTERS}{path}", values).status_code == 403
    assert told(store) == []
