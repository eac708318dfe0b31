"""Post-conditions about rows, ready to be declared. They look in the body's own transaction, where it has one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

from django.db.models import QuerySet

from celery_replay import Violation

from .updates import writable

Rows = Callable[..., QuerySet[Any]]
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def has_rows(rows: Rows, count: int = 1) -> Callable[..., Violation | None]:
    """Make a post-condition: so many rows are as they have to be.

    Args:
        rows: takes those of the task's arguments that it names, and returns the queryset of these rows.
        count: how many there have to be.
    """

    def holds(**arguments: Any) -> Violation | None:
        found = writable(rows(**arguments)).count()
        return None if found == count else Violation(expected=count, found=found)

    return _as(holds, rows, "has_rows")


def version_rose(rows: Rows, field: str = "version") -> Callable[..., Violation | None]:
    """Make a post-condition: each of these rows has a higher version than before the body, and there is one at least.

    Args:
        rows: takes those of the task's arguments that it names, and returns the queryset of these rows. It finds them
            by what the body does not change.
        field: a number that every change raises.
    """

    def versions(**arguments: Any) -> dict[Any, Any]:
        return dict(writable(rows(**arguments)).values_list("pk", field))

    def holds(*, before: dict[Any, Any] | None = None, **arguments: Any) -> Violation | None:
        if before is None:
            # An earlier attempt ran the body, and from which version on nobody knows.
            return None
        now = versions(**arguments)
        stayed = {pk: version for pk, version in before.items() if not (pk in now and now[pk] > version)}
        if stayed:
            return Violation(
                expected={str(pk): f"above {version}" for pk, version in stayed.items()},
                found={str(pk): now.get(pk) for pk in stayed},
            )
        return None if now else Violation(expected="1 row or more", found=0)

    made = _as(holds, rows, "version_rose", "before")
    made.before = _as(versions, rows, "version_rose")  # type: ignore[attr-defined]
    return made


def _as(function: Callable[..., Any], rows: Rows, name: str, *also: str) -> Callable[..., Any]:
    """Let a function ask for the arguments that another one names: so a wrong name shows at import."""
    wanted = [Parameter(more, Parameter.KEYWORD_ONLY, default=None) for more in also]
    for parameter in inspect.signature(rows).parameters.values():
        if parameter.kind in _BY_NAME:
            wanted.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
        elif parameter.kind is Parameter.VAR_KEYWORD:
            wanted.append(parameter)
    of = getattr(rows, "__name__", "<lambda>")
    function.__name__ = name if of == "<lambda>" else f"{name} {of}"
    function.__signature__ = inspect.Signature(wanted)  # type: ignore[attr-defined]
    return function
