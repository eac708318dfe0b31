"""A chord whose member fails: its body, which is not run, has a letter of its own."""

from __future__ import annotations

import pytest
from celery import chain, chord, group

from celery_replay import Outcome, chord_bodies
from celery_replay.cli.timeline import draw
from celery_replay.dead_letters import Decision
from celery_replay.replay import message as messages
from celery_replay.replay.fitting import changed
from celery_replay.replay.plan import Hindrance, Options, preview
from celery_replay.states import Effect, LetterState, Reason, Verb
from tests.inprocess.replaying import send_all
from tests.support.versions import needs


@pytest.fixture
def part(lab):
    @lab.task()
    def part(n):
        if n < 0:
            raise ValueError(n)
        return n

    return part


@pytest.fixture
def total(lab):
    @lab.task()
    def total(parts, label=""):
        lab.log.append((label, parts))

    return total


def ended(lab, result):
    """Wait until a chord has failed and everybody knows of it; return its letters by their tasks' ids."""
    lab.error(result)
    for member in result.parent.results:
        lab.settled(member.id)
    lab.idle()
    return {letter.task_id: letter for letter in lab.letters()}


@pytest.mark.parametrize("numbers", [(1, -1, 2), (-1, -2, -3)], ids=["one", "all"])
def test_however_many_members_fail_the_body_has_one_letter(lab, part, total, numbers):
    result = chord([part.s(n) for n in numbers], total.s(label="x")).apply_async()
    letters = ended(lab, result)

    failed = [member.id for member, n in zip(result.parent.results, numbers, strict=True) if n < 0]
    assert letters.keys() == {*failed, result.id}
    body = letters[result.id]
    assert (body.operation, body.reason, body.effect) == (total.name, Reason.CHORD_FAILED, Effect.ABSENT)
    first = next(task_id for task_id in failed if task_id in body.error_message)
    assert body.error_message == f"not run because member {part.name} {first} of its chord failed"
    assert body.correlation_id == lab.job(first).correlation_id
    assert lab.job(result.id).status is Outcome.LOST
    assert list(draw(lab.job(result.id), lab.events(result.id)))[-1].endswith(body.error_message)
    assert lab.log == []


def test_letters_of_members_and_body_name_each_other(lab, part, total):
    result = chord([part.s(-1), part.s(-2)], total.s()).apply_async()
    letters = ended(lab, result)
    body = letters.pop(result.id)

    told = [entry.text for entry in lab.store.history(submission=body.submission)]
    assert [any(letter.submission in text for text in told) for letter in letters.values()] == [True, True]
    for letter in letters.values():
        (entry,) = lab.store.history(submission=letter.submission)
        assert body.submission in entry.text


# Replays


def replay(lab, letter):
    options = Options(include_unknown=True, with_canvas=True)
    (sent,) = send_all(lab, preview(lab.runtime, [letter], options), options)
    return sent


def mend(lab, letter, **arguments):
    letter = lab.store.letter(letter.submission)
    mended = changed(letter, lab.runtime.policy(lab.app.tasks[letter.operation]), arguments)
    decision = Decision(verb=Verb.EDITED, actor="ann", edited=mended.message)
    lab.store.decide(letter.submission, decision)
    return lab.store.letter(letter.submission)


def resolved(lab, letter):
    lab.wait(lambda: lab.store.letter(letter.submission).state is LetterState.RESOLVED, "the letter's end")
    return lab.store.letter(letter.submission)


def test_a_body_is_replayed_once_it_was_given_the_results(lab, part, total):
    result = chord([part.s(1), part.s(-1)], total.s("sum")).apply_async()
    body = ended(lab, result)[result.id]

    (item,) = preview(lab.runtime, [body])
    assert (item.hindrance, replay(lab, body).ok) == (Hindrance.RESULTS, False)
    (still,) = preview(lab.runtime, [mend(lab, body, label="other")])
    assert still.hindrance is Hindrance.RESULTS
    assert replay(lab, mend(lab, body, parts=[1, 7])).ok

    assert resolved(lab, body).resolved_how == "replayed"
    assert lab.log == [("other", [1, 7])]


def test_a_body_that_takes_no_results_is_replayed_as_it_is(lab, part, total):
    result = chord([part.s(1), part.s(-1)], total.si([], "all done")).apply_async()
    body = ended(lab, result)[result.id]

    assert replay(lab, body).ok
    resolved(lab, body)
    assert lab.log == [("all done", [])]
    assert not lab.store.job(body.submission).letter


def test_the_members_preview_offers_the_bodys_letter(lab, part, total):
    result = chord([part.s(-1)], total.s()).apply_async()
    letters = ended(lab, result)
    body = letters.pop(result.id)

    (member,) = letters.values()
    (item,) = preview(lab.runtime, [member])
    assert any(body.submission in note for note in item.notes)


def test_a_members_replay_files_nothing_more(lab, part, total):
    result = chord([part.s(-1)], total.s()).apply_async()
    letters = ended(lab, result)
    member = next(letter for task_id, letter in letters.items() if task_id != result.id)

    sent = replay(lab, member)
    lab.error(lab.app.AsyncResult(sent.task_id))
    lab.wait(lambda: lab.store.letter(member.submission).state is LetterState.OPEN, "the letter's opening")
    assert len(lab.letters()) == 2


