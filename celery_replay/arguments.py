"""A call's arguments by the names of its parameters: the names tell which of them are secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from .redaction import REDACTED, is_secret, secrets_in

Parameters = Sequence[Sequence[Any]]
"""Name, kind, and whether there is a default, of each: what `policy.parameters_of` tells."""

_BY_POSITION = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")
_SIZED = frozenset({str, bytes, list, tuple, dict, set, frozenset})
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
    # How long a secret is would tell something of it.
    return {
        name[:100]: REDACTED if is_secret(name) else _type(value) for name, value in islice(arguments.items(), _MOST)
    }


def _type(value: Any) -> str:
    kind = type(value)
    return f"{kind.__name__}[{len(value)}]" if kind in _SIZED else kind.__name__[:100]


class Secrets:
    """The secret values of one call; looked for once, and only if somebody asks.

    Args:
        name: names arguments.
        more: other data, such as headers.
    """

    __slots__ = ("_found", "_given")

    def __init__(self, name: Callable[[Any, Any], Mapping[str, Any]], args: Any, kwargs: Any, more: Any) -> None:
        self._given = (name, args, kwargs, more)
        self._found: tuple[str, ...] | None = None

    def __call__(self) -> tuple[str, ...]:
        """Return them, as messages may write them."""
        if self._found is None:
            name, args, kwargs, more = self._given
            self._found = secrets_in(name(args, kwargs), more)
        return self._found
