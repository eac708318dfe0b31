"""Walk every interleaving of a small world, breadth first, on the real rules and the store in memory.

The first trace that is found for a broken property is a shortest one. Two worlds are the same where only names differ:
times count as distances to now, nonces, tags and fences by their order.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from celery_replay.records import Job, Row
from celery_replay.states import Reason
from celery_replay.stores.base import Store
from celery_replay.stores.memory import MemoryStore
from celery_replay.stores.redis import RedisStore
from tests.conformance import events
from tests.conformance.events import Event
from tests.conformance.properties import always, at_rest
from tests.conformance.setup import Setup
from tests.conformance.worker import Worker
from tests.conformance.world import Clock, MakeStore, World
from tests.support import redis_stores

CUT_OFF = ("interrupt", "requeue")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How many faults an exploration may use."""

    crashes: int = 1
    """And shutdowns in the middle of a body."""
    lapses: int = 1
    """How often a deadline may pass while something else could happen."""
    again: int = 0
    """Redeliveries beside a living holder."""
    replays: int = 0
    endings: tuple[str, ...] = ("ok",)


@dataclass
class Findings:
    """What an exploration met."""

    states: int = 0
    moves: int = 0
    complete: bool = True
    broken: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """By property: what is broken, and the shortest way there."""


def explore(setup: Setup, budget: Budget, *, limit: int = 200_000, make_store: MakeStore = MemoryStore) -> Findings:
    """Visit every world that can be reached, but no more than `limit`, and check the properties in each."""
    return _Explorer(World(setup, make_store), budget).explore(limit)


class _Explorer:
    def __init__(self, first: World, budget: Budget) -> None:
        self.findings = Findings()
        self._todo = deque([(0, first, budget)])
        self._seen: dict[Hashable, int] = {(identity(first), budget): 0}
        self._parents: list[tuple[int, str]] = [(-1, "")]
        self._calm: dict[int, list[int]] = {}

    def explore(self, limit: int) -> Findings:
        while self._todo and len(self._parents) <= limit:
            number, world, left = self._todo.popleft()
            if self._note(always(world), number):
                continue
            if not self._go_on(number, world, left):
                self._note(at_rest(world), number)
            discard(world)
        self.findings.complete = not self._todo
        self.findings.states = len(self._parents)
        loop = _cycle(self._calm, len(self._parents))
        if loop is not None:
            self._note(["P6: goes round for ever"], loop)
        return self.findings

    def _go_on(self, number: int, world: World, left: Budget) -> bool:
        """Visit what follows; tell whether anything can happen without a fault."""
        calm = self._calm.setdefault(number, [])
        for event, rest, fault in _steps(world, left):
            self.findings.moves += 1
            after = clone(world)
            event.happen(after)
            target = self._visit(number, event, after, rest)
            if not fault and target != number:
                calm.append(target)
        return bool(calm)

    def _visit(self, number: int, event: Event, after: World, rest: Budget) -> int:
        key = (identity(after), rest)
        target = self._seen.get(key)
        if target is None:
            target = self._seen[key] = len(self._parents)
            self._parents.append((number, repr(event)))
            self._todo.append((target, after, rest))
        else:
            discard(after)
        return target

    def _note(self, broken: Iterable[str], number: int) -> bool:
        texts = list(broken)
        for text in texts:
            self.findings.broken.setdefault(text.partition(":")[0], (text, self._trace(number)))
        return bool(texts)

    def _trace(self, number: int) -> list[str]:
        steps = []
        while number > 0:
            number, label = self._parents[number]
            steps.append(label)
        return steps[::-1]