# Bodies and members of every form


@needs("celery", "5.7", "older ones stumble over a chain that has no id of its own, in the member that failed")
def test_a_chain_as_a_body_is_one_letter_with_the_rest_of_it(lab, part, total):
    result = chord([part.s(-1)], chain(part.s(), total.s("end"))).apply_async()
    lab.error(result)
    lab.idle()
    (body,) = [letter for letter in lab.letters() if letter.reason is Reason.CHORD_FAILED]

    assert body.operation == part.name
    assert len(messages.read(body.message).canvas["chain"]) == 1
    assert replay(lab, mend(lab, body, n=5)).ok
    resolved(lab, body)
    lab.wait(lambda: lab.log)
    assert lab.log == [("end", 5)]


def test_a_group_as_a_body_is_a_letter_for_each_of_its_tasks(lab, part, total):
    result = chord([part.s(-1)], group(total.s("a"), total.s("b"))).apply_async()
    lab.wait(lambda: len(lab.letters()) == 3)
    found = {letter.task_id for letter in lab.letters() if letter.reason is Reason.CHORD_FAILED}
    assert found == {child.id for child in result.results}


def test_a_chain_in_the_header_that_breaks_files_the_body(lab, part, total):
    result = chord([chain(part.s(-1), total.s())], total.s()).apply_async()
    lab.wait(lambda: len(lab.letters()) == 2)
    lab.idle()
    (body,) = [letter for letter in lab.letters() if letter.reason is Reason.CHORD_FAILED]
    assert body.task_id == result.id


def test_a_chord_in_the_header_that_fails_files_both_bodies(lab, part, total):
    inner = chord([part.s(-1)], total.s("inner"))
    result = chord([inner, part.s(1)], total.s("outer")).apply_async()
    lab.wait(lambda: len(lab.letters()) == 3)
    lab.idle()
    bodies = [letter for letter in lab.letters() if letter.reason is Reason.CHORD_FAILED]
    assert result.id in {letter.task_id for letter in bodies}
    assert len({letter.task_id for letter in bodies}) == 2


def test_a_body_that_is_not_json_is_kept_as_its_member_was_sent(lab, part, total):
    members = [part.s(-1).set(serializer="pickle")]
    result = chord(members, total.si({1, 2}, "set").set(serializer="pickle")).apply_async()
    body = ended(lab, result)[result.id]

    assert replay(lab, body).ok
    resolved(lab, body)
    assert lab.log == [("set", {1, 2})]


def test_a_chord_that_ends_well_files_nothing(lab, part, total):
    result = chord([part.s(1), part.s(2)], total.s()).apply_async()
    lab.get(result)
    lab.idle()
    assert lab.letters() == []
    assert lab.job(result.id).submission == chord_bodies.named(result.id)


def test_where_celery_polls_for_the_members_the_body_has_the_same_name(lab, part, total):
    members = group(part.s(1), part.s(2)).apply_async()
    lab.get(members)
    body = total.s().set(task_id="the-body")
    told = {"result": [member.as_tuple() for member in members]}
    lab.app.tasks["celery.chord_unlock"].apply((members.id, body), told, throw=True)

    assert lab.settled("the-body").submission == chord_bodies.named("the-body")


# Other ends of a member


def test_a_body_whose_member_is_revoked_has_a_letter_and_the_member_has_none(lab, part, total):
    member = part.s(1).set(countdown=0.3)
    result = chord([member], total.s()).apply_async()
    (child,) = result.parent.results
    lab.app.control.revoke(child.id)
    (body,) = lab.wait(lab.letters)
    assert body.error_message == f"not run because member {part.name} {child.id} of its chord was revoked"


def test_a_body_whose_member_expires_has_a_letter_and_the_member_has_none(lab, part, total):
    result = chord([part.s(1).set(expires=-1)], total.s()).apply_async()
    (child,) = result.parent.results
    (body,) = lab.wait(lab.letters)
    assert body.error_message == f"not run because member {part.name} {child.id} of its chord expired"


def test_a_body_whose_members_result_is_lost_has_a_letter(lab, total):
    @lab.task()
    def odd():
        return object()

    result = chord([odd.s()], total.s()).apply_async()
    lab.error(result)
    lab.idle()
    (body,) = lab.letters()
    assert (body.task_id, body.reason) == (result.id, Reason.CHORD_FAILED)


def test_a_body_whose_member_is_refused_has_a_letter(lab, total):
    @lab.task(idempotency_key="{n}")
    def pay(n, amount):
        return amount

    lab.get(pay.delay(1, 5))
    result = chord([pay.s(1, 6)], total.s()).apply_async()
    letters = ended(lab, result)
    assert {letter.reason for letter in letters.values()} == {Reason.KEY_CONFLICT, Reason.CHORD_FAILED}


def test_a_body_whose_member_is_of_an_unknown_task_has_a_letter(lab, total):
    result = chord([lab.app.signature("lab.nobody-knows")], total.s()).apply_async()
    lab.wait(lambda: len(lab.letters()) == 2)
    found = {letter.task_id: letter.reason for letter in lab.letters()}
    assert found[result.id] is Reason.CHORD_FAILED
