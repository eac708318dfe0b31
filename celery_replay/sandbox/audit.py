"""An audit hook that refuses what leads out of the sandbox, and remembers who tried.

It names attempts, which the kernel can't. It is no barrier by itself: C code does not ask the interpreter. A hook can't
be removed, so it is installed in a child that ends soon.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..exceptions import SandboxBlocked
from ..redaction import kept_text
from .rules import Rule, rules

doing: ContextVar[str] = ContextVar("celery_replay_sandbox_step", default="")
"""The step that is being done, for what it tries to be told under its name."""

DETAIL_LIMIT = 200
"""Characters; so that a record is written to a pipe in one piece, whatever they are."""


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """An attempt to leave the sandbox."""

    what: str
    """The audit event, such as `socket.connect`."""
    detail: str = ""
    """The address, the program's name or the path that it was after."""
    step: str = ""
    """The step that was being done; empty outside of steps."""

    def __str__(self) -> str:
        where = f" in step {self.step}" if self.step else ""
        return f"{self.what} {self.detail}".rstrip() + where


def install(folder: Path, tell: Callable[[Blocked], None]) -> None:
    """Refuse from now on what leads out of this folder, for as long as this process lives."""
    ruled = rules(folder)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        rule = ruled.get(event)
        if rule is not None:
            _judge(rule, event, arguments, tell)

    sys.addaudithook(hook)


def _judge(rule: Rule, event: str, arguments: tuple[Any, ...], tell: Callable[[Blocked], None]) -> None:
    try:
        detail = rule(*arguments)
    except (RecursionError, MemoryError):
        raise
    except Exception:
        # Arguments that were not foreseen: nobody knows where they lead.
        detail = ""
    if detail is None:
        return
    blocked = Blocked(what=event.removesuffix(".__new__"), detail=_told(detail), step=_told(doing.get()))
    tell(blocked)
    raise SandboxBlocked(f"the sandbox does not let this out: {blocked}; if it is an effect, put it into a step")


def _told(text: str) -> str:
    return kept_text(text, DETAIL_LIMIT)