def _steps(world: World, left: Budget) -> Iterator[tuple[Event, Budget, bool]]:
    """Yield every event, what is left of the budget after it, and whether it is a fault."""
    calm = [event for event in events.calm(world) if _wanted(world, event, left)]
    yield from ((event, left, False) for event in calm if event.detail not in CUT_OFF)
    for event in [*(event for event in calm if event.detail in CUT_OFF), *events.faults(world)]:
        rest = _spend(event, left)
        if rest is not None:
            yield event, rest, True
    if left.replays:
        yield from ((event, replace(left, replays=left.replays - 1), True) for event in events.operator(world))
    # Time is slow: that a deadline passes while anything else can happen is a fault.
    busy = bool(calm)
    if busy and not left.lapses:
        return
    rest = replace(left, lapses=left.lapses - 1) if busy else left
    for until in events.deadlines(world)[: None if busy else 1]:
        for event in events.passing_until(world, until):
            yield event, rest, busy


def _wanted(world: World, event: Event, left: Budget) -> bool:
    if event.kind == "receives":
        return event.detail in left.endings
    # One steward with one round in its hands; else the queue would grow without end.
    return event.kind != events.RELEASE or not (world.to_publish or world.to_mark)


def _spend(event: Event, left: Budget) -> Budget | None:
    if event.detail is Reason.REVOKED or event.kind == "TURNED AWAY":
        return None
    if event.kind == "EARLY redelivery":
        return replace(left, again=left.again - 1) if left.again else None
    return replace(left, crashes=left.crashes - 1) if left.crashes else None


def _copied(store: Store, clock: Clock) -> Store:
    if isinstance(store, RedisStore):
        return redis_stores.copied(store, clock)
    assert isinstance(store, MemoryStore)
    copied = MemoryStore(clock)
    for name, table in vars(store._tables).items():
        setattr(copied._tables, name, dict(table))
    return copied


def discard(world: World) -> None:
    """Forget a world that nobody will look at again."""
    if isinstance(world.store, RedisStore):
        redis_stores.forget(world.store)


def clone(world: World) -> World:
    """Copy a world, so that both can go on by themselves."""
    twin = copy.copy(world)
    twin.clock = Clock(world.clock.now)
    twin.store = _copied(world.store, twin.clock)
    twin.broker = replace(world.broker, queue=list(world.broker.queue), unacked=dict(world.broker.unacked))
    target, backend = world.target, world.backend
    twin.target = replace(target, effects=dict(target.effects), tokens=dict(target.tokens))
    twin.backend = replace(
        backend,
        results=dict(backend.results),
        callbacks={key: set(ids) for key, ids in backend.callbacks.items()},
        parts=dict(backend.parts),
    )
    twin.workers = [
        replace(worker, world=twin, flags=list(worker.flags), settled=list(worker.settled)) for worker in world.workers
    ]
    for name in ("to_publish", "to_mark", "news", "log", "violations"):
        setattr(twin, name, list(getattr(world, name)))
    for name in ("uncertain_count", "unseen", "canvas_lost", "died", "given_up", "published"):
        setattr(twin, name, set(getattr(world, name)))
    twin.owners, twin.fences = dict(world.owners), dict(world.fences)
    twin.leased = world.leased.copy()
    twin.submissions, twin.originals = list(world.submissions), dict(world.originals)
    return twin


def identity(world: World) -> Hashable:
    """Return what tells this world from others; names that don't matter are replaced by their order."""
    names = _Names(world.clock.now)
    store = world.store
    jobs = [store.job(submission) for submission in world.submissions]
    workers = sorted((_worker(names, worker) for worker in world.workers), key=repr)
    return (
        tuple(_job(names, job) for job in jobs),
        tuple(_row(names, row) for row in store.rows()),
        tuple((letter.submission, letter.state, letter.replay) for letter in store.letters()),
        tuple(
            (step.scope, step.state, names.nonce(step.nonce))
            for scope in sorted({job.identity for job in jobs if job})
            for step in store.steps(scope)
        ),
        tuple(workers),
        tuple(sorted((m.submission, m.generation, names.tag(m.tag)) for m in world.broker.unacked.values())),
        tuple(sorted((m.submission, m.generation) for m in world.broker.queue)),
        tuple(_row(names, row) for row in world.to_publish),
        tuple(_row(names, row) for row in world.to_mark),
        tuple(sorted((n.submission, n.generation, n.final, names.process(n.worker, n.pid)) for n in world.news)),
        tuple(sorted(world.target.effects.items())),
        tuple((key, names.fence(world, token)) for key, token in sorted(world.target.tokens.items())),
        tuple(sorted(world.backend.results.items())),
        tuple((key, tuple(sorted(ids))) for key, ids in sorted(world.backend.callbacks.items())),
        tuple(sorted(world.backend.parts.items())),
        tuple((key, names.nonce(nonce)) for key, nonce in sorted(world.owners.items())),
        tuple(_lease(names, world, name) for name in sorted({n for some in world.setup.resources for n in some})),
        tuple(sorted(names.nonce(nonce) for nonce in world.leased.lost & world.running())),
        world.zombies,
        tuple(sorted(world.uncertain_count)),
        tuple(sorted(world.unseen)),
        tuple(sorted(world.canvas_lost)),
        tuple(world.violations),
    )


