"""The properties of the life cycle, with the exceptions that cannot be helped."""

from __future__ import annotations

from collections.abc import Iterator

from celery_replay.records import Job
from celery_replay.states import LetterState, OnIncomplete, Outcome
from tests.conformance import leased
from tests.conformance.outside import Guard
from tests.conformance.world import World

SUCCEEDED = (Outcome.SUCCEEDED, Outcome.DEDUPLICATED)


def always(world: World) -> Iterator[str]:
    """Yield what is broken at this moment."""
    yield from world.violations
    yield from _effects(world)
    for submission in world.submissions:
        if len(world.backend.callbacks.get(submission, ())) > 1:
            yield f"P3: the callback of {submission} was published under two ids"
        certain = world.setup.counts_by_id or submission not in world.uncertain_count
        if certain and world.backend.parts.get(submission, 0) > 1:
            yield f"P3: the chord part of {submission} was counted twice"


def _effects(world: World) -> Iterator[str]:
    setup = world.setup
    if setup.guard is Guard.PLAIN and world.zombies:
        return
    if setup.guard is not Guard.ATOMIC and setup.incomplete is OnIncomplete.RESUME:
        return
    if setup.guard is not Guard.ATOMIC and setup.incomplete is OnIncomplete.DEAD_LETTER and setup.accepts:
        return
    for key, times in world.target.effects.items():
        if times > 1:
            yield f"P1: the effect of {key} was applied {times} times"


def at_rest(world: World) -> Iterator[str]:
    """Yield what is broken once nothing moves any more."""
    yield from always(world)
    yield from leased.at_rest(world)
    for row in world.store.rows():
        yield f"P6: {row.submission} stays {row.status} for ever"
    for submission in world.submissions:
        job = world.job(submission)
        if job is None:
            if submission not in world.unseen:
                yield f"P2: {submission} is silently gone"
            continue
        yield from _job_at_rest(world, job)


def _job_at_rest(world: World, job: Job) -> Iterator[str]:
    submission, status = job.submission, job.status
    if status is Outcome.LOST and submission not in world.died:
        yield f"P2: {submission} was filed as lost, though none of its workers died"
    if not status.ended and status is not Outcome.LOST:
        yield f"P2: {submission} is silently gone, it stays {status}"
    yield from _letters(world, job)
    if world.setup.canvas and submission not in world.canvas_lost and status is not Outcome.REVOKED:
        yield from _canvas(world, job)
    if status in SUCCEEDED and world.backend.results.get(submission) == "FAILURE":
        yield f"P3: {submission} succeeded, Celery says FAILURE"


def _letters(world: World, job: Job) -> Iterator[str]:
    letter = world.store.letter(world.originals.get(job.submission, job.submission))
    waiting = letter is not None and letter.state is LetterState.OPEN
    if letter is not None and letter.state is LetterState.REPLAY_PENDING:
        yield f"P6: the letter of {letter.submission} waits for its replay for ever"
    if job.submission in world.originals:
        if world.store.letter(job.submission) is not None:
            yield f"P5: the replay {job.submission} has a letter of its own"
    elif job.letter != waiting:
        yield f"P5: the job's mark and the letter of {job.submission} differ"
    if job.status in SUCCEEDED and waiting:
        yield f"P5: {job.submission} ended well and has a letter"
    if any(other.status in SUCCEEDED for other in _lineage(world, job)):
        return
    quiet = (*SUCCEEDED, Outcome.REVOKED, Outcome.EXPIRED)
    if job.status not in quiet and not waiting:
        yield f"P5: {job.submission} is {job.status} without a letter"


def _lineage(world: World, job: Job) -> Iterator[Job]:
    """Yield a job, what it replays and what replays it."""
    root = world.originals.get(job.submission, job.submission)
    for submission in world.submissions:
        found = world.job(submission)
        if found is not None and root in (submission, world.originals.get(submission)):
            yield found


def _canvas(world: World, job: Job) -> Iterator[str]:
    submission, backend = job.submission, world.backend
    announced = backend.results.get(submission) == "SUCCESS" and backend.callbacks.get(submission)
    if job.status in SUCCEEDED and not announced:
        yield f"P3: {submission} succeeded, its callback never went on"
    if job.status.ended and not backend.parts.get(submission):
        yield f"P3: {submission} ended, its chord was never told"
    if job.status.ended and not job.canvas_advanced and not job.canvas_unknown:
        yield f"P3: {submission} ended, nobody noted what became of its canvas"
