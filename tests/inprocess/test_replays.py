"""A dead letter replayed for real: guarded, under a new id, and the letter tells of its end."""

from __future__ import annotations

import json

import pytest

from celery_replay import headers, step
from celery_replay.dead_letters import Decision
from celery_replay.replay import message as messages
from celery_replay.replay.plan import Hindrance, Options, preview
from celery_replay.serialization import unpack
from celery_replay.states import Effect, LetterState, Outcome, Reason, Replays, Verb
from tests.inprocess.replaying import send_all

ANY = Options(include_unknown=True)


def fails(lab, **options):
    """Register a task that fails until its switch is thrown."""
    switch = {"down": True}

    @lab.task(bind=True, **options)
    def charge(self, order_id, amount=1):
        lab.log.append((order_id, amount))
        if switch["down"]:
            raise ValueError(f"no {order_id}")
        return f"charged {order_id}"

    return charge, switch


def failed(lab, task, *args, **kwargs):
    result = task.apply_async(args, kwargs)
    lab.error(result)
    lab.settled(result.id)
    return lab.letter(result.id)


def plan(lab, *letters, options=ANY):
    return preview(lab.runtime, letters, options)


def replay(lab, *letters, options=ANY):
    return send_all(lab, plan(lab, *letters, options=options), options)


def state(lab, letter):
    return lab.store.letter(letter.submission).state


def resolved(lab, letter):
    lab.wait(lambda: state(lab, letter) is LetterState.RESOLVED, "the letter's end")
    return lab.store.letter(letter.submission)


def history(lab, letter):
    return [(entry.verb, entry.actor, entry.text) for entry in lab.store.history(submission=letter.submission)]


@pytest.mark.parametrize("key", [None, "charge:{order_id}"])
def test_a_replay_that_succeeds_resolves_its_letter(any_lab, key):
    lab = any_lab
    task, switch = fails(lab, idempotency_key=key)
    letter = failed(lab, task, 7)
    switch["down"] = False

    (sent,) = replay(lab, letter)

    assert lab.get(lab.app.AsyncResult(sent.task_id)) == "charged 7"
    after = resolved(lab, letter)
    assert (after.resolved_how, after.replays, after.message) == ("replayed", 1, letter.message)
    assert not lab.store.job(letter.submission).letter
    assert history(lab, letter) == [(Verb.REPLAYED, "ann", "mended"), (Verb.RESOLVED, "", "replayed")]


def test_a_replay_is_another_job_with_its_lineage(lab):
    task, switch = fails(lab)
    letter = failed(lab, task, 7)
    switch["down"] = False
    (sent,) = replay(lab, letter)
    resolved(lab, letter)

    job = lab.job(sent.task_id)

    assert sent.task_id != letter.task_id
    assert (job.original, job.causation_id, job.correlation_id) == (
        letter.submission, letter.submission, letter.correlation_id
    )  # fmt: skip
    assert job.trace_id != letter.trace_id


@pytest.mark.parametrize("key", [None, "charge:{order_id}"])
def test_a_replay_that_fails_again_opens_its_letter_and_files_no_other(any_lab, key):
    lab = any_lab
    task, _ = fails(lab, idempotency_key=key)
    letter = failed(lab, task, 7)

    for _ in range(2):
        (sent,) = replay(lab, lab.store.letter(letter.submission))
        lab.error(lab.app.AsyncResult(sent.task_id))
        lab.wait(lambda: state(lab, letter) is LetterState.OPEN, "the letter's opening")

    (kept,) = lab.letters()
    assert (kept.submission, kept.replays, kept.task_id) == (letter.submission, 2, letter.task_id)
    (group,) = lab.store.groups()
    assert (group.filed, group.unresolved) == (3, 1)
    assert [verb for verb, _, _ in history(lab, letter)] == [Verb.REPLAYED, Verb.FAILED_AGAIN] * 2


def test_a_second_press_while_it_is_pending_changes_nothing(lab):
    task, switch = fails(lab)
    letter = failed(lab, task, 7)
    switch["down"] = False
    lab.log.clear()
    items = plan(lab, letter)

    (first,), (second,) = (send_all(lab, items, ANY) for _ in range(2))

    assert first.ok
    assert not second.ok
    # It may be through already.
    assert "being replayed already" in second.said or "it is resolved" in second.said
    resolved(lab, letter)
    assert lab.log == [(7, 1)]


