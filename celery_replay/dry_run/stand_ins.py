"""What stands in for a side effect in a dry run: its recorded output, or its recorded failure; never a guess."""

from __future__ import annotations

import builtins
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kombu.utils.json import dumps

from ..clock import Micros
from ..exceptions import ReplayError
from ..failures import blank
from ..records import StepRecord
from ..sandbox import audit
from ..serialization import digest
from ..states import StepState
from .recording import Recording
from .variation import Variation


class Diverged(ReplayError):
    """The body asks the outside for something of which nothing is recorded; nothing was done."""

    id = "diverged"


class RecordedError(Exception):
    """An error that a side effect raised then, and whose type is not loaded here, or can't be made again."""


class StandIns:
    """The recorded outside. A body may swallow what is raised here, so what was asked in vain is also kept."""

    def __init__(self, recording: Recording, variation: Variation, *, reached: bool = False) -> None:
        self._steps = recording.steps
        self._reads = recording.reads
        self._stubs = variation.stubs
        self._live = {*variation.live}
        self._at = variation.at
        self.reached = reached
        """Has the body come to where all steps are live?"""
        self._failures: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
        self._times = deque(event.at for event in recording.events if event.name == "time_read")
        for event in recording.events:
            if event.name == "step_failed" and "call_digest" in event.attributes:
                self._failures[str(event.attributes["call_digest"])].append(event.attributes)
        self.missing: list[str] = []
        """What had no record, step by step."""

    @contextmanager
    def doing(self, step: str) -> Iterator[None]:
        """Note for the while which step is being done: what it tries to do is told under its name."""
        token = audit.doing.set(step)
        try:
            yield
        finally:
            audit.doing.reset(token)

    def comes_to(self, moment: str) -> bool:
        """Go over to what is live where this is the moment; return whether the state is to be captured there."""
        if self.reached or moment != self._at:
            return False
        self.reached = True
        return True

    def plays(self, asked: StepRecord) -> bool:
        """Say whether this stands in for a step: not for one that is live, unless it is told what it gives."""
        return asked.name in self._stubs or not (self.reached or asked.name in self._live)

    def now(self) -> Micros | None:
        """Give the next time that the body was told then; None where it was told no more."""
        return self._times.popleft() if self._times else None

    def output(self, asked: StepRecord) -> str:
        """Give a step's output as it is recorded.

        Raises:
            Diverged: there is no record of this call.
            Exception: what the step raised then.
        """
        if asked.name in self._stubs:
            return str(dumps(self._stubs[asked.name]))
        known, call = self._steps.get(asked.key), digest(asked.key)
        if known is not None and known.output is not None:
            return known.output
        read = self._reads.get(call)
        if read is not None:
            return read
        failed = self._failures[call]
        if failed and (known is None or known.state is not StepState.SETTLED):
            raise _like(failed.popleft())
        raise self._unknown(asked, known)

    def _unknown(self, asked: StepRecord, known: StepRecord | None) -> Diverged:
        self.missing.append(asked.name)
        if known is None:
            return Diverged(f"step {asked.name}: no call with the key {asked.key!r} is recorded{_others(self._steps)}")
        if known.state is StepState.SETTLED:
            return Diverged(
                f"step {asked.name} was done, but what it gave is not recorded; give it encode= and decode="
            )
        return Diverged(f"step {asked.name} was begun then, and nobody knows its end")


def _others(steps: Any) -> str:
    return f"; recorded are {', '.join(sorted(steps))}"[:400] if steps else ""


def _like(recorded: dict[str, Any]) -> Exception:
    """Make an error again: of its type where a module that is loaded has one of that name, with its message.

    What is stored names a class, it never runs one: the class must be loaded already, and is not called.
    """
    name, message = str(recorded.get("type") or recorded.get("error")), str(recorded.get("message", ""))
    found = _loaded(name.split("."))
    if found is None:
        return RecordedError(f"{name}: {message}")
    try:
        error: Any = blank(found)
        # Its text is how it shows its key.
        error.args = (message[1:-1] if issubclass(found, KeyError) and message[:1] in _QUOTES else message,)
        str(error)
    except Exception:  # a user's class
        return RecordedError(f"{name}: {message}")
    made: Exception = error
    return made


_QUOTES = frozenset("'\"")


def _loaded(path: Sequence[str]) -> type[Exception] | None:
    module = sys.modules.get(".".join(path[:-1])) if len(path) > 1 else builtins
    found = getattr(module, path[-1], None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
