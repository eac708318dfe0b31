"""A replay is looked at first; what was looked at is what is sent, once, under the same guards as any job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery import Celery
from django.test import Client

from celery_replay.dead_letters import Decision
from celery_replay.operations import conditions
from celery_replay.records import Letter
from celery_replay.replay import driving
from celery_replay.replay import message as messages
from celery_replay.runtime import runtime_of
from celery_replay.states import LetterState, Outcome, Verb
from django_celery_replay.store import DjangoStore
from tests.django_admin import visitors
from tests.django_admin.builders import NOW, failed, message
from tests.django_admin.conftest import Put
from tests.django_admin.forms import buttons, press
from tests.django_admin.markup import text_of
from tests.django_admin.test_deciding import LETTERS, choose, every_vendor, seen

SEND = "Replay for real"


def letter_of(store: DjangoStore, submission: str = "s") -> Letter:
    found = store.letter(submission)
    assert found is not None
    return found


def sent(app: Celery) -> list[str]:
    """Take the messages from the shop's queue; return their task ids."""
    found = []
    with app.connection_for_write() as connection, connection.SimpleQueue("celery") as queue:
        while queue.qsize():
            copy = queue.get_nowait()
            found.append(copy.headers["id"])
            copy.ack()
    return found


def many(*names: str, **changes: Any) -> list[Any]:
    """Build failed jobs, the first the newest."""
    return [record for n, name in enumerate(names) for record in failed(name, **{"last_failed": NOW - n, **changes})]


def looked(visitor: Client, *selected: str) -> Any:
    return choose(visitor, "replay", *selected)


def text(response: Any) -> str:
    return text_of(response.content.decode())


@every_vendor
def test_a_letter_is_looked_at_and_then_replayed(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failed())
    page = press(visitor, seen(visitor), "Replay…")
    assert "✓ is sent shop.ship ship:s ✓ absent To celery." in text(page)
    assert (sent(shop), letter_of(store).state) == ([], LetterState.OPEN)

    after = press(visitor, page, SEND, reason="the bank is up again")

    (task_id,) = sent(shop)
    kept = letter_of(store)
    assert (kept.state, kept.replays) == (LetterState.REPLAY_PENDING, 1)
    assert f"It is being replayed, as task {task_id}." in text(after)
    assert [(e.verb, e.actor, e.text) for e in store.history(submission="s")] == [
        (Verb.REPLAYED, "ann", "the bank is up again")
    ]
    assert json.loads(store.history(submission="s")[0].details)["replay"] == kept.replay


def test_a_second_press_says_that_it_is_replayed_already(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*failed())
    page = press(visitor, seen(visitor), "Replay…")
    press(visitor, page, SEND, reason="one")
    again = press(visitor, page, SEND, reason="two")
    assert "it is being replayed already" in text(again)
    assert len(sent(shop)) == 1
    assert len(store.history(submission="s")) == 1


