"""Dry runs and forks are asked for, done elsewhere, and shown as diffs; nothing about the letter changes by it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery import Celery
from django.test import Client

from celery_replay.dead_letters import Decision
from celery_replay.dry_run import errand, trials, working
from celery_replay.dry_run.orders import TASK, Order
from celery_replay.exceptions import ErrandFailed
from celery_replay.records import HistoryEntry, evolve
from celery_replay.runtime import runtime_of
from celery_replay.states import Verb
from celery_replay.stores.base import Store
from django_celery_replay.admin import trials as pages
from django_celery_replay.store import DjangoStore
from tests.django_admin import visitors
from tests.django_admin.builders import failed, group, message
from tests.django_admin.conftest import Put
from tests.django_admin.forms import press
from tests.django_admin.markup import tags_of
from tests.django_admin.test_deciding import BASE, LETTERS, choose, every_vendor, seen
from tests.django_admin.test_replaying import letter_of, text
from tests.django_admin.visitors import PAYLOAD


def failing(*names: str, **changes: Any) -> list[Any]:
    """Build failed jobs whose messages a worker could read."""
    parameters = [[name, "POSITIONAL_OR_KEYWORD", name != "order"] for name in ("order", "card_token", "note")]
    sent = message(
        [7, "4242"],
        {"note": "fragile"},
        headers={"id": "task", "retries": 0},
        task={"parameters": parameters, "protection": "steps"},
    )
    failure = json.dumps({"type": "shop.bank.CardRefused", "message": "no", "reason": "exception"})
    found = []
    for name in names or ("s",):
        job, letter = failed(name, **{"message": sent, **changes})
        found += [evolve(job, failure=failure), letter]
    return found


def orders(app: Celery) -> list[Order]:
    """Take the orders from the queue for dry runs."""
    found = []
    with app.connection_for_write() as connection, connection.SimpleQueue("celery-replay") as queue:
        while queue.qsize():
            message = queue.get_nowait()
            assert message.headers["task"] == TASK
            assert "4242" not in str(message.headers)
            found.append(Order.unpack(message.payload[0][0]))
            message.ack()
    return found


def told(store: Store, **about: str) -> list[tuple[Verb, str]]:
    return [(entry.verb, entry.actor) for entry in store.history(**about)]


def kept(store: Store, submission: str = "s") -> Any:
    entries: list[HistoryEntry] = [e for e in store.history(submission=submission) if e.verb is Verb.TRIED]
    return json.loads(entries[-1].details)


@every_vendor
def test_a_worker_is_asked_and_its_answer_is_shown(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failing())
    before = letter_of(store)
    page = press(visitor, seen(visitor), "Dry-run")
    assert "It waits for a worker Asked for at" in text(page)
    assert told(store, submission="s") == [(Verb.TRIAL_WANTED, "ann")]
    assert ("meta", {"http-equiv": "refresh", "content": "3"}) in tags_of(page.content.decode())

    (order,) = orders(shop)
    trials.carry_out(shop, order)

    after = visitor.get(page.request["PATH_INFO"])
    assert "✓ succeeds it would succeed now" in text(after)
    assert "kernel: seccomp, landlock" in text(after)
    assert "refresh" not in after.content.decode()
    assert told(store, submission="s") == [(Verb.TRIAL_WANTED, "ann"), (Verb.TRIAL_BEGUN, ""), (Verb.TRIED, "")]
    assert letter_of(store) == before
    assert "tried - it would succeed now" in text(seen(visitor))


def test_a_fork_has_other_values_and_keeps_the_secrets(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    shop.tasks["shop.ship"].run = lambda order, card_token="", note="": [order, len(card_token), note]
    put(*failing())
    page = visitor.get(f"{LETTERS}s/fork/")
    assert "4242" not in page.content.decode()
    asked = press(visitor, page, "Fork", args='[7, "[redacted]"]', kwargs='{"note": "heavy"}', stubs='{"label": 1}')
    assert "with other values for: note, label" in text(asked)
    (order,) = orders(shop)
    assert "4242" not in json.dumps(order.pack())
    trials.carry_out(shop, order)
    after = text(visitor.get(asked.request["PATH_INFO"]))
    assert "Fork" in after
    assert '[7, 4, "heavy"]' in after
    assert letter_of(store).edited is None


def test_a_fork_may_have_other_options_and_begin_elsewhere(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    shop.tasks["shop.ship"].run = lambda order, card_token="", note="": None
    put(*failing())
    values = {"options": '{"resources": ["order:7"]}', "cache": "sandbox", "follow": "on"}
    asked = press(visitor, visitor.get(f"{LETTERS}s/fork/"), "Fork", **values)
    assert "with other values for: resources, caches, follow" in text(asked)
    (order,) = orders(shop)
    assert order.changes.variation == {"options": {"resources": ["order:7"]}, "cache": "sandbox", "follow": 3}
    trials.carry_out(shop, order)
    assert "Leases then none; now acquired order:7, released order:7" in text(visitor.get(asked.request["PATH_INFO"]))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"options": '{"no_such": 1}'}, "no_such is no option of a task"),
        ({"args": "[1, 2, 3, 4, 5]"}, "the task can't be called so"),
        ({"args": "no"}, "args is no JSON"),
        ({"stubs": "[]"}, "This must be a JSON object."),
        ({"stubs": "{"}, "This is no JSON."),
    ],
)
def test_what_can_not_be_meant_is_not_sent(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery, values: dict[str, str], said: str
) -> None:
    put(*failing())
    page = press(visitor, visitor.get(f"{LETTERS}s/fork/"), "Fork", **values)
    assert said in text(page)
    assert (orders(shop), told(store, submission="s")) == ([], [])


def test_of_many_each_has_a_verdict_and_the_groups_keep_the_counts(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*failing("a", "b", group_id="g"), *failed("c", group_id="g", message=b""), group("g"))
    page = choose(visitor, "dry-run", "a", "b", "c")
    assert "3 dead letters, as they were at" in text(page)
    assert orders(shop) == []
    page = press(visitor, page, "Dry-run them", text="release 7")
    assert "↻ pending" in text(page)
    (order,) = orders(shop)
    trials.carry_out(shop, order)
    after = text(visitor.get(page.request["PATH_INFO"]))
    assert "2 would succeed, 1 could not be run" in after
    assert "2 ✓ succeeds 1 ↷ refused" in after
    assert "its message was not kept" in after
    (note,) = store.notes("g")
    assert (note.actor, note.text) == ("ann", "dry run: 2 would succeed, 1 could not be run")
    assert note.text in text(seen(visitor, f"{BASE}/lettergroup/g/change/"))


def test_a_form_that_is_sent_twice_is_one_order(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failing())
    page = seen(visitor)
    press(visitor, page, "Dry-run")
    press(visitor, page, "Dry-run")
    assert len(orders(shop)) == 1
    assert told(store, submission="s") == [(Verb.TRIAL_WANTED, "ann")]


def test_a_message_that_comes_twice_is_one_dry_run(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failing())
    press(visitor, seen(visitor), "Dry-run")
    (order,) = orders(shop)
    trials.carry_out(shop, order)
    trials.carry_out(shop, order)
    assert [verb for verb, _ in told(store, submission="s")].count(Verb.TRIED) == 1


def test_what_changed_meanwhile_is_not_run_and_what_changes_is_not_told(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(*failing())
    page = press(visitor, seen(visitor), "Dry-run")
    (order,) = orders(shop)
    begin = trials._begin

    def changed_after(*given: Any) -> Any:
        begun = begin(*given)
        store.decide("s", Decision(verb=Verb.ASSIGNED, actor="bob", assignee="bob"))
        return begun

    monkeypatch.setattr(trials, "_begin", changed_after)
    trials.carry_out(shop, order)
    assert "the letter changed since you looked at it; look again" in text(visitor.get(page.request["PATH_INFO"]))
    assert kept(store).keys() == {"ends", "said", "summed"}
    monkeypatch.undo()
    again = press(visitor, page, "Dry-run") if "Dry-run" in text(page) else None
    assert again is None


def test_where_no_worker_listens_the_page_says_so_after_a_while(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(*failing())
    page = press(visitor, seen(visitor), "Dry-run")
    assert "No worker has begun" not in text(page)
    monkeypatch.setattr(pages, "_UNHEARD_US", -1)
    later = text(visitor.get(page.request["PATH_INFO"]))
    assert "No worker has begun with it yet. Does one consume the queue “celery-replay”?" in later
    assert "celery -A shop worker -Q celery-replay" in later


def test_an_order_that_the_broker_does_not_take_is_told(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError("no broker")

    put(*failing())
    monkeypatch.setattr(shop, "send_task", refuse)
    page = text(press(visitor, seen(visitor), "Dry-run"))
    assert "The broker did not take it (ConnectionRefusedError)" in page
    assert "it could not be sent to a worker" in page
    assert [verb for verb, _ in told(store, submission="s")] == [Verb.TRIAL_WANTED, Verb.LEFT_OUT]


def test_values_are_for_those_who_may_see_payloads(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failing())
    page = press(visitor, seen(visitor), "Dry-run")
    details = {"ends": "succeeds", "said": "so", "steps": [], "now": {"result": "R-77"}, "output": {"stdout": "O-88"}}
    row = {"state": "order", "record": "shop.order:1", "field": "points", "before": 0, "after": 99}
    trials.tell(
        store,
        "s",
        Decision(
            verb=Verb.TRIED,
            actor="",
            text="so",
            operation_id=store.history(submission="s")[0].operation_id,
            details=json.dumps({**details, "state": [row]}),
        ),
    )
    path = page.request["PATH_INFO"]
    after = text(visitor.get(path))
    assert "order shop.order:1 points \N{MINUS SIGN} 0 + 99" in after
    assert "R-77" in after
    assert "O-88" in after
    visitors.welcome([each for each in visitors.ALL if each != PAYLOAD])
    hidden = text(visitor.get(path))
    assert "R-77" not in hidden
    assert "O-88" not in hidden
    assert "shop.order:1" not in hidden
    assert f"are shown with the permission “{PAYLOAD}”" in hidden


def test_what_an_app_can_not_be_found_by_is_told(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failing())
    page = press(visitor, seen(visitor), "Dry-run")
    (order,) = orders(shop)
    with pytest.raises(ErrandFailed) as failure:
        errand.name_of(shop)
    trials.refuse(runtime_of(shop).store, order, failure.value.message)
    assert "name it by the setting replay_app" in text(visitor.get(page.request["PATH_INFO"]))


@pytest.mark.parametrize("error", [OSError("no more memory"), ErrandFailed("it ended with 1: no such module")])
def test_what_kept_a_worker_from_it_is_told(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    put(*failing())
    page = press(visitor, seen(visitor), "Dry-run")
    (order,) = orders(shop)
    monkeypatch.setattr(errand, "name_of", lambda _: "shop")
    monkeypatch.setattr(errand, "run", fail)
    working.register(shop)
    shop.tasks[TASK].run(order.pack())
    after = text(visitor.get(page.request["PATH_INFO"]))
    assert "↷ refused" in after
    assert str(error.args[0]) in after


def test_erasing_takes_what_was_told(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failing())
    press(visitor, seen(visitor), "Dry-run")
    (order,) = orders(shop)
    trials.carry_out(shop, order)
    store.erase("s", Decision(verb=Verb.ERASED, actor="ann"), lambda chunk, job: (None, ()))
    entries = [entry for entry in store.history(submission="s") if entry.verb is Verb.TRIED]
    assert [(entry.text, entry.details) for entry in entries] == [("[erased]", "{}")]
