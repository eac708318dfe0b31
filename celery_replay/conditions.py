"""Post-conditions as a task declares them: what has to hold once its body has returned."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import hooks
from .serialization import safe_text

GIVEN = ("result", "before")
"""What a post-condition may name beside the task's parameters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One post-condition of a task."""

    name: str
    holds: Callable[[Mapping[str, Any]], Any]
    """Takes the task's bound arguments, and what is `GIVEN`."""
    before: Callable[[Mapping[str, Any]], Any] | None = None
    """Takes the bound arguments before the body begins; what it returns is given to `holds`."""


def check(task_name: str, declared: Iterable[Any], signature: inspect.Signature | None) -> None:
    """See that no post-condition wants what the task can't give.

    Raises:
        ConfigurationError: one does; the message names it.
    """
    for number, hook in enumerate(declared):
        option = f"postconditions[{number}]"
        hooks.check(task_name, option, hook, signature, also=GIVEN)
        if hasattr(hook, "before"):
            hooks.check(task_name, f"{option}.before", hook.before, signature)


def compiled(declared: Iterable[Any], signature: inspect.Signature | None) -> tuple[Condition, ...]:
    """Compile a task's post-conditions, in their order."""
    made: dict[str, Condition] = {}
    for number, hook in enumerate(declared):
        name = safe_text(getattr(hook, "__name__", type(hook).__name__), 200)
        if name == "<lambda>" or name in made:
            name = f"{name.strip('<>')}[{number}]"
        holds, before = hooks.by_name(hook, signature), getattr(hook, "before", None)
        made[name] = Condition(name=name, holds=holds, before=before and hooks.by_name(before, signature))
    return tuple(made.values())
