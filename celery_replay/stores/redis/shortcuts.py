"""OPEN, CLOSE and a step's claim of a job that meets nobody: what each one's script is given.

The rules run at time zero, since the store's clock is not known yet: each time that they set is then a distance from
now, which the script adds. Nothing is decided there but whether the job is alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import admission, lifecycle
from ...admission import Admission, Ask
from ...clock import Micros
from ...facts import Facts
from ...lifecycle import Ending
from ...records import Chunk, Job, StepRecord, filled
from ...states import StepState
from . import codec
from .jobs import MANY, OPENED, body, guard, marks, tail, without_blobs
from .links import Argument

ZERO: Micros = 0
_OPENED = (*OPENED, "keep_until")


def opening(ask: Ask) -> tuple[Job, list[Argument]] | None:
    """Return a job of which nothing is known, and what `open.lua` is given; None where that would not do."""
    # A deadline can only be judged by the clock, which is not known yet.
    if ask.expires_at is not None or ask.original is not None or ask.resources:
        return None
    job = admission.first_job(ask, ZERO)
    trace = "" if job.trace_id == job.submission else job.trace_id
    ending = tail(job)
    arguments = [
        _raw(job.submission), _raw(job.claim), guard(job), marks(job), _distance(job.keep_until), ending,
        body(job, ending, since="o"), _distance(job.reap_at), _raw(trace),
    ]  # fmt: skip
    return job, arguments


def opened(job: Job, now: Micros) -> Admission:
    """Return the answer to a delivery whose job was written at time zero, and is opened now."""
    return admission.admitted(filled(job, {name: now + getattr(job, name) for name in _OPENED}))


def closing(job: Job, ending: Ending, chunks: Sequence[Chunk]) -> list[Argument] | None:
    """Return what `close.lua` is given; None where that would not do."""
    if ending.resources or len(chunks) > MANY or not _alone(job):
        return None
    if any(step.state is not StepState.SETTLED for step in ending.steps):
        return None
    after = lifecycle.end_well(job, ending, ZERO) or _otherwise(job, ending)
    if after is None:
        return None
    own = [without_blobs(chunk) for chunk in chunks]
    blobs = [part for chunk in chunks for reference, large in chunk.blobs for part in (reference, large)]
    steps = [part for step in ending.steps for part in (step.step_id, codec.step_value(step))]
    rest = tail(after)
    forgettable = after.status.over and after.keep_until is not None
    return [
        _raw(job.submission), guard(job), guard(after, earlier=True, closed=True), marks(after),
        _distance(after.keep_until), _distance(after.canvas_until), rest,
        body(after, rest, own, since="c"), _raw(job.claim), _raw(job.identity), _distance(after.reap_at),
        (after.keep_until or 0) // 1000 if forgettable else "", _raw(job.trace_id),
        len(steps) // 2, *steps, len(blobs) // 2, *blobs,
    ]  # fmt: skip


def _otherwise(job: Job, ending: Ending) -> Job | None:
    """Return what becomes of a job that does not end well, or not yet; None where more than the job is written."""
    answer = lifecycle.close(Facts(job=job), ending, ZERO)
    alone = answer.accepted and answer.ended and not answer.facts.row and not answer.facts.letter
    return answer.facts.job if alone else None


def _alone(job: Job) -> bool:
    """Is it nobody's replay, with nobody behind it, nothing filed, and nothing of an earlier attempt kept?

    As OPEN found it; the script finds out what has happened since.
    """
    began_here = job.attempts == 1 and not (job.canvas_until or job.reserved_until)
    return began_here and not (job.original or job.waiters or job.letter)


def claiming(job: Job, step: StepRecord) -> list[Argument]:
    """Return what `claim.lua` is given."""
    return [_raw(job.submission), guard(job), _raw(step.scope), step.step_id, *codec.step_parts(step)]


def _distance(value: Micros | None) -> Argument:
    return "" if value is None else value


def _raw(text: str | None) -> bytes:
    return text.encode("utf-8", "surrogatepass") if text else b""
