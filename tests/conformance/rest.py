"""Bring a world to rest: no more faults, everything that can move does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from celery_replay.clock import Micros
from tests.conformance.properties import at_rest
from tests.conformance.world import World

MOVES = 600
"""More than any world needs, even where jobs back off; beyond it something goes round for ever."""


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
        if world.reap():
            continue
        world.release_due()
        if world.to_publish:
            continue
        wake_at = _next_deadline(world)
        if wake_at is None:
            return
        world.advance(wake_at - world.clock.now)
    raise GoesRound(f"P6: no rest after {MOVES} moves: {world.store.rows()} {world.log[-12:]}")


def check_rest(world: World) -> None:
    """Bring the world to rest and check every property there."""
    settle(world)
    broken = list(at_rest(world))
    assert not broken, broken


def _moves(world: World) -> Iterator[Callable[[], object]]:
    for worker in world.workers:
        if worker.at != "idle":
            yield worker.step
        if worker.flags:
            yield partial(world.flush, worker)
    yield from (partial(world.publish, row) for row in world.to_publish)
    yield from (partial(world.mark, row) for row in world.to_mark)
    yield from (partial(world.hear, news) for news in world.news)
    yield from (partial(world.broker.restore, message.tag) for message in world.orphans())
    idle = [worker for worker in world.workers if worker.at == "idle"]
    yield from (partial(idle[0].receive, message) for message in world.broker.queue[:1])


def _next_deadline(world: World) -> Micros | None:
    """Return when something else can happen; what is due already and does not move will never move."""
    rows = world.store.rows()
    parked = {row.submission for row in rows}
    jobs = [job for job in map(world.job, world.submissions) if job is not None and job.submission not in parked]
    times = [*(row.wake_at for row in rows), *(job.reap_at for job in jobs if job.reap_at is not None)]
    return min((at for at in times if at > world.clock.now), default=None)
