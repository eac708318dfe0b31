"""A store that can have a journal beside it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ..clock import Micros
from .archive import Backlog, Now, Taken
from .base import Store


class Ledger(Store):
    """Notes in an outbox what changes, in the same atomic step as the change. What is noted again is there once."""

    @abstractmethod
    def take(self, settle_us: Micros, limit: int, names: Sequence[str] = ()) -> Taken:
        """Take names out of the outbox; what was taken before and not told comes first.

        Args:
            settle_us: for how long it must have been noted: what follows soon is told along with it.
            names: these alone, whenever they were noted.
        """

    @abstractmethod
    def told(self, taken: Taken) -> None:
        """Forget what was taken; not what changed again since."""

    @abstractmethod
    def put_off(self, taken: Taken, delay_us: Micros) -> None:
        """Note what was taken again, for later."""

    @abstractmethod
    def changed(self, names: Sequence[str]) -> Now:
        """Read what has these names now."""

    @abstractmethod
    def note_older(self, limit: int) -> int:
        """Note what was there before anything was noted, the next of it; return how many jobs, 0 once all are."""

    @abstractmethod
    def noted(self) -> Backlog:
        """Count what waits in the outbox, and look since when."""
