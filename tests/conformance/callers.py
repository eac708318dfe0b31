"""Short words for calling a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from celery_replay.admission import Admission
from celery_replay.records import Job, Row, StepRecord
from celery_replay.states import Outcome, RowStatus, StepState
from celery_replay.stores.base import Store
from tests.rules import builders

KEY = builders.KEY


def opens(store: Store, submission: str, *, generation: int = 0, **question: Any) -> Admission:
    """OPEN a delivery under a nonce of its own."""
    return store.open(builders.ask(submission, generation, **{"nonce": f"{submission}.{generation}", **question}))


def runs(store: Store, submission: str, *, generation: int = 0, **question: Any) -> Job:
    """OPEN a delivery that may run."""
    job = opens(store, submission, generation=generation, **question).facts.job
    assert job is not None
    assert job.nonce == question.get("nonce", f"{submission}.{generation}")
    return job


def closes(store: Store, job: Job, outcome: Outcome = Outcome.SUCCEEDED, **changes: Any) -> Sequence[Row]:
    """CLOSE an attempt that is the owner; return the rows that may be published."""
    delivery = builders.delivery(job.submission, job.generation)
    ending = builders.ending(outcome, **{"delivery": delivery, "nonce": job.nonce, "claim": job.claim, **changes})
    accepted, rows = store.close(job, ending)
    assert accepted is (outcome is not Outcome.REFUSED)
    return rows


def step(job: Job, key: str = "effect", state: StepState = StepState.CLAIMED) -> StepRecord:
    """Build a step of an attempt."""
    return StepRecord(scope=job.identity, key=key, name=key, state=state, nonce=job.nonce)


def claims(store: Store, job: Job, key: str = "effect") -> tuple[bool, StepRecord | None]:
    """Write a step ahead."""
    return store.claim_step(job, step(job, key), builders.delivery(job.submission, job.generation))


def settled(claimed: StepRecord) -> StepRecord:
    """Build the end of a step."""
    return replace(claimed, state=StepState.SETTLED, output='"done"')


def stored(store: Store, submission: str) -> Job:
    """Return a job that exists."""
    job = store.job(submission)
    assert job is not None
    return job


def stations(store: Store) -> dict[str, RowStatus]:
    """Return where the parked jobs are."""
    return {row.submission: row.status for row in store.rows()}
