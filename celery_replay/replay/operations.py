"""What became of a command about many dead letters, told from its history, item by item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .. import operations
from ..operations import PORTION
from ..records import HistoryEntry, Operation
from ..states import OperationState, Verb, Word
from ..stores.base import Store


class Standing(Word):
    """Where one item of a command stands."""

    PENDING = "pending"
    """Its replay or its dry run waits for its turn, is on its way, or runs."""
    RESOLVED = "resolved"
    """It ended well."""
    FAILED_AGAIN = "failed_again"
    """Its replay failed, or was withdrawn."""
    LEFT_OUT = "left_out"
    """Nothing was done with it; the entry says why."""
    DONE = "done"
    """What was wanted is done, and was no replay."""


_STANDINGS = {
    Verb.REPLAYED: Standing.PENDING,
    Verb.TRIAL_WANTED: Standing.PENDING,
    Verb.TRIAL_BEGUN: Standing.PENDING,
    Verb.RESOLVED: Standing.RESOLVED,
    Verb.FAILED_AGAIN: Standing.FAILED_AGAIN,
    Verb.LEFT_OUT: Standing.LEFT_OUT,
}


@dataclass(frozen=True, kw_only=True)
class Member:
    """One dead letter of a command."""

    submission: str
    began: HistoryEntry
    """The decision about it."""
    latest: HistoryEntry
    """What happened last."""

    @property
    def standing(self) -> Standing:
        """Where it stands."""
        return _STANDINGS.get(self.latest.verb, Standing.DONE)


def members(entries: Iterable[HistoryEntry]) -> Sequence[Member]:
    """Return the items of a command, in the order in which they were decided.

    Args:
        entries: the command's history, oldest first.
    """
    told: dict[str, list[HistoryEntry]] = {}
    for entry in entries:
        if entry.submission:
            told.setdefault(entry.submission, []).append(entry)
    return [Member(submission=name, began=its[0], latest=its[-1]) for name, its in told.items()]


def counts(items: Iterable[Member]) -> dict[Standing, int]:
    """Count the items by where they stand; only standings that occur, in their order."""
    found = Counter(item.standing for item in items)
    return {standing: found[standing] for standing in Standing if found[standing]}


def awaited_in(store: Store) -> dict[str, Operation]:
    """Return the letters that running operations have not come to yet, each with its operation."""
    running = (one for one in store.active_operations() if one.state is OperationState.RUNNING)
    return {str(letter["letter"]): operation for operation in running for letter in awaited_of(store, operation)}


def awaited_of(store: Store, operation: Operation) -> Iterator[dict[str, object]]:
    """Yield what is known of the letters that an operation has not come to yet."""
    number, skipped = divmod(operation.position, PORTION)
    for portion in store.every_portion(operation, number):
        yield from operations.letters_of(portion)[skipped:]
        skipped = 0
