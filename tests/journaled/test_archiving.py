"""What happens gets from the ledger to the journal: all of it, once, and nothing that it should not."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from celery_replay.dead_letters import Decision
from celery_replay.exceptions import TriageRefused
from celery_replay.records import Chunk, Job
from celery_replay.states import LetterState, Outcome, StepState, Verb, Verdict
from celery_replay.stores.base import Store
from celery_replay.stores.journaled import JournaledStore
from tests.conformance.remains import tables_with
from tests.django_store.builders import FAILURE, ask, chunk, ending, step
from tests.journaled.conftest import Places
from tests.support import journaled_stores
from tests.support.workers import ROOT, SOURCES

PERSON = "ann.lee@example.org"


def runs(store: Store, submission: str | None = None, **given: Any) -> tuple[Any, Job]:
    of = ask(submission, **given)
    answer = store.open(of)
    assert answer.verdict is Verdict.RUN
    assert answer.facts.job is not None
    return of, answer.facts.job


def succeeds(store: Store, submission: str | None = None, **given: Any) -> Job:
    of, job = runs(store, submission, **given)
    assert store.close(job, ending(of, result="1"), [chunk(of)])[0]
    return job


def fails(store: Store, submission: str | None = None, *, message: str = "no", **given: Any) -> Job:
    of, job = runs(store, submission, **given)
    failure = replace(FAILURE, message=message)
    assert store.close(job, ending(of, Outcome.FAILED, failure=failure), [chunk(of)])[0]
    return job


def archive(store: JournaledStore) -> None:
    """Tell the journal everything now."""
    while store._archive(0, 500):
        pass
    assert store.backlog().count == 0


def decide(store: JournaledStore, submission: str, verb: Verb, **given: Any) -> None:
    store.decide(submission, Decision(verb=verb, actor="ann", **given))


def nothing_said(chunk: Chunk, job: Job) -> tuple[None, tuple[()]]:
    """Take nothing out of events: these say nothing."""
    return None, ()


@contextmanager
def journal_down(store: JournaledStore) -> Iterator[None]:
    """Let no connection to the journal be had."""
    pool = store.journal._pool  # type: ignore[attr-defined]
    pool.close()
    connect = pool._connect

    def refuse() -> Any:
        from django.db import OperationalError

        raise OperationalError("the database is down")

    pool._connect = refuse
    try:
        yield
    finally:
        pool._connect = connect


def counters(store: JournaledStore) -> list[tuple[int, int]]:
    return [(group.filed, group.unresolved) for group in store.groups(unresolved=False)]


def test_a_job_and_all_that_is_told_of_it_get_to_the_journal(store: JournaledStore) -> None:
    of, job = runs(store, key="order-5")
    store.claim_step(job, step(of), of.delivery)
    store.flush(chunks=[chunk(of, blobs=(("b1:large", b"x" * 5_000),))])
    settled = (step(of, state=StepState.SETTLED, output="1"),)
    store.close(job, ending(of, result='"done"', steps=settled), [chunk(of, 3)])

    archive(store)

    journal, ledger, submission = store.journal, store.ledger, job.submission
    assert journal.job(submission) == ledger.job(submission)
    assert journal.attempts(submission) == ledger.attempts(submission) != []
    assert journal.steps(job.identity) == ledger.steps(job.identity) != []
    assert [c.chunk_id for c in journal.chunks(job.trace_id)] == [f"{job.nonce}:1", f"{job.nonce}:3"]
    assert journal.blob("b1:large") == b"x" * 5_000


def test_a_letter_with_its_history_and_its_group_gets_to_the_journal(store: JournaledStore) -> None:
    job = fails(store)
    decide(store, job.submission, Verb.NOTED, text="look at this")

    archive(store)

    assert store.journal.letter(job.submission) == store.ledger.letter(job.submission)
    assert [entry.text for entry in store.journal.history(submission=job.submission)] == ["look at this"]
    assert counters(store) == [(1, 1)]


def test_what_is_told_again_changes_nothing(store: JournaledStore) -> None:
    job = fails(store)
    archive(store)
    before = store.journal.letter(job.submission), counters(store)

    names = [f"j:{job.submission}"]
    store.ledger._run(lambda link: link.do("ZADD", "outbox", 5, names[0]))
    archive(store)

    assert (store.journal.letter(job.submission), counters(store)) == before


def test_what_changes_while_it_is_told_is_told_again(store: JournaledStore) -> None:
    job = fails(store)
    changed = store.ledger.changed

    def and_then_somebody_decides(names: Any) -> Any:
        found = changed(names)
        store.ledger.decide(job.submission, Decision(verb=Verb.DISCARDED, actor="ann"))
        return found

    store.ledger.changed = and_then_somebody_decides  # type: ignore[method-assign]
    store._archive(0, 500)
    del store.ledger.changed  # type: ignore[method-assign]

    letter = store.journal.letter(job.submission)
    assert letter is not None
    assert letter.state is LetterState.OPEN
    archive(store)
    letter = store.journal.letter(job.submission)
    assert letter is not None
    assert (letter.state, counters(store)) == (LetterState.DISCARDED, [(1, 0)])


def test_a_decision_is_in_the_journal_at_once(store: JournaledStore) -> None:
    job = fails(store)
    decide(store, job.submission, Verb.ASSIGNED, assignee="bob")

    letter = store.journal.letter(job.submission)
    assert letter is not None
    assert letter.assignee == "bob"


def test_a_key_goes_from_one_job_to_another_in_the_journal_too(store: JournaledStore) -> None:
    first = fails(store, key="order-5")
    archive(store)
    second = succeeds(store, key="order-5")
    archive(store)

    claims = [(job.claim if job else "gone") for job in map(store.journal.job, (first.submission, second.submission))]
    assert claims == [None, "claim-order-5"]


def test_parked_jobs_come_and_go_in_the_journal(store: JournaledStore) -> None:
    of, job = runs(store, key="order-5")
    waiting = ask(key="order-5")
    assert store.open(waiting).verdict is Verdict.PARKED
    archive(store)
    assert [row.submission for row in store.journal.rows()] == [waiting.delivery.submission]

    store.close(job, ending(of, result="1"))
    freed = replace(waiting, nonce="freed")
    assert store.open(freed).verdict is Verdict.FIRST_RESULT
    store.close(None, ending(freed, Outcome.DEDUPLICATED, claim=None))
    store.flush([waiting.delivery.submission])
    assert store.ledger.rows() == []
    archive(store)
    assert store.journal.rows() == []


def test_nothing_is_noted_where_there_is_no_journal(places: Places) -> None:
    from tests.support import redis_stores

    alone = redis_stores.make_redis_store(places.ledger)
    of = ask()
    job = alone.open(of).facts.job
    alone.close(job, ending(of, result="1"))
    assert alone.noted().count == 0


def test_what_can_not_be_told_does_not_keep_the_others(store: JournaledStore) -> None:
    jobs = [succeeds(store) for _ in range(5)]
    broken = f"j:{jobs[2].submission}"
    store.ledger._run(lambda link: link.do("APPEND", broken, b"?"))
    store.ledger._run(lambda link: link.do("SETRANGE", broken, 0, b"of a newer version"))

    assert store._archive(0, 500)

    known = [store.journal.job(job.submission) is not None for job in jobs]
    assert known == [True, True, False, True, True]
    assert store._archive(0, 500) == 0
    assert store.backlog().count == 1


def test_what_a_redis_had_before_it_had_a_journal_is_told_too(places: Places) -> None:
    from tests.support import redis_stores

    before = redis_stores.make_redis_store(places.ledger)
    of, job = runs(before, key="order-5")
    before.claim_step(job, step(of), of.delivery)
    before.flush(chunks=[chunk(of, blobs=(("b1:large", b"x" * 5_000),))])
    before.close(job, ending(of, steps=(step(of, state=StepState.SETTLED, output="1"),)))
    letters = [fails(before).submission for _ in range(7)]
    before.decide(letters[0], Decision(verb=Verb.DISCARDED, actor="ann", text="no"))
    (group,) = before.groups()
    before.note_group(group.group_id, Decision(verb=Verb.NOTED, actor="ann", text="the bank"))

    store = journaled_stores.make_journaled_store(places.ledger, places.journal, prefix=before._prefix)
    while store.ledger.note_older(3):
        pass
    archive(store)

    journal = store.journal
    assert journal.job(job.submission) == store.ledger.job(job.submission)
    assert journal.steps(job.identity) != []
    assert journal.blob("b1:large") == b"x" * 5_000
    assert [journal.letter(name) == store.ledger.letter(name) for name in letters] == [True] * 7
    assert [entry.text for entry in journal.history(submission=letters[0])] == ["no"]
    assert [entry.text for entry in journal.notes(group.group_id)] == ["the bank"]
    assert counters(store) == [(7, 6)]
    assert store.archive() == 0


# A journal that is down.


def test_jobs_go_on_while_the_journal_is_down_and_are_told_when_it_is_back(store: JournaledStore) -> None:
    archive(store)
    with journal_down(store):
        jobs = [succeeds(store), fails(store)]
        decide(store, jobs[1].submission, Verb.NOTED, text="seen")
        assert store.backlog().count >= 2
        assert any("jobs go on" in said for said in store.troubles())
        assert store.overview().open_letters == 1

    archive(store)
    assert [store.journal.job(job.submission) is not None for job in jobs] == [True, True]
    assert store.troubles() == []


def test_nothing_is_erased_while_the_journal_is_down(store: JournaledStore) -> None:
    job = fails(store, message=PERSON)
    archive(store)
    with journal_down(store), pytest.raises(Exception, match="can't be reached"):
        store.erase(job.submission, Decision(verb=Verb.ERASED, actor="ann"), nothing_said)
    letter = store.ledger.letter(job.submission)
    assert letter is not None
    assert letter.error_message == PERSON


# A ledger that lost what it had.


def test_a_letter_that_the_ledger_lost_is_replayed_from_the_journal(store: JournaledStore, places: Places) -> None:
    job = fails(store, key="order-5")
    archive(store)
    places.wipe()

    decision = Decision(verb=Verb.REPLAYED, actor="ann", replay="again")
    row = store.begin_replay(job.submission, decision, b"message")

    assert row.submission == "again"
    of, replay = runs(store, "again", key="order-5", original=job.submission)
    store.close(replay, ending(of, result="1"))
    archive(store)
    letter = store.journal.letter(job.submission)
    assert letter is not None
    assert (letter.state, letter.resolved_how) == (LetterState.RESOLVED, "replayed")
    assert counters(store) == [(1, 0)]


def test_a_letter_whose_replay_the_ledger_lost_can_be_replayed_again(store: JournaledStore, places: Places) -> None:
    job = fails(store)
    store.begin_replay(job.submission, Decision(verb=Verb.REPLAYED, actor="ann", replay="again"), b"message")
    places.wipe()

    store.begin_replay(job.submission, Decision(verb=Verb.REPLAYED, actor="ann", replay="once more"), b"message")

    told = [entry.text for entry in store.history(submission=job.submission)]
    assert "the ledger lost its replay" in told


def test_a_parked_job_that_the_ledger_lost_is_sent_on_when_somebody_frees_it(
    store: JournaledStore, places: Places
) -> None:
    runs(store, key="order-5")
    waiting = ask(key="order-5")
    store.open(waiting)
    archive(store)
    places.wipe()

    row = store.free(waiting.delivery.submission, "ann", "Redis was flushed")

    assert row.message == waiting.delivery.message()
    assert store.open(replace(waiting, nonce="freed")).verdict is Verdict.RUN


def test_a_parked_job_that_has_run_since_is_not_put_back(store: JournaledStore, places: Places) -> None:
    runs(store, key="order-5")
    waiting = ask("waiter", key="order-5")
    store.open(waiting)
    archive(store)
    places.wipe()
    succeeds(store, "waiter")

    with pytest.raises(TriageRefused, match="not parked"):
        store.free("waiter", "ann", "late")


def test_a_key_that_went_on_after_the_loss_stays_where_it_is(store: JournaledStore, places: Places) -> None:
    lost = fails(store, key="order-5")
    archive(store)
    places.wipe()
    done = succeeds(store, key="order-5")
    archive(store)

    decide(store, lost.submission, Verb.NOTED, text="seen")

    again = store.open(ask(key="order-5"))
    assert again.verdict is Verdict.FIRST_RESULT
    assert [job.claim for job in map(store.ledger.job, (lost.submission, done.submission)) if job] == [
        None,
        "claim-order-5",
    ]


def test_a_job_that_runs_again_after_the_loss_does_not_hide_its_letter(store: JournaledStore, places: Places) -> None:
    job = fails(store, "job")
    archive(store)
    places.wipe()
    succeeds(store, "job")
    archive(store)

    found = store.journal.job(job.submission)
    assert found is not None
    assert (found.status, found.letter) == (Outcome.SUCCEEDED, True)
    assert store.overview().open_letters == 1


# Erasing.


def test_an_erased_job_leaves_nothing_of_the_person_in_either_store(store: JournaledStore) -> None:
    job = fails(store, message=PERSON)
    archive(store)
    assert tables_with(store, PERSON)
    store.erase(job.submission, Decision(verb=Verb.ERASED, actor="ann"), nothing_said)
    assert tables_with(store, PERSON) == set()
    assert store.journal.letter(job.submission) == store.ledger.letter(job.submission)


def test_what_the_journal_alone_has_is_erased(store: JournaledStore, places: Places) -> None:
    of, job = runs(store)
    store.close(job, ending(of, result=f'"{PERSON}"'))
    archive(store)
    places.wipe()
    store.erase(job.submission, Decision(verb=Verb.ERASED, actor="ann"), nothing_said)
    assert tables_with(store, PERSON) == set()


def test_a_job_that_nobody_knows_is_not_erased(store: JournaledStore) -> None:
    with pytest.raises(TriageRefused, match="no such job"):
        store.erase("nobody", Decision(verb=Verb.ERASED, actor="ann"), nothing_said)


def test_a_batch_that_was_read_before_brings_nothing_back(store: JournaledStore, places: Places) -> None:
    """Two processes: one reads a batch and is slow, the other erases meanwhile; it has to wait."""
    job = fails(store, message=PERSON)
    slow = journaled_stores.make_journaled_store(
        places.ledger, places.journal, empty=False, prefix=store.ledger._prefix
    )
    read, go_on = threading.Event(), threading.Event()
    changed = slow.ledger.changed

    def slowly(names: Any) -> Any:
        found = changed(names)
        read.set()
        go_on.wait(10)
        return found

    slow.ledger.changed = slowly  # type: ignore[method-assign]
    archiver = threading.Thread(target=slow._archive, args=(0, 500))
    archiver.start()
    assert read.wait(10)
    decision = Decision(verb=Verb.ERASED, actor="ann")
    eraser = threading.Thread(target=store.erase, args=(job.submission, decision, nothing_said))
    eraser.start()
    eraser.join(0.5)
    assert eraser.is_alive()
    go_on.set()
    archiver.join(20)
    eraser.join(20)

    assert tables_with(store, PERSON) == set()


# Deaths.

POINTS = ("taken", "read", "written", "committed", "told")


@pytest.mark.parametrize("places", [("redis", "sqlite"), ("valkey", "postgresql")], indirect=True, ids="-".join)
@pytest.mark.parametrize("point", POINTS)
def test_whoever_is_killed_while_it_tells_loses_nothing(store: JournaledStore, places: Places, point: str) -> None:
    letters = [fails(store) for _ in range(3)]
    done = succeeds(store, key="order-5")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    arguments = [places.ledger, places.journal, store.ledger._prefix, point]
    killed = subprocess.run(
        [sys.executable, "-m", "tests.journaled.killed", *arguments], cwd=ROOT, env=environment, check=False
    )
    assert killed.returncode == -signal.SIGKILL

    archive(store)

    assert store.journal.job(done.submission) == store.ledger.job(done.submission)
    for job in letters:
        assert store.journal.letter(job.submission) == store.ledger.letter(job.submission)
    assert counters(store) == [(3, 3)]
    hours = store.journal.trend([group.group_id for group in store.groups()], 0)
    assert [sum(bars.values()) for bars in hours.values()] == [3]


@pytest.mark.parametrize("places", [("redis", "postgresql")], indirect=True, ids="-".join)
def test_archivers_killed_at_any_moment_under_load_lose_nothing_and_count_right(
    store: JournaledStore, places: Places
) -> None:
    chance = random.Random(os.environ.get("REPLAY_CHAOS_SEED", "7"))
    letters: list[Job] = []
    for _ in range(3):
        with _archiver(store, places) as process:
            until = time.monotonic() + chance.uniform(0.1, 1)
            while time.monotonic() < until:
                letters.append(fails(store, key=f"order-{len(letters) % 3}"))
                decide_alone(store, chance.choice(letters).submission)
            process.kill()

    archive(store)

    for job in letters:
        assert store.journal.job(job.submission) == store.ledger.job(job.submission)
        assert store.journal.letter(job.submission) == store.ledger.letter(job.submission)
        assert store.journal.attempts(job.submission) == store.ledger.attempts(job.submission)
    waiting = sum(
        letter.state.unresolved for letter in map(store.journal.letter, {j.submission for j in letters}) if letter
    )
    assert counters(store) == [(len(letters), waiting)]


def decide_alone(store: JournaledStore, submission: str) -> None:
    """Decide in the ledger alone, as if whoever did it died before the journal was told."""
    with suppress(TriageRefused):
        store.ledger.decide(submission, Decision(verb=Verb.DISCARDED, actor="ann"))


@contextmanager
def _archiver(store: JournaledStore, places: Places) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    command = [
        sys.executable,
        "-m",
        "tests.journaled.killed",
        places.ledger,
        places.journal,
        store.ledger._prefix,
        "any",
    ]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "at work\n"
            yield process
        finally:
            process.kill()


def test_a_letter_whose_name_a_column_has_no_room_for_counts_once(store: JournaledStore) -> None:
    job = fails(store, "j" * 300)
    archive(store)
    decide(store, job.submission, Verb.NOTED, text="seen")
    archive(store)
    assert counters(store) == [(1, 1)]


def test_messages_of_every_kind_of_text_get_through(store: JournaledStore) -> None:
    odd = "nul \x00, lone \ud800, ünïcode 🐇, tab\t, line\n"
    job = fails(store, "job " + odd, message=odd, key=odd)
    archive(store)
    assert store.journal.letter(job.submission) == store.ledger.letter(job.submission)
    assert store.journal.job(job.submission) == store.ledger.job(job.submission)