class _Names:
    """Replaces names that mean nothing by the order in which they are met."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._order: dict[tuple[str, Any], int] = {}

    def _ordered(self, kind: str, name: Any) -> int:
        return self._order.setdefault((kind, name), len(self._order))

    def nonce(self, nonce: str) -> int:
        return self._ordered("nonce", nonce)

    def tag(self, tag: int) -> int:
        return self._ordered("tag", tag)

    def process(self, worker: str, pid: int) -> int:
        return self._ordered("process", (worker, pid))

    def until(self, at: int | None) -> int | None:
        return None if at is None else max(at - self._now, 0)

    def fence(self, world: World, fence: int) -> int:
        known = {job.fence for job in map(world.job, world.submissions) if job}
        known |= {worker.fence for worker in world.workers} | set(world.target.tokens.values())
        return sorted(known).index(fence)


def _job(names: _Names, job: Job | None) -> Hashable:
    if job is None:
        return None
    return (
        job.claim,
        job.generation,
        job.status,
        names.nonce(job.nonce),
        names.until(job.lease_until),
        names.until(job.reserved_until),
        job.canvas_advanced,
        names.until(job.canvas_until),
        job.unsettled,
        job.waiters,
        job.letter,
        job.canvas_unknown,
        job.origin,
        names.process(job.worker, job.pid),
        names.until(job.reap_at),
    )


def _row(names: _Names, row: Row) -> Hashable:
    revision = names._ordered("revision", (row.submission, row.revision))
    row_id = (row.submission, row.generation, row.status, revision, row.subject, min(row.releases, 2))
    return (*row_id, row.reason, row.contended_since, names.until(row.wake_at), row.message)


def _lease(names: _Names, world: World, name: str) -> Hashable:
    lease = world.store.lease(name)
    if lease is None:
        return None
    line = tuple(row.submission for row in world.store.line(name))
    return (names.nonce(lease.nonce), lease.submission, names.until(lease.until), lease.waiters, line)


def _worker(names: _Names, worker: Worker) -> Hashable:
    busy = worker.at != "idle"
    message = worker.message if busy else None
    return (
        worker.at,
        message and (message.submission, message.generation, names.tag(message.tag)),
        names.nonce(worker.nonce) if busy else -1,
        names.process(worker.name, worker.pid) if busy else -1,
        worker.doubt,
        bool(worker.settled),
        tuple(worker.flags),
        worker.ending if busy else "",
    )


def _cycle(graph: dict[int, list[int]], size: int) -> int | None:
    """Find a world on a cycle of moves without a fault: some fair run never comes to rest."""
    colour = bytearray(size)
    for root in range(size):
        if colour[root]:
            continue
        colour[root] = 1
        stack = [(root, iter(graph.get(root, ())))]
        while stack:
            node, children = stack[-1]
            child = next((c for c in children if colour[c] != 2), None)
            if child is None:
                colour[node] = 2
                stack.pop()
            elif colour[child]:
                return child
            else:
                colour[child] = 1
                stack.append((child, iter(graph.get(child, ()))))
    return None
