"""The part of a store that keeps operations: each change is made by whoever saw the record as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from .. import dead_letters, operations
from ..clock import Micros
from ..dead_letters import Decision
from ..exceptions import TriageRefused
from ..records import HistoryEntry, Operation, Portion, evolve
from ..states import OperationState, Verb
from .reading import Position, Reader
from .units import Unit

T = TypeVar("T")
_STATES = {OperationState.STOPPED: Verb.STOPPED, OperationState.FINISHED: Verb.FINISHED}
"""What is written down of an operation that changes its state by itself."""


class Operating(ABC):
    """Keeps operations."""

    @abstractmethod
    def _atomically(self, step: Callable[[Unit], T]) -> T:
        """Run a step as one, again where others got in its way."""

    @abstractmethod
    def _read(self) -> AbstractContextManager[Reader]:
        """Begin a look at what is stored."""

    @abstractmethod
    def now(self) -> Micros:
        """Read the store's clock."""

    @property
    def _operating(self) -> Operating:
        """The store that has the operations: of two, the journal."""
        return self

    def begin_operation(
        self, operation: Operation, portions: Sequence[Portion], refused: Iterable[tuple[str, Decision]] = ()
    ) -> Operation:
        """Begin an operation; return it as it is stored.

        Args:
            refused: letters that are none of it, and why; for the history.

        Raises:
            TriageRefused: it was begun before.
        """
        now = self.now()
        begun = evolve(operation, began_at=now, changed_at=now, due_at=now)
        entries = [_entry(Verb.BEGUN, begun, begun.actor, begun.reason, now)]
        entries += [dead_letters.entry(decision, now, submission=letter) for letter, decision in refused]

        def step(unit: Unit) -> Operation:
            known = unit.operation(operation.operation_id)
            if known is not None:
                raise TriageRefused(f"{known.actor} has begun this operation already: {known.operation_id}")
            unit.put(begun)
            for portion in portions:
                unit.put(portion)
            for entry in entries:
                unit.put(entry)
            return begun

        return self._operating._atomically(step)

    def change_operation(self, before: Operation, after: Operation) -> Operation:
        """Write an operation, if nobody has changed it since; return it as it is stored.

        Raises:
            TriageRefused: somebody has, or it was forgotten.
        """
        now = self.now()

        def step(unit: Unit) -> Operation:
            known = unit.operation(before.operation_id)
            if known is None or known.revision != before.revision:
                raise TriageRefused("the operation changed meanwhile; look again")
            stored = evolve(after, changed_at=now, revision=known.revision + 1)
            unit.put(stored)
            if known.state is not stored.state and stored.state in _STATES:
                unit.put(_entry(_STATES[stored.state], stored, "", stored.said, now))
            return stored

        return self._operating._atomically(step)

    def decide_operation(self, operation_id: str, decision: Decision) -> Operation:
        """Pause an operation, let it go on, or end it; return it as it is now.

        Raises:
            TriageRefused: there is none, or its state does not allow that.
        """
        now = self.now()

        def step(unit: Unit) -> Operation:
            known = unit.operation(operation_id)
            if known is None:
                raise TriageRefused(f"there is no operation {operation_id}")
            after = operations.decide(known, decision.verb, decision.text, now)
            stored = evolve(operations.judged(after), changed_at=now, revision=known.revision + 1)
            unit.put(stored)
            unit.put(_entry(decision.verb, stored, decision.actor, decision.text, now))
            return stored

        return self._operating._atomically(step)

    def operation(self, operation_id: str) -> Operation | None:
        """Look up an operation."""
        with self._operating._read() as reader:
            return reader.operation(operation_id)

    def operations(self, limit: int = 100, *, before: Position | None = None) -> Sequence[Operation]:
        """Return operations, the newest first.

        Args:
            before: the last one of the page before this one: its `began_at` and `operation_id`.
        """
        with self._operating._read() as reader:
            return reader.operations(limit, before)

    def active_operations(self, limit: int = 100) -> Sequence[Operation]:
        """Return operations for which a steward has something to do, the oldest first."""
        with self._operating._read() as reader:
            return reader.active_operations(limit)

    def operation_history(self, operation_id: str, limit: int = 200) -> Sequence[HistoryEntry]:
        """Return what was done to an operation as a whole, oldest first."""
        with self._operating._read() as reader:
            return reader.history({"operation_id": operation_id, "submission": ""}, limit)

    def portion(self, operation_id: str, number: int) -> Portion | None:
        """Return some of an operation's letters."""
        with self._operating._read() as reader:
            return reader.portion(operation_id, number)

    def every_portion(self, operation: Operation, first: int = 0) -> Iterator[Portion]:
        """Yield an operation's letters, portion by portion."""
        number = first
        while (portion := self.portion(operation.operation_id, number)) is not None:
            yield portion
            number += 1


def _entry(verb: Verb, operation: Operation, actor: str, text: str, now: Micros) -> HistoryEntry:
    decision = Decision(verb=verb, actor=actor, text=text, operation_id=operation.operation_id)
    return dead_letters.entry(decision, now)
