"""Words for telling a scenario move by move."""

from __future__ import annotations

from celery_replay.clock import SECOND, Micros
from tests.conformance import setup
from tests.conformance.outside import Message
from tests.conformance.worker import Worker
from tests.conformance.world import World


def takes(worker: Worker, submission: str = "job-0", generation: int = 0, ending: str = "ok") -> None:
    """Let an idle worker receive a delivery."""
    assert worker.at == "idle", worker
    worker.receive(_waiting(worker.world, submission, generation), ending)


def runs(worker: Worker, to: str = "idle") -> None:
    """Let a worker go on until it is about to do the named step."""
    for _ in range(12):
        if worker.at == to:
            return
        worker.step()
    raise AssertionError(f"{worker} never gets to {to}")


def redelivery(world: World, submission: str = "job-0") -> None:
    """Let the broker bring a message again, whether its holder lives or not."""
    found = next(message for message in world.broker.unacked.values() if message.submission == submission)
    world.broker.restore(found.tag)


def lapse(world: World, *starved: Worker, after: Micros = setup.LEASE + SECOND) -> None:
    """Let leases lapse; who is not starved renews its own."""
    world.advance(after, frozenset(worker.name for worker in starved))


def dispatch(world: World) -> None:
    """Publish what CLOSE has freed, or else what is due; mark nothing yet."""
    if not world.to_publish:
        world.release_due()
    for row in list(world.to_publish):
        world.publish(row)


def marks(world: World) -> None:
    """Mark what was published, and do nothing else."""
    for row in list(world.to_mark):
        world.mark(row)


def crash(worker: Worker) -> None:
    """Lose a whole worker."""
    worker.world.crash(worker)


def _waiting(world: World, submission: str, generation: int) -> Message:
    queue = world.broker.queue
    return next(m for m in queue if (m.submission, m.generation) == (submission, generation))
