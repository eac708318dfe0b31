"""The faults of a round, the same for every column: drawn from a seed, aimed at set points."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from random import Random

from .processes import SLOTS, Shop, Worker
from .witness import Sighting, Witness


@dataclass(frozen=True, kw_only=True)
class Kill:
    """One worker to be killed in mid-job, once a count has passed a mark."""

    worker: int
    count: str
    """A count of `Sighting`."""
    above: int
    calling: bool = True
    """Wait until all its slots have a call unanswered: the effect is done, and the job not yet."""

    def due(self, seen: Sighting) -> bool:
        return int(getattr(seen, self.count)) > self.above


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All faults of one round."""

    double_clicks: list[int]
    redeliveries: list[int]
    kills: list[Kill]

    @classmethod
    def draw(cls, orders: int, seed: int) -> Plan:
        """Draw the faults for so many orders."""
        draw = Random(seed)
        one, other = draw.sample([0, 1], 2)
        return cls(
            double_clicks=sorted(draw.sample(range(orders), orders // 5)),
            redeliveries=sorted(draw.sample(range(orders), orders // 8)),
            kills=[
                Kill(worker=one, count="charged", above=orders // 8),
                Kill(worker=other, count="charged", above=orders // 2),
                Kill(worker=one, count="asked", above=orders // 3),
                # Points are given inside the database: no call to wait for.
                Kill(worker=other, count="awarded", above=orders // 20, calling=False),
                Kill(worker=one, count="labelled", above=orders // 4),
            ],
        )


class Killer:
    """Kills workers at the moments that hurt."""

    def __init__(self, shop: Shop, witness: Witness, *, acks_late: bool) -> None:
        self._shop = shop
        self._witness = witness
        self._acks_late = acks_late
        self._last = 0.0
        self.kills = 0
        self.caught: list[str] = []
        """Orders whose jobs were killed between the effect and its answer."""

    def follow(self, kills: list[Kill], seen: Sighting) -> None:
        """Do the next kill of the plan if it is due."""
        if self.kills < len(kills) and kills[self.kills].due(seen):
            self._strike(kills[self.kills])

    def _strike(self, kill: Kill) -> None:
        """Kill and restart the worker if it is in mid-job; else do nothing yet.

        All workers are frozen for a second look, so that what was seen still holds at the kill.
        """
        worker = self._shop.workers[kill.worker]
        if not self._in_mid_job(worker, kill):
            return
        self._signal_all(signal.SIGSTOP)
        hit = self._in_mid_job(worker, kill)
        if hit:
            self.caught += self._calls_of(worker)
            worker.kill()
            self._last = time.time()
            self.kills += 1
        self._signal_all(signal.SIGCONT)
        if hit:
            worker.start()

    def _in_mid_job(self, worker: Worker, kill: Kill) -> bool:
        return len(self._calls_of(worker)) >= SLOTS if kill.calling else self._busy()

    def _calls_of(self, worker: Worker) -> list[str]:
        calls = self._witness.servers()["answering"]
        return [call["order"] for call in calls if worker.owns(int(call["client"].partition("/")[2]))]

    def _busy(self) -> bool:
        # Celery's Redis transport fetches a message with one command and notes it down with
        # another; a worker that dies in between loses it, and nothing on top can mend that.
        # A worker whose slots are full does not fetch, if it acknowledges late.
        consumers = self._witness.consumers()
        held = self._witness.taken_since(self._last)
        return consumers > 0 and (not self._acks_late or held >= SLOTS * consumers)

    def _signal_all(self, number: signal.Signals) -> None:
        for worker in self._shop.workers:
            worker.send(number)
