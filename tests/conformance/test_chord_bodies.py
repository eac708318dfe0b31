"""Any store: a chord's body that is not run has one letter, whoever of its members fail, how often and how."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from celery_replay import chord_bodies
from celery_replay.clock import SECOND
from celery_replay.records import Job, Letter
from celery_replay.serialization import pack
from celery_replay.states import AckMode, Effect, LetterState, Outcome, Reason, Verb, Verdict
from celery_replay.stores.base import Store
from tests.conformance.callers import closes, opens, runs, stored
from tests.conformance.test_triage import begins, decide, letter
from tests.conformance.world import Clock
from tests.rules import builders

BODY = chord_bodies.named("body")


def signature(task_id: str, **options: Any) -> dict[str, Any]:
    """Build a task's signature as a message carries it."""
    return {
        "task": "shop.total",
        "args": ["x"],
        "kwargs": {},
        "options": {"task_id": task_id, **options},
        "subtask_type": None,
        "immutable": False,
    }


def kept(body: Mapping[str, Any] | None) -> bytes:
    """Build a member's kept message."""
    payload = json.dumps([[1], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": body}])
    return pack(
        {
            "v": 1,
            "task": {},
            "headers": {"task": "shop.ship", "id": "member", "root_id": "root"},
            "body": base64.b64encode(payload.encode()).decode(),
            "content_type": "application/json",
            "content_encoding": "utf-8",
            "exchange": "",
            "routing_key": "celery",
            "properties": {},
        }
    )


MESSAGE = kept(signature("body"))


def starts(store: Store, submission: str, message: bytes = MESSAGE, **question: Any) -> Job:
    """OPEN a member."""
    delivery = replace(builders.delivery(submission), message=lambda: message)
    return runs(store, submission, **{"claim": None, "delivery": delivery, "task_id": submission, **question})


def dies(store: Store, job: Job, message: bytes = MESSAGE) -> None:
    """Let a member fail for good."""
    delivery = replace(builders.delivery(job.submission), message=lambda: message)
    closes(store, job, Outcome.FAILED, delivery=delivery)


def bodies(store: Store) -> list[Letter]:
    return [found for found in store.letters() if found.reason is Reason.CHORD_FAILED]


def test_two_members_that_fail_are_one_letter_of_their_body(store: Store, clock: Clock) -> None:
    one, two = starts(store, "one"), starts(store, "two")
    dies(store, one)
    clock.now += SECOND
    dies(store, two)

    (body,) = bodies(store)
    assert (body.submission, body.task_id, body.operation) == (BODY, "body", "shop.total")
    assert body.error_message == "not run because member shop.ship one of its chord failed"
    assert (body.correlation_id, body.effect, body.attempts) == ("correlation", Effect.ABSENT, 1)
    assert sorted(found.submission for found in store.letters()) == sorted([BODY, "one", "two"])
    told = {name: [entry.text for entry in store.history(submission=name)] for name in ("one", "two", BODY)}
    assert [len(texts) for texts in told.values()] == [1, 1, 2]
    assert all(BODY in told[name][0] for name in ("one", "two"))
    (group,) = [found for found in store.groups() if found.reason is Reason.CHORD_FAILED]
    assert (group.filed, group.unresolved) == (1, 1)


def test_members_that_fail_at_once_are_one_letter_of_their_body(store: Store) -> None:
    jobs = [starts(store, f"member{number}") for number in range(4)]
    ready = threading.Barrier(len(jobs))

    def end(job: Job) -> None:
        ready.wait()
        dies(store, job)

    threads = [threading.Thread(target=end, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [found.submission for found in bodies(store)] == [BODY]
    assert len(store.letters()) == len(jobs) + 1


def test_a_members_copy_files_nothing_more(store: Store, clock: Clock) -> None:
    dies(store, starts(store, "one"))
    before = letter(store, BODY)
    clock.now += 3600 * SECOND
    delivery = replace(builders.delivery("one"), message=lambda: MESSAGE)
    assert opens(store, "one", claim=None, delivery=delivery, nonce="again").verdict is Verdict.RAISE_AGAIN
    assert letter(store, BODY) == before
    assert len(store.history(submission=BODY)) == 1


def test_a_body_that_runs_after_all_resolves_its_letter(store: Store, clock: Clock) -> None:
    """The member was lost, came back, and the chord went on."""
    starts(store, "one", ack=AckMode.EARLY)
    clock.now += 3600 * SECOND
    assert store.reap() == 1
    assert letter(store, BODY).state is LetterState.OPEN

    delivery = replace(builders.delivery("one"), message=lambda: MESSAGE)
    back = opens(store, "one", claim=None, delivery=delivery, nonce="back").facts.job
    assert back is not None
    closes(store, back)
    closes(store, runs(store, BODY, claim=None, trace_id="body"))

    for name in ("one", BODY):
        assert (letter(store, name).state, letter(store, name).resolved_how) == (LetterState.RESOLVED, "succeeded")
    assert not stored(store, BODY).letter


def test_nothing_is_filed_of_a_body_that_was_run(store: Store) -> None:
    closes(store, runs(store, BODY, claim=None))
    dies(store, starts(store, "one"))
    assert [found.submission for found in store.letters()] == ["one"]
    assert list(store.history(submission="one")) == []


def test_a_body_that_was_decided_about_stays_so_when_another_member_fails(store: Store) -> None:
    one, two = starts(store, "one"), starts(store, "two")
    dies(store, one)
    begins(store, BODY, "replay")
    closes(store, runs(store, "replay", claim=BODY, original=BODY))
    assert letter(store, BODY).resolved_how == "replayed"
    dies(store, two)
    assert letter(store, BODY).state is LetterState.RESOLVED
    assert len(store.letters()) == 3


def test_a_body_that_comes_beside_its_replay_does_not_run(store: Store) -> None:
    dies(store, starts(store, "one"))
    begins(store, BODY, "replay")
    closes(store, runs(store, "replay", claim=BODY, original=BODY))
    assert opens(store, BODY, claim=None, nonce="late").verdict is Verdict.FIRST_RESULT
    assert stored(store, BODY).status is Outcome.DEDUPLICATED


def test_a_chord_within_a_chord_fails_with_its_bodies(store: Store) -> None:
    inner = kept(signature("inner", chord=signature("outer")))
    dies(store, starts(store, "one", inner), inner)
    found = {body.task_id: body.error_message for body in bodies(store)}
    assert found == {
        "inner": "not run because member shop.ship one of its chord failed",
        "outer": "not run because member shop.total inner of its chord failed",
    }


@pytest.mark.parametrize(("reason", "said"), [(Reason.REVOKED, "was revoked"), (Reason.EXPIRED, "expired")])
def test_a_withdrawn_member_has_no_letter_but_its_body_has(store: Store, reason: Reason, said: str) -> None:
    news = builders.news(
        reason=reason,
        submission="one",
        operation="shop.ship",
        task_id="one",
        message=MESSAGE,
        keep_us=SECOND,
        final=True,
    )
    store.hear(news)
    (body,) = store.letters()
    assert body.error_message == f"not run because member shop.ship one of its chord {said}"
    assert list(store.history(submission="one")) == []


def test_a_result_that_celery_could_not_store_fails_the_chord(store: Store) -> None:
    job = starts(store, "one")
    closes(store, job)
    failure = builders.ending(Outcome.FAILED).failure
    assert failure is not None
    store.amend("one", failure, "{}", MESSAGE)
    (body,) = store.letters()
    assert body.submission == BODY


def test_a_member_without_a_chord_files_itself_alone(store: Store) -> None:
    for number, message in enumerate((kept(None), b"", b"j{}", b"no message")):
        dies(store, starts(store, f"s{number}", message), message)
    assert len(store.letters()) == 4
    assert bodies(store) == []


def test_a_body_that_waits_for_a_decision_is_not_pruned(store: Store, clock: Clock) -> None:
    dies(store, starts(store, "one"))
    clock.now += 10 * 86_400 * SECOND
    store.prune()
    assert stored(store, BODY).letter
    decide(store, BODY, Verb.DISCARDED)
    store.prune()
    assert store.job(BODY) is None


@pytest.mark.parametrize("advanced", [False, True], ids=["before its part was counted", "after"])
def test_a_member_that_died_behind_its_success_files_the_body_unless_its_part_was_counted(
    store: Store, advanced: bool
) -> None:
    closes(store, starts(store, "one", ack=AckMode.LATE_ACKS_LOSS, worker="w", pid=1))
    if advanced:
        store.flush(["one"])
    store.hear(builders.news(submission="one", message=MESSAGE))
    assert [body.submission for body in store.letters()] == ([] if advanced else [BODY])
