"""A replay does those side effects that its list has, and no other one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from celery_replay import headers, step
from celery_replay.clock import new_id
from celery_replay.dead_letters import Decision
from celery_replay.replay import message as messages
from celery_replay.states import LetterState, Reason, Verb
from tests.inprocess.lab import Lab


@pytest.fixture
def failed(lab: Lab):
    """Return a maker of a task with two side effects, whose first run failed after the first one of them."""

    def failed(**options):
        broken = [True]

        @step(side_effect=True, key="charge:{number}")
        def charge(number):
            lab.log.append("charge")
            return f"charge {number}"

        @step(side_effect=True, key="mail:{number}")
        def mail(number):
            lab.log.append("mail")

        @lab.task(**{"stepwise": True, **options})
        def pay(number, swallows=False):
            charged = charge(number)
            if broken:
                broken.clear()
                raise ValueError("no mail today")
            try:
                mail(number)
            except Exception:
                if not swallows:
                    raise
            return charged

        return pay

    return failed


def letter_of(lab, task, **kwargs):
    result = task.delay(7, **kwargs)
    lab.error(result)
    lab.settled(result.id)
    return lab.letter(result.id)


def replay(lab, letter, *allowed, unknown=False):
    """Replay a letter with a list; return the replay's task id."""
    was = headers.identify(letter.operation, messages.unpack_message(letter.message)["headers"])
    submission, task_id = new_id(), new_id()
    stamp = replace(
        was,
        submission=submission,
        trace_id=submission,
        original=letter.submission,
        allows=allowed,
        accepts_unknown=1 if unknown else None,
    )
    message = messages.compose(letter.message, stamp, task_id)
    decision = Decision(verb=Verb.REPLAYED, actor="ann", replay=submission)
    row = lab.store.begin_replay(letter.submission, decision, message)
    from celery_replay import parking

    assert parking.dispatch(lab.app, lab.store, [row], lab.runtime.resend_us) == 1
    lab.wait(lambda: lab.store.letter(letter.submission).state is not LetterState.REPLAY_PENDING, "its end")
    return task_id


def test_a_step_that_is_not_on_the_list_is_refused_before_anything_is_done(any_lab: Lab, failed) -> None:
    lab = any_lab
    letter = letter_of(lab, failed())
    task_id = replay(lab, letter, "charge")
    kept = lab.store.letter(letter.submission)
    assert lab.log == ["charge"]
    assert (kept.state, kept.reason, kept.replays) == (LetterState.OPEN, Reason.EFFECT_NOT_ALLOWED, 1)
    assert kept.error_message == (
        "step mail is not on this replay's list (charge); replay its letter again with --allow mail"
        " [effect-not-allowed]"
    )
    assert kept.effect == "proven"
    assert "effect_not_allowed" in lab.names(task_id)


def test_what_was_done_before_needs_no_place_on_the_list(lab: Lab, failed) -> None:
    letter = letter_of(lab, failed())
    task_id = replay(lab, letter, "mail")
    assert lab.log == ["charge", "mail"]
    assert lab.store.letter(letter.submission).state is LetterState.RESOLVED
    assert lab.job(task_id).result == '"charge 7"'


def test_a_body_that_swallows_the_refusal_does_not_succeed(lab: Lab, failed) -> None:
    letter = letter_of(lab, failed(), swallows=True)
    replay(lab, letter, "charge")
    kept = lab.store.letter(letter.submission)
    assert (kept.state, kept.reason) == (LetterState.OPEN, Reason.EFFECT_NOT_ALLOWED)


def test_a_task_that_retries_on_every_error_is_not_retried_for_a_refusal(lab: Lab, failed) -> None:
    task = failed(autoretry_for=(Exception,), max_retries=0, retry_backoff=False)
    letter = letter_of(lab, task)
    task.max_retries = 3
    task_id = replay(lab, letter, "charge")
    assert lab.store.letter(letter.submission).reason is Reason.EFFECT_NOT_ALLOWED
    assert lab.names(task_id).count("started") == 1


@pytest.mark.parametrize("options", [{"stepwise": False}, {"stepwise": False, "idempotency_key": "pay:{number}"}])
def test_a_body_that_may_do_something_by_itself_is_refused_as_a_whole(lab: Lab, failed, options) -> None:
    letter = letter_of(lab, failed(**options))
    replay(lab, letter, "mail", unknown=True)
    kept = lab.store.letter(letter.submission)
    assert (lab.log, kept.reason) == (["charge"], Reason.EFFECT_NOT_ALLOWED)
    assert "--allow body" in kept.error_message
    replay(lab, kept, "mail", "body", unknown=True)
    assert lab.log == ["charge", "mail"]
    assert lab.store.letter(letter.submission).state is LetterState.RESOLVED


def test_a_list_that_is_none_allows_nothing() -> None:
    table = {"s": "a", "t": "a", "l": "mail"}
    found = headers.read(table)
    assert found is not None
    assert found.allows == ()
    assert headers.read({"s": "a", "t": "a"}).allows is None  # type: ignore[union-attr]
    listed = headers.read({"s": "a", "t": "a", "l": ["mail", 7]})
    assert listed is not None
    assert (listed.allows, listed.as_header()["l"]) == (("mail",), ("mail",))
