"""What the pages of dead letters and parked deliveries show."""

from __future__ import annotations

import pickle

from celery import Celery, _state

from celery_replay.clock import SECOND
from celery_replay.states import Effect, LetterState, Outcome, Reason, RowStatus
from django_celery_replay import ReplayTask
from tests.django_admin.builders import NOW, attempt, failed, group, job, letter, message, row, step
from tests.django_admin.conftest import Page, Put
from tests.django_admin.markup import tags_of, text_of


def test_a_list_of_letters_says_what_went_wrong(put: Put, page: Page) -> None:
    put(letter(key="order:1", error_message="bank said no " + "x" * 5_000, attempts=3, assignee="bob"))
    text = text_of(page("deadletter/"))
    assert "shop.ship order:1 ✗ open bob CardRefused bank said no xxx" in text
    assert "…[cut] ? unknown worker lost 2023-11-14 22:12:20 3 attempts" in text
    assert "x" * 200 not in text


def test_of_letters_without_a_key_a_list_says_their_submission(put: Put, page: Page) -> None:
    put(letter("a", key=""), letter("b", key=""))
    text = text_of(page("deadletter/"))
    assert "shop.ship a ✗ open" in text
    assert "shop.ship b ✗ open" in text


def test_letters_are_filtered_and_found_through_their_jobs(put: Put, page: Page) -> None:
    put(job("a", key="order:1"), letter("a"), letter("b", state=LetterState.RESOLVED, reason=Reason.POISON))
    for query in ({"state": "open"}, {"reason": "worker_lost"}, {"q": "order:"}, {"q": "task-a"}, {"q": "a"}):
        text = text_of(page("deadletter/", **query))
        assert "✗ open" in text
        assert "✓ resolved" not in text


def test_letters_are_filtered_by_group_effect_assignee_and_whether_they_wait(put: Put, page: Page) -> None:
    put(
        group("g"),
        letter("a", group_id="g", effect=Effect.ABSENT, assignee="ann", error_message="said-a"),
        letter("b", state=LetterState.REPLAY_PENDING, assignee="bob", error_message="said-b"),
        letter("c", state=LetterState.DISCARDED, error_message="said-c"),
    )
    for query, found in (
        ({"group_id": "g"}, "a"),
        ({"effect": "absent"}, "a"),
        ({"effect": "unknown"}, "bc"),
        ({"state": "unresolved"}, "ab"),
        ({"assignee": "ann"}, "a"),
        ({"assignee": "-"}, "c"),
        ({"state": "unresolved", "assignee": "bob"}, "b"),
    ):
        text = text_of(page("deadletter/", **query))
        assert [name for name in "abc" if f"said-{name}" in text] == list(found)
    text = text_of(page("deadletter/"))
    assert "By assigned to All nobody me bob" in text
    assert "shop.bank.CardRefused in shop/bank.py:charge" in text


def test_a_letter_answers_three_questions(put: Put, page: Page) -> None:
    put(*failed("a"), step("a", name="charge card"), *failed("b", effect="unknown"))
    known, unknown = (text_of(page(f"deadletter/{name}/change/")) for name in "ab")
    assert "Is it safe to replay? ✓ yes steps that are recorded as done are not done again" in known
    assert "Is anything half done? step charge card is done Its effect = proven" in known
    assert "Must the payload be mended? no sign of it" in known
    assert "Is it safe to replay? ? not known the task declares no side effects" in unknown


def test_a_letter_shows_its_evidence(put: Put, page: Page) -> None:
    put(job(status=Outcome.UNKNOWN, unsettled=True, canvas_unknown=True), letter(), attempt(), step())
    html = page("deadletter/s/change/")
    text = text_of(html)
    for fact in (
        "The job is now ? unknown",
        "A side effect's end is unknown yes",
        "Callbacks, chain and chord part sent on unknown",
        "Traceback Traceback …",
        "charge card charge ✓ settled",
    ):
        assert fact in text
    assert any(a.get("href") == "/admin/django_celery_replay/processedjob/s/change/" for _, a in tags_of(html))


def test_a_letter_outlives_its_job(put: Put, page: Page) -> None:
    put(letter())
    assert "The job is now not known: no record is left of it" in text_of(page("deadletter/s/change/"))


