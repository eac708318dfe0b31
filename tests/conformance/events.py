"""Every event that can happen to a world now, so that each is tried in every state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from celery_replay.clock import SECOND, Micros
from celery_replay.losses import News
from celery_replay.records import Job, Row
from celery_replay.states import LetterState, Reason, RowStatus
from tests.conformance.outside import Message
from tests.conformance.setup import OUTCOMES
from tests.conformance.worker import RUNNING, Worker
from tests.conformance.world import World

RELEASE = "release of what is due"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that can happen, to this world or to a copy of it."""

    kind: str
    subject: object
    happen: Callable[[World], object]
    detail: object = ""

    def __repr__(self) -> str:
        return f"{self.kind}: {self.subject} {self.detail}".rstrip()


def calm(world: World) -> list[Event]:
    """Return what goes on without any fault."""
    return [*_workers(world), *_steward(world)]


def faults(world: World) -> list[Event]:
    """Return crashes, redeliveries beside a living holder, and news that gets lost."""
    return [*_crashes(world), *_broker_faults(world), *_steward_faults(world)]


def operator(world: World) -> list[Event]:
    """Return what a person may do: replay a dead letter, whatever its jobs are at."""
    return [
        Event("REPLAY", letter.submission, _act(World.replay, letter.submission))
        for letter in world.store.letters()
        if letter.state is LetterState.OPEN and letter.replays < world.setup.replays
    ]


def passing(world: World) -> list[Event]:
    """Return the ways in which time can pass: a little, or past a deadline."""
    little = world.clock.now + 10 * SECOND
    return [event for until in (little, *deadlines(world)) for event in passing_until(world, until)]


def passing_until(world: World, until: Micros) -> list[Event]:
    """Return the ways in which time can pass until then: every heartbeat beats, or one is starved."""
    duration = until - world.clock.now
    living = [frozenset({worker.name}) for worker in world.workers if worker.at in RUNNING]
    return [
        Event(
            "time passes",
            f"{duration / SECOND:.0f} s",
            _act(World.advance, duration, starved),
            f"while {min(starved)} is starved" if starved else "",
        )
        for starved in (frozenset[str](), *living)
    ]


def deadlines(world: World) -> list[Micros]:
    """Return the moments at which something may be over, soonest first."""
    times = [row.wake_at for row in world.store.rows()]
    for job in filter(None, map(world.job, world.submissions)):
        leases = (job.lease_until, job.reserved_until, job.canvas_until, job.reap_at)
        times += [at for at in leases if at is not None]
    times += [lease.until for lease in world.store.leases() if lease.until is not None]
    return sorted({at + 1 for at in times if at >= world.clock.now})


def _workers(world: World) -> Iterator[Event]:
    idle = [number for number, worker in enumerate(world.workers) if worker.at == "idle"]
    for number, worker in enumerate(world.workers):
        if worker.at != "idle":
            yield Event("goes on", worker, _of(number, Worker.step))
        if worker.flags or (worker.at in RUNNING and worker.settled):
            yield Event("flushes", worker, _of(number, World.flush))
    for message in world.broker.queue if idle else ():
        for ending in OUTCOMES:
            yield Event("receives", message, _of(idle[0], Worker.receive, message, ending), ending)
    for message in world.orphans():
        yield Event("redelivery", message, _act(_restore, message))


def _steward(world: World) -> Iterator[Event]:
    now = world.clock.now
    in_hand = {row.submission for row in world.to_publish}
    if any(row.wake_at <= now and row.submission not in in_hand for row in world.store.rows()):
        yield Event(RELEASE, "", World.release_due)
    for row in world.to_publish:
        yield Event("publish", row.submission, _act(World.publish, row))
    for row in world.to_mark:
        yield Event("mark", row.submission, _act(World.mark, row))
    for news in set(world.news):
        yield Event("heard", news.submission, _act(World.hear, news))
    if any(_reapable(world, job) for job in filter(None, map(world.job, world.submissions))):
        yield Event("reaper", "", World.reap)


def _reapable(world: World, job: Job) -> bool:
    """Has the reaper something to do? A job with a row it leaves to the dispatcher."""
    return job.reap_at is not None and job.reap_at <= world.clock.now and world.store.row(job.submission) is None


def _crashes(world: World) -> Iterator[Event]:
    for number, worker in enumerate(world.workers):
        if worker.at != "idle" or worker.flags:
            yield Event("CRASH", worker, _of(number, World.crash))
        if worker.at != "idle":
            for reason in (Reason.WORKER_LOST, Reason.HARD_TIME_LIMIT, Reason.REVOKED):
                yield Event("KILL", worker, _of(number, World.kill, reason), reason)


def _broker_faults(world: World) -> Iterator[Event]:
    orphans = world.orphans()
    for message in world.broker.queue:
        yield Event("TURNED AWAY", message, _act(World.turn_away, message))
    for message in world.broker.unacked.values():
        if message not in orphans:
            yield Event("EARLY redelivery", message, _act(_restore, message))


def _steward_faults(world: World) -> Iterator[Event]:
    if world.to_publish or world.to_mark:
        yield Event("CRASH", "steward with rows in hand", World.drop_rows)
    for row in world.store.rows():
        if row.status is RowStatus.RELEASED and row not in world.to_publish:
            yield Event("SECOND steward has the row", row.submission, _act(_second_steward, row))
    for news in set(world.news):
        yield Event("LOST news", news.submission, _act(_lose, news))


def _act(function: Callable[..., object], *arguments: object) -> Callable[[World], object]:
    return lambda world: function(world, *arguments)


def _of(number: int, function: Callable[..., object], *arguments: object) -> Callable[[World], object]:
    """Act on a worker by its number: a copy of the world has others."""

    def act(world: World) -> object:
        worker = world.workers[number]
        if function in vars(Worker).values():
            return function(worker, *arguments)
        return function(world, worker, *arguments)

    return act


def _restore(world: World, message: Message) -> None:
    world.broker.restore(message.tag)


def _second_steward(world: World, row: Row) -> None:
    world.to_publish.append(row)


def _lose(world: World, news: News) -> None:
    world.news.remove(news)