def test_of_two_who_press_at_once_one_is_told_that_it_is_replayed(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(*failed())
    page = press(visitor, seen(visitor), "Replay…")
    begin = store.begin_replay

    def after_somebody_else(submission: str, decision: Decision, *rest: Any) -> Any:
        monkeypatch.undo()
        store.begin_replay(submission, Decision(verb=Verb.REPLAYED, actor="bob", replay="bobs"), b"his")
        return begin(submission, decision, *rest)

    monkeypatch.setattr(store, "begin_replay", after_somebody_else)
    after = press(visitor, page, SEND, reason="mine")
    assert "It is being replayed already, as bobs" in text(after)
    assert (sent(shop), letter_of(store).replay) == ([], "bobs")


def test_a_reason_is_required(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failed())
    asked = press(visitor, press(visitor, seen(visitor), "Replay…"), SEND)
    assert "This field is required." in text(asked)
    assert sent(shop) == []


def test_of_many_each_has_its_result_on_a_page_that_can_be_looked_at_again(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a", "b"), *failed("q", state=LetterState.QUARANTINED), *failed("u", operation="shop.gone"))
    page = looked(visitor, "a", "b", "q", "u")
    for said in ("2 ✓ is sent", "1 ✗ left out: state", "1 ✗ left out: unregistered", "2 effect ✓ absent"):
        assert said in text(page)

    after = press(visitor, page, SEND, reason="mended", rate="")
    assert "▶ running Come to 0 of 2" in text(after)
    assert "2 ↷ left out" in text(after)
    drive(shop)
    after = visitor.get(after.request["PATH_INFO"])

    assert "2 ↻ pending 2 ↷ left out" in text(after)
    assert "task shop.gone is not registered here; deploy it" in text(after)
    assert "it is quarantined; open it again first" in text(after)
    assert len(sent(shop)) == 2
    for name, outcome in (("a", Outcome.SUCCEEDED), ("b", Outcome.FAILED)):
        end_replay(store, name, outcome)
    drive(shop)
    again = text(visitor.get(after.request["PATH_INFO"]))
    assert "✓ finished Come to 2 of 2 Sent 2, of which 0 have not ended Ended 1 well, 1 failed again" in again
    assert "1 ✓ resolved 1 ✗ failed again 2 ↷ left out" in again


def drive(app: Celery) -> None:
    """Do the steward's work."""
    while driving.drive_all(runtime_of(app)):
        pass


def end_replay(store: DjangoStore, name: str, outcome: Outcome) -> None:
    """Run the replay of a letter to its end, as a worker does."""
    from tests.conformance.callers import closes, runs

    replay = letter_of(store, name).replay
    closes(store, runs(store, replay, claim=name, original=name, trace_id=replay), outcome)


def test_later_arrivals_and_letters_that_changed_are_not_swept_in(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a", "b"))
    page = looked(visitor)
    with store._unit() as unit:
        for record in failed("later"):
            unit.put(record)
    store.decide("b", Decision(verb=Verb.ASSIGNED, actor="bob", assignee="bob"))
    after = press(visitor, page, SEND, reason="mended")
    drive(shop)
    assert [str(letter_of(store, name).state) for name in ("a", "b", "later")] == ["replay_pending", "open", "open"]
    assert "it changed since you looked at it; look again" in text(after)


def test_unknown_effects_are_left_out_unless_their_number_is_typed(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a"), *many("b", "c", effect="unknown"))
    page = looked(visitor)
    assert "2 ? only if accepted 1 ✓ is sent 2 effect ? unknown 1 effect ✓ absent" in text(page)
    wrong = press(visitor, page, SEND, reason="x", unknown="3")
    assert "Type 2, or nothing." in text(wrong)
    assert sent(shop) == []
    press(visitor, page, SEND, reason="x", rate="")
    drive(shop)
    assert [str(letter_of(store, name).state) for name in "abc"] == ["replay_pending", "open", "open"]
    press(visitor, looked(visitor, "b", "c"), SEND, reason="I looked at the bank", unknown="2", rate="")
    drive(shop)
    assert [str(letter_of(store, name).state) for name in "abc"] == ["replay_pending"] * 3
    assert json.loads(store.history(submission="b")[-1].details)["accepts_unknown"] is True


def test_what_a_task_forbids_is_overridden_for_one_letter_alone(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    kept = message([7], {}, task={"protection": "steps", "replay": "never"})
    put(*failed("a", message=kept), *failed("b", message=kept))
    many = looked(visitor, "a", "b")
    assert "2 ✗ left out: never" in text(many)
    assert "2 ✗ left out: never" in text(press(visitor, many, "Look again", override_never="on"))
    page = press(visitor, seen(visitor, f"{LETTERS}a/change/"), "Replay…")
    assert 'its task declares replay="never"' in text(page)
    press(visitor, page, SEND, reason="the mail was not sent", override_never="on")
    assert [str(letter_of(store, name).state) for name in "ab"] == ["replay_pending", "open"]
    assert json.loads(store.history(submission="a")[0].details)["overrides_never"] is True


def test_a_letter_that_would_be_left_out_is_not_sent_by_pressing(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*failed(effect="unknown"))
    page = press(visitor, seen(visitor), "Replay…")
    assert "the task declares no side effects, so nobody knows whether any happened" in text(page)
    assert "Nothing would be sent" in text(press(visitor, page, SEND, reason="x"))
    assert sent(shop) == []


def test_a_changed_signature_is_shown_with_both_meanings(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    parameters = [[name, "POSITIONAL_OR_KEYWORD", False] for name in ("order", "note", "card_token")]
    old = message([7, "fragile", "4242"], {}, task={"parameters": parameters, "protection": "steps"})
    put(*failed(message=old))
    page = press(visitor, seen(visitor), "Replay…")
    assert "✗ left out: signature" in text(page)
    assert 'order 7 7 note "fragile" "4242" card_token "[redacted]" "[redacted]"' in text(page)
    assert "Nothing would be sent" in text(press(visitor, page, SEND, reason="x"))


def test_the_rest_of_a_chain_goes_along_only_where_that_is_chosen(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    body = json.dumps([[7], {}, {"callbacks": None, "errbacks": None, "chain": [{"task": "x"}], "chord": None}])
    put(*failed(message=message(body=body.encode(), task={"protection": "steps"})))
    page = press(visitor, seen(visitor), "Replay…")
    assert "without its chain, unless that is asked for" in text(page)
    page = press(visitor, page, "Look again", with_canvas="on")
    assert "sends on: chain" in text(page)
    assert sent(shop) == []
    press(visitor, page, SEND, reason="x", with_canvas="on")
    row = store.row(letter_of(store).replay)
    assert row is not None
    assert messages.read(row.message).canvas == {"chain": [{"task": "x"}]}


def test_the_page_shows_what_becomes_of_each_side_effect(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a", effect="unknown"))
    page = press(visitor, seen(visitor, f"{LETTERS}a/change/"), "Replay…")
    assert "1 body ? unknown the task declares no side effects" in text(page)
    refused = press(visitor, page, SEND, reason="x", allow="charge")
    assert "left out: effect not allowed" in text(refused)
    press(visitor, page, SEND, reason="I looked at the bank", allow="body, charge")
    row = store.row(letter_of(store, "a").replay)
    assert row is not None
    assert messages.unpack_message(row.message)["headers"]["celery_replay"]["l"] == ["body", "charge"]
    assert json.loads(store.history(submission="a")[0].details)["allows"] == ["body", "charge"]


def test_anything_of_many_is_accepted_by_their_number_alone(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a", "b", effect="unknown"))
    page = press(visitor, looked(visitor), SEND, reason="x", allow="all")
    assert "Of many, “all” is accepted by their number alone." in text(page)
    assert store.operations() == []


def test_a_rate_spreads_them_over_time_and_the_rest_is_paused_resumed_and_aborted(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a", "b", "c"))
    page = press(visitor, looked(visitor), SEND, reason="x", rate="0.01")
    assert "No steward leads now" in text(page)
    drive(shop)
    assert [str(letter_of(store, name).state) for name in "abc"] == ["replay_pending", "open", "open"]
    assert len(sent(shop)) == 1
    page = press(visitor, page, "Pause", text="lunch")
    assert "Paused." in text(page)
    assert "‖ paused lunch" in text(page)
    assert not any("Pause" in label for label in buttons(page))
    page = press(visitor, page, "Resume")
    assert "▶ running" in text(page)
    assert "Say why" in text(press(visitor, page, "Abort"))
    page = press(visitor, page, "Abort", text="enough")
    assert "■ aborted enough" in text(page)
    assert [(e.verb, e.actor) for e in store.operation_history(store.operations()[0].operation_id)] == [
        (Verb.BEGUN, "ann"), (Verb.PAUSED, "ann"), (Verb.RESUMED, "ann"), (Verb.ABORTED, "ann"),
    ]  # fmt: skip
    assert not any(label in ("Pause", "Resume", "Abort") for label in buttons(page))


def test_of_two_who_decide_about_an_operation_at_once_one_is_told(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a", "b"))
    page = press(visitor, looked(visitor), SEND, reason="x")
    press(visitor, page, "Abort", text="mine")
    after = press(visitor, page, "Pause", text="his")
    assert "is aborted, not running" in text(after)


def test_who_may_not_replay_may_not_pause_either(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*many("a", "b"))
    page = press(visitor, looked(visitor), SEND, reason="x")
    visitors.welcome([each for each in visitors.ALL if each != visitors.REPLAY])
    shown = visitor.get(page.request["PATH_INFO"])
    assert "You need the permission “django_celery_replay.replay_deadletter”" in text(shown)
    refused = visitor.post(f"{page.request['PATH_INFO']}decide/", {"verb": "paused"})
    assert refused.status_code == 403
    assert str(store.operations()[0].state) == "running"


def test_those_that_go_first_and_what_stops_it_are_chosen_in_the_form(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a", "b", "c"))
    page = press(visitor, looked(visitor), SEND, reason="x", canary="1", rate="", stop_after="7", stop_above="30")
    wanted = conditions(store.operations()[0])
    assert (wanted.canary, wanted.rate, wanted.stop_after, wanted.stop_above) == (1, None, 7, 0.3)
    assert "Stops itself when 7 failed again, or more than 30% of the last 20 did" in text(page)
    drive(shop)
    assert [str(letter_of(store, name).state) for name in "abc"] == ["replay_pending", "open", "open"]
    end_replay(store, "a", Outcome.FAILED)
    drive(shop)
    page = visitor.get(page.request["PATH_INFO"])
    assert "✗ stopped of the first 1, 1 did not end well" in text(page)
    assert letter_of(store, "b").state is LetterState.OPEN


@every_vendor
def test_operations_are_listed_the_newest_first_and_lead_to_their_pages(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a", "b", "c", "d"))
    press(visitor, looked(visitor, "a", "b"), SEND, reason="one", rate="")
    drive(shop)
    press(visitor, looked(visitor, "c", "d"), SEND, reason="two")
    base = "/admin/django_celery_replay/replayoperation/"
    listed = text(visitor.get(base))
    assert listed.index("two") < listed.index("one")
    assert "2 of 2 2 sent 0 well 0 failed again ann one" in listed
    (operation, _) = store.operations()
    page = visitor.get(f"{base}{operation.operation_id}/change/", follow=True)
    assert "Replay of 2 dead letters" in text(page)
    assert visitor.get(f"{base}nothing/change/").status_code == 404
    visitors.welcome([each for each in visitors.ALL if "replayoperation" not in each])
    assert visitor.get(base).status_code == 403


def test_letters_that_another_operation_has_still_to_send_are_left_out(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a", "b", "c"))
    press(visitor, looked(visitor, "a", "b"), SEND, reason="x")
    page = looked(visitor)
    assert "2 ✗ left out: operation 1 ✓ is sent" in text(page)
    assert "it waits in operation" in text(page)


def test_a_form_for_many_that_is_sent_twice_sends_them_once(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery
) -> None:
    put(*many("a", "b"))
    page = looked(visitor)
    first = press(visitor, page, SEND, reason="x", rate="")
    drive(shop)
    second = press(visitor, page, SEND, reason="x", rate="")
    drive(shop)
    assert len(sent(shop)) == 2
    assert "This operation was begun before" in text(second)
    assert "2 ↻ pending" in text(second)
    assert first.request["PATH_INFO"] == second.request["PATH_INFO"]


def test_of_two_who_begin_the_same_operation_at_once_the_second_is_told(
    put: Put, visitor: Client, store: DjangoStore, shop: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(*many("a", "b"))
    page = looked(visitor)
    begin = store.begin_operation

    def twice(*given: Any) -> Any:
        begin(*given)
        return begin(*given)

    monkeypatch.setattr(store, "begin_operation", twice)
    after = press(visitor, page, SEND, reason="x")
    assert "Ann has begun this operation already" in text(after)
    assert len(store.operations()) == 1


def test_a_mended_payload_is_what_is_sent(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failed())
    edited = messages.edit(letter_of(store).message, [8], {})
    store.decide("s", Decision(verb=Verb.EDITED, actor="ann", edited=edited))
    page = press(visitor, seen(visitor), "Replay…")
    assert "With its mended payload." in text(page)
    press(visitor, page, SEND, reason="x")
    row = store.row(letter_of(store).replay)
    assert row is not None
    assert messages.read(row.message).args == (8,)


def test_the_letters_page_tells_of_its_replays(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    put(*failed())
    press(visitor, press(visitor, seen(visitor), "Replay…"), SEND, reason="x")
    (task_id,) = sent(shop)
    assert f"ann {task_id} not begun" in text(seen(visitor))
    end_replay(store, "s", Outcome.SUCCEEDED)
    page = seen(visitor)
    assert "✓ resolved" in text(page)
    assert f"ann {task_id} ✓ succeeded" in text(page)
    replay = letter_of(store).replay
    assert f"/admin/django_celery_replay/processedjob/{replay}/change/" in page.content.decode()
    job = visitor.get(f"/admin/django_celery_replay/processedjob/{replay}/change/")
    assert "Replays the letter s" in text(job)


def test_without_a_celery_app_nothing_is_sent_and_the_page_says_what_to_do(
    put: Put, visitor: Client, store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_celery_replay.conf.celery_app", lambda: None)
    put(*failed())
    page = press(visitor, seen(visitor), "Replay…")
    assert page.status_code == 503
    assert "import the app in the project's __init__.py" in text(page)


def test_an_app_with_another_store_sends_nothing(put: Put, visitor: Client, store: DjangoStore, shop: Celery) -> None:
    from celery_replay.runtime import use_store
    from celery_replay.stores.memory import MemoryStore

    use_store(shop, MemoryStore())
    put(*failed())
    page = press(visitor, seen(visitor), "Replay…")
    assert "keeps its records elsewhere, in memory of one process" in text(page)