def test_a_message_is_read_and_its_secrets_are_not(put: Put, page: Page) -> None:
    put(letter(message=message(headers={"authorization": "Bearer abcdefgh"})))
    text = text_of(page("deadletter/s/change/"))
    assert '"args": [ 1042 ], "kwargs": { "card_token": "[redacted]", "note": "fragile" }' in text
    assert '"authorization": "[redacted]"' in text
    assert '"routing_key": "celery"' in text
    assert "4242" not in text


def test_positional_secrets_are_known_by_their_parameters(put: Put, page: Page) -> None:
    app = Celery(task_cls=ReplayTask, set_as_current=False)

    @app.task(name="shop.ship", shared=False)
    def ship(order: int, card_token: str, express: bool = False) -> None: ...

    before = _state.default_app
    _state.default_app = app
    try:
        put(letter(message=message([1042, "4242"], {})))
        text = text_of(page("deadletter/s/change/"))
    finally:
        _state.default_app = before
    assert '{ "order": 1042, "card_token": "[redacted]" }' in text
    assert "4242" not in text


class Bomb:
    gone_off = False

    def __reduce__(self) -> tuple[object, ...]:
        return setattr, (Bomb, "gone_off", True)


def test_a_pickle_is_named_and_not_opened(put: Put, page: Page) -> None:
    body = pickle.dumps(Bomb())
    put(letter(message=message(body=body, content_type="application/x-python-serialize")))
    text = text_of(page("deadletter/s/change/"))
    assert f"application/x-python-serialize, {len(body)} bytes. Only JSON is decoded here." in text
    assert not Bomb.gone_off


def test_a_message_that_is_none_is_told_of(put: Put, page: Page) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    for kept, said in (
        (b"", "None is kept."),
        (b"what", "4 bytes. It is in a format of another version."),
        (b"z\x00", "2 bytes. It is in a format"),
        (message(body=b"{}"), "It is not as Celery writes it."),
        (message(body=deep), "It is not as Celery writes it."),
        (message(["x" * 600_000]), "It is too large to be shown."),
    ):
        put(letter(f"s{len(kept)}", message=kept))
        assert said in text_of(page(f"deadletter/s{len(kept)}/change/"))


def test_the_parking_lot_says_who_waits_for_whom(put: Put, page: Page) -> None:
    put(
        job("first", key="order:1", claim="c1", status=Outcome.OPEN),
        row("second", subject="c1", wake_at=NOW + 60 * SECOND),
        row("third", subject="first", status=RowStatus.RELEASED),
        row("fourth", subject="gone", reason=Reason.STORE_DOWN),
    )
    html = page("parkedjob/")
    text = text_of(html)
    assert "↻ parked shop.ship order:1 in flight 2023-11-14 22:12:20 2023-11-14 22:14:20" in text
    assert "▶ released shop.ship order:1" in text
    assert "↻ parked gone store down" in text
    link = "/admin/django_celery_replay/processedjob/first/change/"
    assert [a.get("href") for _, a in tags_of(html)].count(link) == 2


def test_parked_deliveries_are_found_by_what_they_wait_for(put: Put, page: Page) -> None:
    put(job("first", key="order:1", claim="c1"), row("second", subject="c1"), row("other", subject="c2"))
    for term in ("order:1", "task-first", "second", "c1"):
        text = text_of(page("parkedjob/", q=term))
        assert "order:1" in text
        assert "c2" not in text.replace(term, "")


def test_a_parked_delivery_shows_both_jobs(put: Put, page: Page) -> None:
    put(job("first", key="order:1", claim="c1", status=Outcome.OPEN), job("second"), row("second", subject="c1"))
    html = page("parkedjob/second/change/")
    assert "Waits for shop.ship order:1 Which is now ▶ open Reason in flight" in text_of(html)
    links = [a.get("href") for _, a in tags_of(html)]
    for key in ("first", "second"):
        assert f"/admin/django_celery_replay/processedjob/{key}/change/" in links
    put(row("lonely", subject="gone"))
    assert "gone (no job has it now)" in text_of(page("parkedjob/lonely/change/"))
