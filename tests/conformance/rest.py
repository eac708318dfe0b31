"""Bring a world to rest: no more faults, everything that can move does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from celery_replay.clock import Micros
from tests.conformance.properties import at_rest
from tests.conformance.world import World

MOVES = 400
"""More than any world needs; beyond it something goes round for ever."""


class GoesRound(AssertionError):
    """P6: a world without faults does not come to rest."""


def settle(world: World) -> None:
    """Let workers, broker and steward go on until nothing moves, then let time pass until nothing is awaited.

    Raises:
        GoesRound: it never ends.
    """
    for _ in range(MOVES):
        move = next(_moves(world), None)
        if move is not None:
            move()
            continue
        if world.store.reap():
            continue
        wake_at = _next_deadline(world)
        if wake_at is None:
            return
        world.advance(max(wake_at - world.clock.now, 1))
        world.release_due()
    raise GoesRound(f"P6: no rest after {MOVES} moves: {world.store.rows()} {world.log[-12:]}")


def check_rest(world: World) -> None:
    """Bring the world to rest and check every property there."""
    settle(world)
    broken = list(at_rest(world))
    assert not broken, broken


def _moves(world: World) -> Iterator[Callable[[], None]]:
    for worker in world.workers:
        if worker.at != "idle":
            yield worker.step
        if worker.flags:
            yield lambda worker=worker: world.flush(worker)  # type: ignore[misc]
    for row in world.to_publish:
        yield lambda row=row: world.publish(row)  # type: ignore[misc]
    for row in world.to_mark:
        yield lambda row=row: world.mark(row)  # type: ignore[misc]
    for news in world.news:
        yield lambda news=news: world.hear(news)  # type: ignore[misc]
    for orphan in world.orphans():
        yield lambda orphan=orphan: world.broker.restore(orphan.tag)  # type: ignore[misc]
    idle = [worker for worker in world.workers if worker.at == "idle"]
    for message in world.broker.queue[:1]:
        yield lambda: idle[0].receive(message)


def _next_deadline(world: World) -> Micros | None:
    rows = [row.wake_at for row in world.store.rows()]
    jobs = [world.job(submission) for submission in world.submissions]
    parked = {row.submission for row in world.store.rows()}
    reaps = [job.reap_at for job in jobs if job is not None and job.submission not in parked]
    return min([*rows, *(at for at in reaps if at is not None)], default=None)
