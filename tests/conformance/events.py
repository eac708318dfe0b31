"""Every event that can happen to a world now, so that each is tried in every state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from celery_replay.clock import SECOND, Micros
from celery_replay.states import Reason, RowStatus
from tests.conformance import setup
from tests.conformance.worker import OUTCOMES, RUNNING, TRACER, Worker
from tests.conformance.world import World


@dataclass(frozen=True)
class Event:
    """One thing that can happen."""

    label: str
    happen: Callable[[], object]

    def __repr__(self) -> str:
        return self.label


def event(label: str, function: Callable[..., object], *arguments: object) -> Event:
    return Event(label, lambda: function(*arguments))


def calm(world: World) -> list[Event]:
    """Return what goes on without any fault."""
    return [*_workers(world), *_steward(world)]


def faults(world: World) -> list[Event]:
    """Return crashes, redeliveries beside a living holder, and news that gets lost."""
    return [*_crashes(world), *_broker_faults(world), *_steward_faults(world)]


def passing(world: World) -> list[Event]:
    """Return the ways in which time can pass: a little, or to a deadline; every heartbeat beats, or one is starved."""
    deadlines = sorted({at + 1 - world.clock.now for at in _deadlines(world) if at >= world.clock.now})
    return [
        event(f"{duration / SECOND:.0f} s pass, starved: {sorted(starved) or 'nobody'}", world.advance, duration, starved)
        for duration in [10 * SECOND, *deadlines]
        for starved in _starvable(world)
    ]


def _workers(world: World) -> Iterator[Event]:
    idle = [worker for worker in world.workers if worker.at == "idle"]
    for worker in world.workers:
        if worker.at != "idle":
            yield event(f"{worker} goes on", worker.step)
        if worker.flags or (worker.at in RUNNING and worker.settled):
            yield event(f"{worker} flushes", world.flush, worker)
    for message in world.broker.queue if idle else ():
        for ending in OUTCOMES:
            yield event(f"{idle[0]} receives {message}, will {ending}", idle[0].receive, message, ending)
    for message in world.orphans():
        yield event(f"redelivery of {message}", world.broker.restore, message.tag)


def _steward(world: World) -> Iterator[Event]:
    now = world.clock.now
    in_hand = {row.submission for row in world.to_publish}
    if any(row.wake_at <= now and row.submission not in in_hand for row in world.store.rows()):
        yield event("release of what is due", world.release_due)
    for row in world.to_publish:
        yield event(f"publish of the row of {row.submission}.{row.generation}", world.publish, row)
    for row in world.to_mark:
        yield event(f"mark of the row of {row.submission}.{row.generation}", world.mark, row)
    for news in set(world.news):
        yield event(f"news of {news.submission}.{news.generation} heard", world.hear, news)
    jobs = [world.job(submission) for submission in world.submissions]
    if any(job and job.reap_at is not None and job.reap_at <= now for job in jobs):
        yield event("reaper", world.store.reap)


def _crashes(world: World) -> Iterator[Event]:
    for worker in world.workers:
        if worker.at != "idle" or worker.flags:
            yield event(f"{worker} CRASHES", world.crash, worker)
        if worker.at != "idle":
            for reason in (Reason.WORKER_LOST, Reason.REVOKED):
                yield event(f"{worker} is KILLED: {reason}", world.kill, worker, reason)


def _broker_faults(world: World) -> Iterator[Event]:
    orphans = world.orphans()
    for message in world.broker.unacked.values():
        if message not in orphans:
            yield event(f"EARLY redelivery of {message}", world.broker.restore, message.tag)


def _steward_faults(world: World) -> Iterator[Event]:
    if world.to_publish or world.to_mark:
        yield event("the steward CRASHES with rows in its hands", world.drop_rows)
    for row in world.store.rows():
        if row.status is RowStatus.RELEASED and row not in world.to_publish:
            yield event(f"another steward has the row of {row.submission}", world.to_publish.append, row)
    for news in set(world.news):
        yield event(f"news of {news.submission}.{news.generation} LOST", world.news.remove, news)


def _deadlines(world: World) -> Iterator[Micros]:
    yield from (row.wake_at for row in world.store.rows())
    for submission in world.submissions:
        job = world.job(submission)
        if job is not None:
            times = (job.lease_until, job.reserved_until, job.canvas_until, job.reap_at)
            yield from (at for at in times if at is not None)
    yield world.clock.now + setup.CANVAS


def _starvable(world: World) -> list[frozenset[str]]:
    living = [worker for worker in world.workers if worker.at in RUNNING + TRACER]
    return [frozenset(), *(frozenset({worker.name}) for worker in living if _beats(worker))]


def _beats(worker: Worker) -> bool:
    return worker.at in RUNNING
