"""Functions that a task declares and that are called with its arguments: with all of them, or with those they name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from inspect import Parameter
from typing import Any

from .exceptions import ConfigurationError

_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)
_RESTS = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def declared(cls: Any, option: str) -> Any:
    """Return an option of a task's class as the bound task will have it: what is written as a method gets the task."""
    found = inspect.getattr_static(cls, option, None)
    is_method = inspect.isfunction(found) and not vars(cls).get("_decorated", False)
    return partial(found, None) if is_method else getattr(cls, option, None)


def check(
    task_name: str, option: str, hook: Any, signature: inspect.Signature | None, *, also: Collection[str] = ()
) -> None:
    """See that a hook wants nothing that the task can't give: else that shows in the middle of a crash.

    Args:
        also: what it is given beside the task's arguments.

    Raises:
        ConfigurationError: it does; the message names what.
    """
    refuse_async(f"task {task_name}", option, hook)
    parameters = _parameters(hook) if callable(hook) and signature is not None else None
    if parameters is None or signature is None:
        return
    wanted = [p.name for p in parameters if p.default is p.empty and p.kind not in (*_RESTS, p.POSITIONAL_ONLY)]
    unknown = ", ".join(name for name in wanted if name not in signature.parameters and name not in also)
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        known = ", ".join(signature.parameters) or "none"
        raise ConfigurationError(
            f"task {task_name}: {option}= wants {unknown}, which is no parameter of the task ({known}); it gets those "
            "arguments of the task that it names"
        )


def refuse_async(whose: str, option: str, hook: Any) -> None:
    """See that a hook has run when it returns: a coroutine would be taken for its answer.

    Raises:
        ConfigurationError: it is `async def`, or a generator.
    """
    if runs_later(hook):
        raise ConfigurationError(
            f"{whose}: {option}= returns before it has run, as async functions and generators do; give it a plain "
            "function that runs it to its end, such as by asyncio.run()"
        )


def runs_later(function: Any) -> bool:
    """Does a function return before it has run?"""
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    return any(is_kind(function) for is_kind in kinds)


def by_name(hook: Callable[..., Any], signature: inspect.Signature | None) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that calls a hook with those of a task's bound arguments that it names."""
    parameters = _parameters(hook)
    rests = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD] if signature else []
    every = parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters)
    names = frozenset(p.name for p in parameters or ())

    def call(bound: Mapping[str, Any]) -> Any:
        keywords = dict(bound)
        for rest in rests:
            keywords.update(keywords.pop(rest, {}))
        return hook(**{name: value for name, value in keywords.items() if every or name in names})

    return call


def fitted(hook: Callable[..., Any], signature: inspect.Signature | None) -> Callable[..., Any]:
    """Return a function that takes a task's arguments as they are, and calls a hook with those that it names."""
    parameters = _parameters(hook)
    if signature is None or parameters is None or any(p.kind in _BY_POSITION for p in parameters):
        return hook
    call = by_name(hook, signature)

    def fit(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return call(bound.arguments)

    return fit


def _parameters(hook: Any) -> list[Parameter] | None:
    """Return a hook's parameters; None where it does not say, as functions in C may not."""
    try:
        return list(inspect.signature(hook).parameters.values())
    except (TypeError, ValueError):
        return None
