"""Does a payload still mean what it meant when it was sent?"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..policy import TaskPolicy
from ..serialization import canonical_json


@dataclass(frozen=True, kw_only=True)
class Binding:
    """Which parameter gets which value: by the code that failed, and by today's."""

    was: Mapping[str, Any] | None
    """None where the code that failed did not say."""
    now: Mapping[str, Any] | None
    """None where it can't be called so any more."""
    problem: str = ""
    """Why it is not to be sent as it is; empty where it fits."""


def compare(recorded: Any, policy: TaskPolicy, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Binding:
    """Bind a payload to the signature of then and to that of now.

    Args:
        recorded: the parameters of then, as `policy.parameters_of` described them; None where nobody did.
    """
    was = _bind(_signature(recorded), args, kwargs)
    if policy.signature is None:
        return Binding(was=was, now=None)
    try:
        now: Mapping[str, Any] = policy.signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return Binding(was=was, now=None, problem=f"the task can't be called so any more: {error}")
    if was is None or canonical_json(was) == canonical_json(now):
        return Binding(was=was, now=now)
    moved = sorted({name for name in {*was, *now} if was.get(name, _ABSENT) != now.get(name, _ABSENT)})
    return Binding(was=was, now=now, problem=f"the task's signature changed: other values for {', '.join(moved)}")


_ABSENT = object()


def _signature(recorded: Any) -> inspect.Signature | None:
    try:
        return inspect.Signature(
            [
                inspect.Parameter(
                    name, getattr(inspect.Parameter, kind), default=None if optional else inspect.Parameter.empty
                )
                for name, kind, optional in recorded
            ]
        )
    except (TypeError, ValueError, AttributeError):  # it comes from a stored message
        return None


def _bind(
    signature: inspect.Signature | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    if signature is None:
        return None
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
