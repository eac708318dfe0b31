"""One job amid disturbances: a store's short ways have to answer and leave what the long ways do.

OPEN, CLOSE and a step's claim go straight to the database where nothing stands in their way. The long way goes rule by
rule, and is what `celery_replay.stores.base` does for every store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from celery_replay.admission import Ask
from celery_replay.clock import SECOND
from celery_replay.records import Job
from celery_replay.states import AckMode, Outcome, StepState, Verdict
from celery_replay.stores.base import Pulse, Store
from tests.conformance.world import Clock
from tests.django_store.builders import ask, chunk, delivery, ending, step
from tests.rules.builders import NOW


class LongWay:
    """Put before a kind of store, takes no shortcuts."""

    _admit_new = Store._admit_new
    _close_own = Store._close_own
    _claim_new = Store._claim_new


@dataclass(frozen=True)
class Case:
    """A job, and what comes before and between."""

    before: str
    between: set[str]
    options: dict[str, Any]
    """Of its OPEN."""
    ends: dict[str, Any]
    """Of its CLOSE."""
    chunks: int
    settled: bool
    """Its CLOSE settles a step."""


CASES = st.builds(
    Case,
    before=st.sampled_from(["nothing", "parked", "held", "failed", "own", "succeeded", "leased", "leased before"]),
    between=st.sets(
        st.sampled_from(
            ["waiter", "lease waiter", "lapse", "copy", "step", "other step", "reaped", "renewed", "taken over"]
        )
    ),
    options=st.fixed_dictionaries(
        {
            "resources": st.sampled_from([(), (), ("r",), ("r", "s")]),
            "key": st.sampled_from(["", "k", "tab\there\\n\nline"]),
            "ack": st.sampled_from(AckMode),
            "is_step": st.booleans(),
            "generation": st.integers(0, 1),
            "published_at": st.sampled_from([None, NOW - SECOND]),
            "expires_at": st.sampled_from([None, None, None, NOW + SECOND]),
            "original": st.sampled_from([None, None, None, "other"]),
            "trace_id": st.sampled_from(["s", "another"]),
        }
    ),
    ends=st.fixed_dictionaries(
        {
            "outcome": st.sampled_from(
                [
                    Outcome.SUCCEEDED,
                    Outcome.SUCCEEDED,
                    Outcome.RETRY_SCHEDULED,
                    Outcome.FAILED,
                    Outcome.FAILED,
                    Outcome.ROLLED_BACK,
                    Outcome.IGNORED,
                    Outcome.INTERRUPTED,
                    Outcome.REQUEUED,
                    Outcome.SUPERSEDED,
                ]
            ),
            "canvas": st.booleans(),
            "result": st.sampled_from([None, "null", '"\x00\ud800"']),
            "unsettled": st.booleans(),
            "reserve_us": st.sampled_from([0, 7 * SECOND]),
        }
    ),
    chunks=st.integers(0, 3),
    settled=st.booleans(),
)
EXAMPLES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def play(store: Store, clock: Clock, case: Case) -> list[Any]:
    """Let the case happen in an empty store; return all answers and what is left in the end."""
    clock.now = NOW
    _prepare(store, case.before)
    clock.now += SECOND // 2
    of = ask("s", nonce="nonce", **case.options)
    admission = store.open(of)
    answers: list[Any] = [admission.verdict, admission.facts.job, admission.incomplete]
    answers += [(place.lease.resource, place.lease.fence, place.lease.until) for place in admission.facts.places]
    job = admission.facts.job
    if admission.verdict is Verdict.RUN and job is not None:
        clock.now += SECOND
        for name, disturb in _DISTURBANCES.items():
            if name in case.between:
                disturb(store, clock, of, job)
        steps = (step(of, "a", StepState.SETTLED, output="1"),) if case.settled else ()
        events = [chunk(of, n, blobs=((f"b{n}", b"x"),)) for n in range(case.chunks)]
        accepted, rows = store.close(job, ending(of, steps=steps, resources=of.resources, **case.ends), events)
        answers += [accepted, list(rows)]
    return answers + records(store, of)


def _prepare(store: Store, before: str) -> None:
    if before == "nothing":
        return
    resources = ("s",) if "leased" in before else ()
    first = ask("s" if before == "own" else "other", "k", nonce="first", resources=resources)
    job = store.open(first).facts.job
    if before == "leased before":
        store.close(job, ending(first, Outcome.FAILED, resources=resources))
    if before == "parked":
        store.open(ask("s", "k", nonce="earlier"))
    if before in ("failed", "succeeded"):
        store.close(job, ending(first, Outcome(before)), [chunk(first)])


def _waiter(store: Store, clock: Clock, of: Ask, job: Job) -> None:
    store.open(ask("waiter", of.key, nonce="waiter"))
    clock.now += 1


def _lease_waiter(store: Store, clock: Clock, of: Ask, job: Job) -> None:
    store.open(ask("waiter", nonce="waiter", resources=("r",)))


def _lapse(store: Store, clock: Clock, of: Ask, job: Job) -> None:
    clock.now += 1000 * SECOND
    store.open(ask("thief", nonce="thief", resources=("s",)))


def _copy(store: Store, clock: Clock, of: Ask, job: Job) -> None:
    store.open(ask("s", of.key, of.delivery.generation, nonce="copy"))


def _step(store: Store, clock: Clock, of: Ask, job: Job) -> None:
    store.claim_step(job, step(of, "a"), delivery("s"))


def _other_step(store: Store, clock: Clock, of: Ask, job: Job) -> None:
    store.claim_step(job, step(of, "b"), delivery("s"))
    store.claim_step(job, step(of, "b"), delivery("s"))


def _reaped(store: Store, clock: Clock, of: Ask, job: Job) -> None:
    clock.now += 1000 * SECOND
    store.reap()


def _renewed(store: Store, clock: Clock, of: Ask, job: Job) -> None:
    pulse = Pulse(submission="s", nonce=of.nonce, claim=of.claim, lease_us=of.lease_us, resources=of.resources)
    store.renew([pulse])


def _taken_over(store: Store, clock: Clock, of: Ask, job: Job) -> None:
    clock.now += 1000 * SECOND
    store.open(ask("s", of.key, of.delivery.generation, nonce="copy", resources=of.resources))


_DISTURBANCES: dict[str, Callable[[Store, Clock, Ask, Job], None]] = {
    "waiter": _waiter,
    "lease waiter": _lease_waiter,
    "lapse": _lapse,
    "copy": _copy,
    "step": _step,
    "other step": _other_step,
    "reaped": _reaped,
    "renewed": _renewed,
    "taken over": _taken_over,
}


def records(store: Store, of: Ask) -> list[Any]:
    """Return all that is left of a job, its neighbours and their resources."""
    of_jobs = (store.job, store.row, store.letter, store.attempts)
    of_resources = (store.lease, store.holdings, store.line)
    chunks = sorted((replace(c, blobs=()) for c in store.chunks(of.trace_id)), key=attrgetter("first"))
    steps = sorted(store.steps(of.identity), key=attrgetter("key"))
    found: list[Any] = [chunks, steps, store.blob("b0"), store.owners(["key", "claim-k"])]
    groups = store.groups(unresolved=False)
    happened = [replace(entry, entry_id="") for entry in store.history(submission="s")]
    found += [list(groups), store.trend([group.group_id for group in groups], 0), happened, list(store.find_jobs())]
    found += [look(name) for name in ("s", "other", "waiter", "thief") for look in of_jobs]
    return found + [look(name) for name in ("r", "s") for look in of_resources]
