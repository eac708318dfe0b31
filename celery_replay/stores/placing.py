"""Large values go elsewhere some time after they were written, and are deleted there when nothing refers to them.

An attempt writes its large values into the store, in the one round trip that it has. Afterwards a steward puts them
where `replay_blobs` says, and only then replaces them by a stub with their name there. A name is never given twice: who
deletes an old object can't hit a new one of the same content. Each object has a record, written before the object, with
the time when it is looked at again; whoever looks first moves that time, so that one who comes late finds out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from ..clock import SECOND, Micros, new_id
from ..logs import logger_of
from ..records import Placed, evolve
from ..serialization import digest
from .places import name_in, stub
from .reading import Readable
from .units import Unit

logger = logger_of(__name__)
T = TypeVar("T")

SMALL = 512
"""Bytes up to which a value stays in the store: a stub and its record would take as much."""
UNREFERRED_US: Micros = 3600 * SECOND
"""How long whoever puts an object has to refer to it."""
AGAIN_US: Micros = 86_400 * SECOND
"""When an object is looked at again to which something refers."""
RETRY_US: Micros = 600 * SECOND
"""When an object is deleted that could not be deleted now."""
_BATCH = 100


class Placing(Readable):
    """The part of a store that keeps large values elsewhere."""

    @abstractmethod
    def _atomically(self, step: Callable[[Unit], T]) -> T:
        """Run a step as one."""

    def place_blobs(self, limit: int = _BATCH) -> int:
        """Put the next large values elsewhere; return how many were looked at, 0 where none waits.

        Raises:
            Exception: whatever the place raises; the values are in the store as before.
        """
        if self.elsewhere is None:
            return 0
        with self._read() as reader:
            waiting = reader.unplaced(limit)
        large = {reference: body for reference, body in waiting if len(body) > SMALL}
        if len(large) < len(waiting):
            self._atomically(lambda unit: _leave(unit, [blob for blob in waiting if blob[0] not in large]))
        if large:
            until = self.now() + UNREFERRED_US
            placed = [Placed(name=_new_name(r), reference=r, look_at=until) for r in sorted(large)]
            self._atomically(lambda unit: [unit.put(one) for one in placed])
            self.elsewhere.put({one.name: large[one.reference] for one in placed})
            self._atomically(lambda unit: _refer(unit, placed))
        return len(waiting)

    def sweep_blobs(self, limit: int = _BATCH, *, at: Micros | None = None) -> int:
        """Delete objects elsewhere to which nothing refers; return how many were looked at, 0 where none is due.

        Args:
            at: look at those that are due by then; by default by now.
        """
        if self.elsewhere is None:
            return 0
        now = self.now()
        with self._read() as reader:
            due = reader.placed_due(now if at is None else at, limit)
        self._sweep(due)
        return len(due)

    def unreferred_blobs(self, limit: int = 10_000) -> Sequence[str]:
        """Name objects elsewhere that would be deleted if they were looked at now, among the first `limit`."""
        now = self.now()
        with self._read() as reader:
            known = [one for one in reader.placed_due(now + AGAIN_US, limit) if not _fresh(one, now)]
        return [one.name for one in self._unreferred(known)]

    def _sweep(self, due: Sequence[Placed]) -> None:
        assert self.elsewhere is not None
        dead = {one.name for one in self._unreferred(due)}
        doomed = self._atomically(lambda unit: _put_off(unit, due, dead))
        if doomed:
            self.elsewhere.delete([one.name for one in doomed])
            self._atomically(lambda unit: [unit.drop(one) for one in doomed])

    def _unreferred(self, known: Iterable[Placed]) -> list[Placed]:
        found = list(known)
        with self._read() as reader:
            bodies = reader.blobs([one.reference for one in found]) if found else {}
        return [one for one in found if name_in(bodies.get(one.reference, b"")) != one.name]

    def _names_elsewhere(self, references: Collection[str]) -> set[str]:
        if self.elsewhere is None or not references:
            return set()
        with self._read() as reader:
            bodies = reader.blobs(sorted(references))
        return {name for name in map(name_in, bodies.values()) if name}

    def _delete_elsewhere(self, names: Collection[str]) -> None:
        """Delete objects at once, if nothing refers to them any more; later, where the place can't be reached."""
        if not names:
            return
        known = self._atomically(lambda unit: unit.placed(sorted(names)))
        try:
            self._sweep(known)
        except Exception:
            logger.warning("replay.blobs_not_deleted", exc_info=True, extra={"count": len(known)})


def _new_name(reference: str) -> str:
    name = digest(reference)
    return f"{name[:2]}/{name}-{new_id()}"


def _fresh(one: Placed, now: Micros) -> bool:
    """May somebody still be about to refer to it?"""
    return now < one.look_at <= now + UNREFERRED_US


def _refer(unit: Unit, placed: Sequence[Placed]) -> None:
    """Replace values by stubs; not where somebody has given the object up meanwhile."""
    known = {one.name: one for one in unit.placed([one.name for one in placed])}
    for one in placed:
        if known.get(one.name) == one:
            unit.stub(one.reference, stub(one.name))
            unit.put(evolve(one, look_at=unit.now + AGAIN_US))


def _leave(unit: Unit, waiting: Sequence[tuple[str, bytes]]) -> None:
    """Leave small values where they are; take over objects that stubs of a ledger name that got a journal later."""
    for reference, body in waiting:
        name = name_in(body)
        if name:
            unit.put(Placed(name=name, reference=reference, look_at=unit.now + AGAIN_US))
        unit.stay(reference)


def _put_off(unit: Unit, due: Sequence[Placed], dead: Collection[str]) -> list[Placed]:
    """Move the time of those that were looked at; return those to be deleted: from here on nobody can refer to them."""
    known = {one.name: one for one in unit.placed([one.name for one in due])}
    doomed = []
    for one in due:
        if known.get(one.name) == one:
            after = evolve(one, look_at=unit.now + (RETRY_US if one.name in dead else AGAIN_US))
            unit.put(after)
            if one.name in dead:
                doomed.append(after)
    return doomed
