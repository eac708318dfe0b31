"""Tracebacks that tell where something was raised, and not what it says: messages may hold the job's data."""

from __future__ import annotations

import traceback
from collections.abc import Callable

_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def raised_at(error: BaseException, says: Callable[[BaseException], str] = lambda _: "") -> str:
    """Tell where an error was raised, and those behind it. There are never values of variables in it.

    Args:
        says: what of an error's message is told.
    """
    told: list[str] = []
    seen = set[int]()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        lines = "".join(traceback.format_tb(link.__traceback__))
        said = says(link)
        told.append(f"Traceback (most recent call last):\n{lines}{name_of(link)}{said and f': {said}'}\n")
        behind = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        if behind is not None and id(behind) not in seen:
            told.append(_CAUSED if link.__cause__ else _DURING)
        link = behind
    return "".join(reversed(told))


def name_of(error: BaseException) -> str:
    """Return the full name of an error's class."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"
