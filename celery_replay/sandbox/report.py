"""What became of a body in its sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .audit import Blocked
from .kernel import Layers


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An error that ended the body, or what comes before and after it."""

    stage: str
    """`setup`, `prepare`, `lock`, `body` or `result`."""
    type: str
    """The full name of its class."""
    message: str = ""
    traceback: str = ""
    """Where it was raised, without values of variables."""

    def __str__(self) -> str:
        said = f": {self.message}" if self.message else ""
        return f"{self.type}{said}"


@dataclass(frozen=True, kw_only=True)
class Output:
    """What was printed, to one of the two streams."""

    text: str = ""
    """Its beginning and its end, if there is too much of it."""
    size: int = 0
    """Bytes that were printed."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What became of a body in its sandbox. Nothing of it is redacted but `blocked` and the error's message."""

    layers: Layers | None = None
    """None if the child did not come that far."""
    blocked: tuple[Blocked, ...] = ()
    """What was tried, in order; also where the body went on. Not what C code tried."""
    value: Any = None
    """What the body returned, as JSON has it."""
    error: Raised | None = None
    died: str = ""
    """How the child ended, if it did so without an answer."""
    stdout: Output = Output()
    stderr: Output = Output()
    unreadable: int = 0
    """Lines that came through the result pipe and were no answer."""

    @property
    def ok(self) -> bool:
        """Did the body return? It may have tried something before: see `blocked`."""
        return self.error is None and not self.died

    def heading(self) -> str:
        """Say in one line what enforced the sandbox, and in those after it how the body ended."""
        lines = [str(self.layers) if self.layers else "nothing was enforced: the sandbox was not set up"]
        lines.append(self._ending())
        if self.unreadable:
            lines.append(f"lines in the result pipe that are no answer: {self.unreadable:,}")
        return "\n".join([*lines, *(f"blocked: {blocked}" for blocked in self.blocked)])

    def _ending(self) -> str:
        if self.died:
            return f"ended without an answer: {self.died}"
        if self.error:
            return f"failed in {self.error.stage}: {self.error}"
        return "returned"