def test_a_done_key_is_not_done_again_by_a_replay(lab):
    task, switch = fails(lab, idempotency_key="charge:{order_id}")
    letter = failed(lab, task, 7)
    switch["down"] = False
    assert lab.get(task.delay(7)) == "charged 7"
    lab.log.clear()

    (sent,) = replay(lab, letter)

    assert lab.get(lab.app.AsyncResult(sent.task_id)) == "charged 7"
    assert resolved(lab, letter).resolved_how == "deduplicated"
    assert lab.log == []


def test_what_may_have_happened_is_left_out_unless_somebody_accepts_that(lab):
    task, _ = fails(lab)
    letter = failed(lab, task, 7)

    (item,) = plan(lab, letter, options=Options())
    (accepted,) = plan(lab, letter)

    assert (item.effect, item.hindrance, item.needs_acceptance) == (Effect.UNKNOWN, Hindrance.EFFECT_UNKNOWN, True)
    assert accepted.ready


def test_a_task_that_declares_replays_safe_needs_nobodys_acceptance(lab):
    @lab.task(idempotency_key="charge:{order_id}", replay="safe")
    def charge(order_id):
        lab.log.append(order_id)
        if len(lab.log) == 1:
            raise TimeoutError
        return "paid"

    letter = failed(lab, charge, 7)
    (item,) = plan(lab, letter, options=Options())
    (sent,) = replay(lab, letter, options=Options())

    assert (item.effect, item.ready, item.needs_acceptance) == (Effect.UNKNOWN, True, False)
    assert lab.get(lab.app.AsyncResult(sent.task_id)) == "paid"


@pytest.mark.parametrize(("then", "today"), [("never", "safe"), ("safe", "never"), ("never", None)])
def test_the_stricter_rule_of_then_and_today_holds(lab, then, today):
    def secret():
        raise ValueError

    letter = failed(lab, lab.task(name="lab.secret", replay=then)(secret))
    lab.app.tasks.pop("lab.secret")
    lab.runtime._policies.clear()
    lab.task(name="lab.secret", replay=today)(secret)
    (item,) = plan(lab, letter)
    assert (item.hindrance, item.rule) == (Hindrance.NEVER, Replays.NEVER)


def test_what_is_never_to_be_replayed_is_replayed_alone_by_somebody_who_says_so(lab):
    task, switch = fails(lab, replay="never")
    letters = [failed(lab, task, number) for number in range(2)]
    switch["down"] = False
    over = Options(include_unknown=True, override_never=True)

    assert [item.hindrance for item in plan(lab, *letters, options=over)] == [Hindrance.NEVER] * 2
    (sent,) = replay(lab, letters[0], options=over)

    assert sent.ok
    resolved(lab, letters[0])
    (decided, _) = lab.store.history(submission=letters[0].submission)
    assert json.loads(decided.details)["overrides_never"] is True


def test_a_task_that_says_nothing_of_replays_is_asked_about_and_told_of(lab):
    silent, _ = fails(lab)
    spoken, _ = fails(lab, replay="confirm")
    items = plan(lab, failed(lab, silent, 1), failed(lab, spoken, 2), options=Options())
    assert [item.hindrance for item in items] == [Hindrance.EFFECT_UNKNOWN] * 2
    assert ["declare replay=" in " ".join(item.notes) for item in items] == [True, False]


def test_a_task_whose_effects_are_steps_had_none_where_none_was_begun(lab):
    task, _ = fails(lab, stepwise=True, idempotency_key="charge:{order_id}")
    letter = failed(lab, task, 7)
    (item,) = plan(lab, letter, options=Options())
    assert (item.effect, item.ready) == (Effect.ABSENT, True)


def test_a_replay_asks_the_verify_hook_first(lab):
    done = []

    def find(order_id):
        return "found" if order_id in done else None

    @lab.task(idempotency_key="charge:{order_id}", verify=find)
    def charge(order_id):
        done.append(order_id)
        raise ValueError

    letter = failed(lab, charge, 7)
    (item,) = plan(lab, letter, options=Options())
    (sent,) = replay(lab, letter, options=Options())

    assert (item.effect, item.ready) == (Effect.UNKNOWN, True)
    assert lab.get(lab.app.AsyncResult(sent.task_id)) == "found"
    assert done == [7]


