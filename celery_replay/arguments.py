"""A call's arguments by the names of its parameters: the names tell which of them are secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .redaction import REDACTED, is_secret
from .serialization import safe_text

Parameters = Sequence[Sequence[Any]]
"""Name, kind, and whether there is a default, of each: what `policy.parameters_of` tells."""

_BY_POSITION = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")
_SIZED = (str, bytes, list, tuple, dict, set, frozenset)
"""Types whose length is at hand; that of a query may ask a database."""
_MOST = 50


def named(parameters: Parameters | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Name a call's arguments, also where they don't fit; defaults are left out.

    Returns:
        The arguments by their names; those for which there is no parameter under `*args`, or under their names with
        two stars. Where the parameters aren't known, `args` and `kwargs` as they are.
    """
    if parameters is None:
        return {"args": args, "kwargs": kwargs}
    names = [name for name, kind, *_ in parameters if kind in _BY_POSITION]
    found: dict[str, Any] = dict(zip(names, args, strict=False))
    if len(args) > len(names):
        rest = next((name for name, kind, *_ in parameters if kind == "VAR_POSITIONAL"), "*args")
        found[rest] = list(args[len(names) :])
    for name, value in kwargs.items():
        found[f"**{name}" if name in found else name] = value
    return found


def types(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Tell the types of arguments, and how long they are; nothing of what they are."""
    return {safe_text(name, 100): _type(name, value) for name, value in [*arguments.items()][:_MOST]}


def _type(name: str, value: Any) -> str:
    if is_secret(name):
        # How long it is would tell something.
        return REDACTED
    kind = type(value)
    return f"{kind.__name__}[{len(value)}]" if kind in _SIZED else kind.__name__[:100]
