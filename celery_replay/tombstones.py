"""What stays of records from which a person's data was erased: ids, outcomes, times, digests. Pure."""

from __future__ import annotations

import json

from .clock import Micros
from .records import ERASED, HistoryEntry, Job, Letter, Row, StepRecord, evolve
from .states import LetterState, Outcome, Verb


def refusal(job: Job | None, row: Row | None, letter: Letter | None, now: Micros, *, waited_for: bool) -> str:
    """Say why a job's data can't be erased now; empty where it can: nothing needs it any more.

    Args:
        waited_for: others with its key are parked, so that their data would stay.
    """
    if job is None:
        return "there is no such job"
    replayed = letter is not None and letter.state is LetterState.REPLAY_PENDING
    reasons = (
        (waited_for, "jobs with its key are parked behind it; wait for their end"),
        (row is not None, "it is in the parking lot: its message is still needed"),
        (replayed, "it is being replayed"),
        (not job.status.over, f"it has not ended: it is {job.status}"),
        (
            job.canvas_until is not None and job.canvas_until > now,
            "its callbacks are being sent; try again in a minute",
        ),
    )
    return next((said for holds, said in reasons if holds), "")


def of_job(job: Job) -> Job:
    """Keep what idempotency needs: the claim, and that there was a result."""
    succeeded = job.status in (Outcome.SUCCEEDED, Outcome.DEDUPLICATED)
    return evolve(
        job,
        key=_text(job.key),
        fingerprint=None,
        message=None,
        result=None,
        result_lost=job.result_lost or succeeded,
        failure=_failure(job.failure),
    )


def _failure(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        told = json.loads(text)
        return json.dumps({"type": told["type"], "message": ERASED, "reason": told["reason"]})
    except (ValueError, KeyError, TypeError):  # it is not of this version
        return json.dumps({"message": ERASED})


def of_letter(letter: Letter) -> Letter:
    """Keep where it failed, and with which type of error."""
    return evolve(
        letter,
        key=_text(letter.key),
        error_message=_text(letter.error_message),
        traceback=_text(letter.traceback),
        message=b"",
        edited=None,
        revision=letter.revision + 1,
    )


def of_step(step: StepRecord) -> StepRecord:
    """Keep that it was done, under the digest of its key."""
    return evolve(step, key=f"{ERASED}{step.step_id}", output=None)


def of_entry(entry: HistoryEntry) -> HistoryEntry:
    """Keep who did what, and when; of an earlier erasure, also why."""
    if entry.verb is Verb.ERASED:
        return entry
    # A resource may be named after a person; a dry run has the job's data.
    details = "{}" if entry.verb in (Verb.LEASE_FREED, Verb.TRIED) else entry.details
    return evolve(entry, text=_text(entry.text), details=details)


def _text(text: str) -> str:
    return ERASED if text else ""
