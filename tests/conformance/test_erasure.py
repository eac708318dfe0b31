"""Any store: a person's data goes for good, and what was done is still known."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.exceptions import TriageRefused
from celery_replay.records import Chunk, Failure, Job
from celery_replay.serialization import pack
from celery_replay.states import AckMode, LetterState, Outcome, StepState, Verb
from celery_replay.stores.base import Store
from celery_replay.trace import Recorder, stripped, timeline
from tests.conformance.callers import claims, closes, opens, runs, settled, step, stored
from tests.conformance.remains import tables_with
from tests.conformance.world import Clock
from tests.rules.builders import delivery, ending

PERSON = "ann.lee@example.org"
LARGE = "x" * 2_000


def message() -> bytes:
    """Pack a delivery whose payload names the person."""
    return pack(
        {"headers": {"argsrepr": PERSON}, "body": base64.b64encode(f'[["{PERSON}"], {{}}, {{}}]'.encode()).decode()}
    )


def events(trace_id: str, job: Job, **said: object) -> list[Chunk]:
    recorder = Recorder(trace_id, job.nonce, {"job": job.task_id, "worker": "w/1", "key": job.key})
    recorder.record("started")
    recorder.record("letter_sent", domain=True, attributes=said)
    return recorder.take()


def fails(store: Store, name: str = "a", **question: object) -> Job:
    """Let a job fail that names the person wherever a job can."""
    job = runs(store, name, task_id=name, trace_id="trace", key=f"mail:{PERSON}", fingerprint=PERSON, **question)
    claims(store, job, f"sent:{PERSON}")
    store.flush(chunks=events("trace", job, to=PERSON, text=[PERSON, LARGE], shared=[LARGE]))
    done = replace(settled(step(job, f"sent:{PERSON}")), name="send", output=f'"{PERSON}"')
    closes(
        store,
        job,
        Outcome.FAILED,
        failure=Failure(type="ValueError", message=f"no {PERSON}", traceback=f"Traceback\n{PERSON}"),
        failure_json=f'{{"type": "ValueError", "message": "no {PERSON}", "reason": "exception"}}',
        steps=(done,),
        delivery=replace(delivery(name), message=message),
        canvas=False,
    )
    for verb, more in ((Verb.NOTED, {"text": PERSON}), (Verb.EDITED, {"edited": message()})):
        store.decide(name, Decision(verb=verb, actor="bob", **more))  # type: ignore[arg-type]
    return stored(store, name)


def erase(store: Store, name: str = "a") -> Job:
    return store.erase(name, Decision(verb=Verb.ERASED, actor="bob", text="request 7"), stripped)


def test_nothing_of_the_person_is_left_in_any_table(store: Store) -> None:
    fails(store)
    named = {name.lower() for name in tables_with(store, PERSON)}
    for table in ("job", "letter", "step", "group", "chunk", "blob", "history"):
        assert any(table in name for name in named), f"the test writes nothing about the person into {table}"
    erase(store)
    assert tables_with(store, PERSON) == set()


def test_nothing_of_the_person_is_left_of_a_job_that_succeeded(store: Store) -> None:
    job = runs(store, "a", key=f"mail:{PERSON}", fingerprint=PERSON)
    closes(store, job, result=f'"{PERSON}"', canvas=False)
    assert tables_with(store, PERSON)
    erase(store)
    assert tables_with(store, PERSON) == set()


def test_nothing_of_the_person_is_left_of_resources_that_are_named_after_it(store: Store, clock: Clock) -> None:
    name = f"customer:{PERSON}"
    first = runs(store, "first", claim=None, resources=(name,))
    store.free_lease(name, "bob", f"{PERSON} waits", force=True)
    clock.now += 100 * SECOND
    second = runs(store, "second", claim=None, resources=(name,))
    closes(store, second, claim=None, resources=(name,), canvas=False)
    closes(store, runs(store, "first", nonce="again", claim=None), claim=None, canvas=False)
    assert {holding.submission for holding in store.holdings(name)} == {first.submission, "second"}
    erase(store, "first")
    assert [holding.submission for holding in store.holdings(name)] == ["second"]
    erase(store, "second")
    assert tables_with(store, PERSON) == set()


def test_a_resource_that_somebody_has_is_not_forgotten(store: Store) -> None:
    closes(store, runs(store, "a", claim=None, resources=("r",)), claim=None, resources=("r",), canvas=False)
    runs(store, "b", claim=None, resources=("r",))
    fence = store.lease("r")
    erase(store, "a")
    assert store.lease("r") == fence


def test_ids_outcome_and_times_stay(store: Store) -> None:
    before = fails(store)
    letter = store.letter("a")
    after, kept = erase(store), store.letter("a")
    assert letter is not None
    assert kept is not None
    same = ("submission", "task_id", "trace_id", "operation", "status", "claim", "started_at", "closed_at", "attempts")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    assert stored(store, "a") == after
    assert (kept.state, kept.error_type, kept.group_id, kept.last_failed) == (
        LetterState.OPEN, "ValueError", letter.group_id, letter.last_failed
    )  # fmt: skip
    assert (kept.message, kept.edited) == (b"", None)
    assert [event.name for event in timeline(store, "trace")] == ["started", "letter_sent"]


def test_who_erased_and_why_is_kept_also_when_it_is_erased_again(store: Store) -> None:
    fails(store)
    erase(store)
    erase(store)
    told = sorted((entry.verb, entry.actor, entry.text) for entry in store.history(submission="a"))
    erased = [(Verb.ERASED, "bob", "request 7")] * 2
    assert told == [(Verb.EDITED, "bob", ""), *erased, (Verb.NOTED, "bob", "[erased]")]


def test_a_duplicate_still_finds_that_it_was_done(store: Store) -> None:
    closes(store, runs(store, "a", key="mail"), result='"done"', canvas=False)
    erase(store)
    answer = opens(store, "b", key="mail")
    assert str(answer.verdict) == "first_result"
    assert answer.source is not None
    assert (answer.source.result, answer.source.result_lost) == (None, True)


def test_a_step_whose_key_was_erased_is_still_known_as_done(store: Store) -> None:
    fails(store)
    erase(store)
    later = runs(store, "b", key="mail")
    owned, earlier = claims(store, later, f"sent:{PERSON}")
    assert owned
    assert earlier is not None
    assert (earlier.state, earlier.output) == (StepState.SETTLED, None)


def test_events_that_nobody_can_read_are_a_refusal(store: Store) -> None:
    job = fails(store)
    store.flush(chunks=[Chunk(trace_id="trace", nonce=job.nonce, first=90, count=1, body=b"jnone")])
    with pytest.raises(TriageRefused, match="can't be read"):
        erase(store)
    assert tables_with(store, PERSON)


def test_what_others_have_too_stays(store: Store) -> None:
    fails(store)
    other = runs(store, "other", claim=None, task_id="other", trace_id="elsewhere")
    store.flush(chunks=events("elsewhere", other, shared=[LARGE]))
    beside = runs(store, "beside", claim=None, task_id="beside", trace_id="trace")
    store.flush(chunks=events("trace", beside, to="ben"))
    erase(store)
    (event,) = [event for event in timeline(store, "elsewhere") if event.domain]
    assert store.blob(event.attributes["shared"]["blob"]) is not None
    assert [event.attributes for event in timeline(store, "trace") if event.domain] == [{"erased": True}, {"to": "ben"}]


def test_a_large_value_that_two_jobs_of_one_trace_have_goes_with_the_second(store: Store) -> None:
    fails(store)
    beside = runs(store, "beside", claim=None, task_id="beside", trace_id="trace")
    store.flush(chunks=events("trace", beside, shared=[LARGE]))
    closes(store, beside, canvas=False)
    (reference,) = [
        event.attributes["shared"]["blob"]
        for event in timeline(store, "trace")
        if event.job_id == "beside" and event.domain
    ]
    erase(store)
    assert store.blob(reference) is not None
    erase(store, "beside")
    assert store.blob(reference) is None


@pytest.mark.parametrize("way", ["flushed", "with its end"])
def test_a_large_value_is_pruned_with_the_last_trace_that_has_it(store: Store, clock: Clock, way: str) -> None:
    for name, days in (("a", 1), ("b", 9)):
        job = runs(store, name, claim=None, task_id=name, trace_id=name, keep_us=days * 86_400 * SECOND)
        chunks = events(name, job, shared=[LARGE])
        store.flush(chunks=chunks if way == "flushed" else ())
        kept = ending(
            delivery=delivery(name), nonce=job.nonce, claim=None, keep_us=days * 86_400 * SECOND, canvas=False
        )
        assert store.close(job, kept, chunks if way != "flushed" else ())[0]
    (_, event) = timeline(store, "b")
    for days, is_kept in ((2, True), (9, False)):
        clock.now += days * 86_400 * SECOND
        while store.prune():
            pass
        assert (store.blob(event.attributes["shared"]["blob"]) is not None) is is_kept


def running(store: Store, clock: Clock) -> None:
    runs(store, "a")


def silent(store: Store, clock: Clock) -> None:
    runs(store, "a")
    clock.now += 61 * SECOND


def retried(store: Store, clock: Clock) -> None:
    closes(store, runs(store, "a"), Outcome.RETRY_SCHEDULED, reserve_us=SECOND)


def sends_its_canvas(store: Store, clock: Clock) -> None:
    closes(store, runs(store, "a"), canvas=True)


def has_duplicates_parked(store: Store, clock: Clock) -> None:
    job = runs(store, "a")
    opens(store, "b")
    closes(store, job, Outcome.FAILED, failure=Failure(type="E", message=""), canvas=False)


def is_replayed(store: Store, clock: Clock) -> None:
    job = runs(store, "a", claim=None)
    closes(store, job, Outcome.FAILED, failure=Failure(type="E", message=""), canvas=False)
    store.begin_replay("a", Decision(verb=Verb.REPLAYED, actor="bob", replay="a2"), b"again")


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (running, "has not ended"),
        (silent, "has not ended"),
        (retried, "has not ended"),
        (sends_its_canvas, "callbacks"),
        (has_duplicates_parked, "parked behind it"),
        (is_replayed, "being replayed"),
        (lambda store, clock: None, "no such job"),
    ],
)
def test_a_job_whose_data_is_still_needed_is_refused_and_left_as_it_is(
    store: Store, clock: Clock, happens: object, said: str
) -> None:
    happens(store, clock)  # type: ignore[operator]
    before = store.job("a"), store.letter("a")
    with pytest.raises(TriageRefused, match=said):
        erase(store)
    assert (store.job("a"), store.letter("a")) == before
    assert [entry for entry in store.history(submission="a") if entry.verb is Verb.ERASED] == []


def test_a_job_that_is_parked_itself_is_refused(store: Store, clock: Clock) -> None:
    job = runs(store, "a", ack=AckMode.EARLY)
    runs(store, "b", nonce="b.0", claim=None)
    clock.now += 61 * SECOND
    runs(store, "c")
    closes(store, job, Outcome.REFUSED)
    with pytest.raises(TriageRefused, match="parking lot"):
        erase(store)