@pytest.mark.parametrize("key", [None, "charge:{order_id}"])
def test_a_step_that_was_done_is_not_done_again_by_a_replay(lab, key):
    switch = {"down": True}

    @step(side_effect=True)
    def pay(order_id):
        lab.log.append(order_id)
        return "receipt"

    @lab.task(stepwise=True, idempotency_key=key)
    def charge(order_id):
        receipt = pay(order_id)
        if switch["down"]:
            raise ValueError
        return receipt

    letter = failed(lab, charge, 7)
    switch["down"] = False
    (item,) = plan(lab, letter, options=Options())
    (sent,) = replay(lab, letter, options=Options())

    assert (item.effect, item.ready) == (Effect.PROVEN, True)
    assert lab.get(lab.app.AsyncResult(sent.task_id)) == "receipt"
    assert lab.log == [7]


def test_an_accepted_unknown_effect_may_happen_again(lab):
    switch = {"down": True}

    @lab.task(idempotency_key="charge:{order_id}")
    def charge(order_id):
        lab.log.append(order_id)
        if switch["down"]:
            raise TimeoutError
        return "paid"

    letter = failed(lab, charge, 7)
    switch["down"] = False
    assert not plan(lab, letter, options=Options())[0].ready
    (sent,) = replay(lab, letter)

    assert lab.get(lab.app.AsyncResult(sent.task_id)) == "paid"
    assert lab.log == [7, 7]


def test_a_copy_of_the_original_that_comes_after_its_replay_runs_nothing(lab):
    task, switch = fails(lab)
    result = task.delay(7)
    lab.error(result)
    lab.settled(result.id)
    letter = lab.letter(result.id)
    switch["down"] = False
    replay(lab, letter)
    resolved(lab, letter)
    lab.log.clear()

    lab.redeliver(lab.messages(result.id)[0])
    lab.idle()

    assert lab.log == []


def test_a_job_that_was_lost_gives_way_to_its_replay(lab):
    """The owner is slow, not dead: what it brings home after its replay has begun is refused."""
    from tests.inprocess.lab import Gate

    gate, runs = Gate(), []

    @lab.task(bind=True)
    def slow(self):
        runs.append(self.request.id)
        if len(runs) == 1:
            gate.wait()
        return len(runs)

    first = slow.delay()
    gate.await_reached()
    lab.clock.forward(10_000)
    lab.wait(lambda: lab.release_due() and lab.letters(), "the letter")
    (letter,) = lab.letters()
    (sent,) = replay(lab, letter)
    assert lab.get(lab.app.AsyncResult(sent.task_id)) == 2
    gate.open()
    lab.wait(lambda: [a for a in lab.store.attempts(letter.submission) if a.outcome is Outcome.REFUSED], "its refusal")
    lab.release_due()

    assert lab.get(first) == 2
    assert len(runs) == 2
    assert resolved(lab, letter).resolved_how == "replayed"


def test_each_letter_is_replayed_with_its_own_task_payload_and_queue(lab):
    one, first = fails(lab)
    other, second = fails(lab)
    letters = [failed(lab, one, 1, amount=5), failed(lab, other, 2)]
    first["down"] = second["down"] = False
    lab.log.clear()

    sent = replay(lab, *letters)

    assert [lab.get(lab.app.AsyncResult(each.task_id)) for each in sent] == ["charged 1", "charged 2"]
    assert sorted(lab.log) == [(1, 5), (2, 1)]
    kept = [unpack(letter.message) for letter in letters]
    assert [message["headers"]["task"] for message in kept] == [one.name, other.name]
    assert len({message["routing_key"] for message in kept}) == 1


def test_a_payload_that_would_mean_something_else_today_is_refused_with_both_meanings(lab):
    def old(names, email, new=False):
        raise ValueError

    def today(names, email, site=None, new=False):
        lab.log.append(new)

    task = lab.task(name="lab.mail")(old)
    letter = failed(lab, task, {}, "a@b", True)
    lab.app.tasks.pop("lab.mail")
    lab.runtime._policies.clear()
    lab.task(name="lab.mail")(today)

    (item,) = plan(lab, letter)

    assert item.hindrance is Hindrance.SIGNATURE
    assert item.binding is not None
    assert (item.binding.was["new"], item.binding.now["site"]) == (True, True)
    assert "new, site" in item.said

    edited = messages.edit(letter.message, [], {"names": {}, "email": "a@b", "new": True})
    lab.store.decide(letter.submission, Decision(verb=Verb.EDITED, actor="ann", edited=edited))
    (sent,) = replay(lab, lab.store.letter(letter.submission))
    assert lab.get(lab.app.AsyncResult(sent.task_id)) is None
    assert lab.log == [True]


