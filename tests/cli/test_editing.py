"""Payloads are mended by name, to what the task takes, and nobody has to see its secrets."""

from __future__ import annotations

import json

import click
import pytest

from celery_replay.replay.message import read
from tests.cli.conftest import kept

BODY = b'[[5], {"password": "hunter2"}, {"chain": [{"task": "next"}]}]'


@pytest.fixture
def one(shop):
    shop.fails("a", kept(BODY))
    return shop


@pytest.fixture
def hands(monkeypatch):
    """Return what somebody saw in their editor; the test says what they make of it."""
    seen = []

    def open_editor(make):
        def edit(text, extension):
            seen.append(text)
            return make(text)

        monkeypatch.setattr(click, "edit", edit)
        return seen

    return open_editor


def sent(shop, name="a"):
    letter = shop.store.letter(name)
    payload = read(letter.edited or letter.message)
    return list(payload.args), dict(payload.kwargs)


def test_an_argument_gets_another_value_and_the_rest_stays(one):
    result = one.types("dlq edit a --set order_id=7")
    assert result.exit_code == 0
    assert "    order_id: 5 → 7\n" in result.stdout
    assert sent(one) == ([7, "hunter2"], {})
    assert read(one.store.letter("a").edited).canvas == {"chain": [{"task": "next"}]}
    assert one.store.letter("a").message == kept(BODY)


def test_the_difference_shows_no_secrets_and_the_history_only_names(one):
    result = one.types("dlq edit a --set", 'password="open sesame"')
    assert 'password: "[redacted]" → "[redacted]"' in result.stdout
    assert "sesame" not in result.output
    (entry,) = one.store.history(submission="a")
    assert json.loads(entry.details) == {"changed": ["password"]}
    (told,) = one.reads("dlq edit a --set", 'password="again"')
    assert told["changed"] == {"password": "[redacted]"}
    assert sent(one) == ([5, "again"], {})


def test_an_argument_is_taken_away(one):
    assert 'password: "[redacted]" → (absent)' in one.types("dlq edit a --unset password").stdout
    assert sent(one) == ([5], {})


def test_the_whole_payload_is_replaced(one):
    one.types("dlq edit a --args [] --kwargs", '{"order_id": 9}')
    assert sent(one) == ([], {"order_id": 9})
    one.types("dlq edit a --args [8] --kwargs {}")
    assert sent(one) == ([8], {})


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("--unset order_id", "missing a required argument"),
        ("--set carrier=1", "no parameter carrier"),
        ("--unset carrier", "no argument carrier"),
        ("--args [1,2,3] --kwargs {}", "too many positional"),
    ],
)
def test_what_the_task_does_not_take_today_is_refused(one, how, said):
    result = one.types(f"dlq edit a {how}")
    assert result.exit_code == 4
    assert said in result.stdout
    assert one.store.letter("a").edited is None


@pytest.mark.parametrize(
    "how",
    ["", "--set order_id", "--set order_id=x", "--args {}", "--kwargs []", "--set order_id=1 --editor", "--args ["],
)
def test_what_is_not_meant_so_is_a_usage_error(one, how):
    assert one.types(f"dlq edit a {how}").exit_code == 2


def test_a_payload_of_a_task_that_is_not_here_is_not_touched(one):
    one.app.tasks.pop("shop.ship")
    result = one.types("dlq edit a --set order_id=7")
    assert (result.exit_code, "not registered" in result.stdout) == (4, True)


def test_a_payload_that_is_no_json_is_told(shop):
    shop.fails("a", kept(b"\x80\x04", "application/x-python-serialize"))
    result = shop.types("dlq edit a --set order_id=7")
    assert (result.exit_code, "only JSON" in result.stdout) == (4, True)


def test_several_are_mended_in_the_same_way(one):
    one.fails("b", kept(b"[[6], {}, {}]"))
    assert one.types("dlq edit --task shop.ship --set order_id=7").exit_code == 0
    assert [sent(one, name)[0][0] for name in ("a", "b")] == [7, 7]


def test_a_look_first_changes_nothing(one):
    assert one.types("dlq edit a --set order_id=7 --dry-run").stdout.splitlines()[0] == "    order_id: 5 → 7"
    assert one.store.letter("a").edited is None


def test_the_original_comes_back(one):
    one.types("dlq edit a --set order_id=7")
    assert one.types("dlq edit a --undo").exit_code == 0
    assert one.store.letter("a").edited is None
    assert [entry.verb for entry in one.store.history(submission="a")] == ["edited"] * 2


def test_in_an_editor_secrets_stay_hidden_and_what_they_are(one, hands):
    seen = hands(lambda text: text.replace("5", "7"))
    one.types("dlq edit a --editor")
    assert json.loads(seen[0]) == {"order_id": 5, "password": "[redacted]"}
    assert sent(one) == ([7, "hunter2"], {})


def test_in_an_editor_a_secret_can_be_written_anew_and_taken_away(one, hands):
    hands(lambda text: text.replace("[redacted]", "new"))
    one.types("dlq edit a --editor")
    assert sent(one) == ([5, "new"], {})
    hands(lambda text: '{"order_id": 5}')
    one.types("dlq edit a --editor")
    assert sent(one) == ([5], {})


def test_what_was_hidden_does_not_become_another_arguments_value(one, hands):
    hands(lambda text: '{"order_id": "[redacted]", "password": "x"}')
    result = one.types("dlq edit a --editor")
    assert (result.exit_code, "write the value" in result.stdout) == (4, True)


def test_an_editor_that_is_left_changes_nothing(one, hands):
    hands(lambda text: None)
    assert one.types("dlq edit a --editor").stdout.split()[0] == "unchanged"
    assert list(one.store.history(submission="a")) == []


def test_hostile_text_is_spelled_out_in_the_editor_and_stays_what_it_is(shop, hands):
    hostile = "\x1b[31m \u202e \x9b2J \U000e0001 ü"
    shop.fails("a", kept(json.dumps([[hostile], {}, {}]).encode()))
    seen = hands(lambda text: text.replace("31m", "32m"))
    shop.types("dlq edit a --editor")
    assert [sign for sign in seen[0] if not sign.isprintable() and sign != "\n"] == []
    assert "ü" in seen[0]
    assert sent(shop)[0] == [hostile.replace("31m", "32m")]


def test_dates_stay_dates(shop, hands):
    body = b'[[{"__type__": "datetime", "__value__": "2026-03-29T12:00:00"}], {}, {}]'
    shop.fails("a", kept(body))
    hands(lambda text: text.replace("12:00", "13:00"))
    shop.types("dlq edit a --editor")
    assert sent(shop)[0][0].isoformat() == "2026-03-29T13:00:00"