def test_a_payload_that_no_longer_fits_at_all_is_refused(lab):
    def old(one, two):
        raise ValueError

    def today(one):
        pass

    letter = failed(lab, lab.task(name="lab.gone")(old), 1, 2)
    lab.app.tasks.pop("lab.gone")
    (unknown,) = plan(lab, letter)
    lab.runtime._policies.clear()
    lab.task(name="lab.gone")(today)
    (item,) = plan(lab, letter)
    assert (unknown.hindrance, item.hindrance) == (Hindrance.UNREGISTERED, Hindrance.SIGNATURE)
    assert "too many positional arguments" in item.said


def test_a_mended_payload_is_another_payload_on_purpose(lab):
    @lab.task(idempotency_key="charge:{order_id}")
    def charge(order_id, amount):
        if amount < 0:
            raise ValueError
        return amount

    letter = failed(lab, charge, 7, -1)
    edited = messages.edit(letter.message, [7], {"amount": 5})
    lab.store.decide(letter.submission, Decision(verb=Verb.EDITED, actor="ann", edited=edited))

    (sent,) = replay(lab, lab.store.letter(letter.submission))

    assert lab.get(lab.app.AsyncResult(sent.task_id)) == 5
    assert resolved(lab, letter).message == letter.message


def test_the_rest_of_a_chain_is_sent_on_only_where_that_is_asked_for(lab):
    task, switch = fails(lab)

    @lab.task()
    def after(value):
        lab.log.append(value)

    def dies():
        switch["down"] = True
        chain = task.s(7) | after.s()
        result = chain.apply_async()
        lab.error(result.parent)
        lab.settled(result.parent.id)
        switch["down"] = False
        lab.log.clear()
        return lab.letter(result.parent.id)

    letter = dies()
    (item,) = plan(lab, letter)
    assert "without its chain" in item.notes[0]
    replay(lab, letter)
    resolved(lab, letter)
    lab.idle()
    assert lab.log == [(7, 1)]

    again = dies()
    whole = Options(include_unknown=True, with_canvas=True)
    assert "sends on: chain" in plan(lab, again, options=whole)[0].notes[0]
    replay(lab, again, options=whole)
    lab.wait(lambda: "charged 7" in lab.log, "the chain's rest")
    lab.idle()
    assert lab.log == [(7, 1), "charged 7"]


def test_a_replay_that_is_revoked_before_it_begins_gives_its_letter_back(lab):
    task, _ = fails(lab)
    letter = failed(lab, task, 7)
    with lab.app.connection_for_write():
        lab.app.control.cancel_consumer(lab.app.conf.task_default_queue, reply=True)
    (sent,) = replay(lab, letter)
    from celery.worker.state import revoked

    revoked.add(sent.task_id)
    lab.app.control.add_consumer(lab.app.conf.task_default_queue, reply=True)

    lab.wait(lambda: state(lab, letter) is LetterState.OPEN, "the letter's opening")
    assert [verb for verb, _, _ in history(lab, letter)] == [Verb.REPLAYED, Verb.FAILED_AGAIN]


def test_a_poisoned_job_may_be_replayed_once_somebody_decided_that(lab):
    task, switch = fails(lab, idempotency_key="charge:{order_id}")
    letter = failed(lab, task, 7)
    poisoned = lab.store._tables.jobs[letter.submission]
    lab.store._tables.jobs[letter.submission] = type(poisoned)(**{**vars(poisoned), "strikes": 99})
    switch["down"] = False
    (sent,) = replay(lab, letter)
    assert lab.get(lab.app.AsyncResult(sent.task_id)) == "charged 7"
    refused = lab.store.find_jobs(status=Outcome.FAILED)
    assert [job.submission for job in refused] == [letter.submission]


def test_the_replays_header_says_what_it_is(lab):
    task, switch = fails(lab)
    letter = failed(lab, task, 7)
    switch["down"] = False
    (sent,) = replay(lab, letter)
    resolved(lab, letter)
    (copy,) = lab.messages(sent.task_id)
    stamp = headers.find(copy.headers)
    assert (stamp.original, stamp.accepts_unknown) == (letter.submission, 1)


def test_a_letter_without_its_message_is_left_out_with_the_reason(lab):
    task, _ = fails(lab)
    letter = failed(lab, task, 7)
    (item,) = plan(lab, type(letter)(**{**vars(letter), "message": b""}))
    assert (item.hindrance, item.said) == (Hindrance.PAYLOAD, "its message was not kept")
    assert letter.reason is Reason.EXCEPTION
