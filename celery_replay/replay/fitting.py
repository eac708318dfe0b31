"""A dead letter with other arguments: changed by their names, and only to what today's code takes."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import dead_letters
from ..arguments import named
from ..exceptions import ReplayError
from ..policy import TaskPolicy
from ..records import Letter
from ..serialization import canonical_json
from . import message as messages

Arguments = Mapping[str, Any]


class PayloadUnfit(ReplayError):
    """The payload can't be sent as somebody wrote it; the message says what it may be."""

    id = "payload-unfit"


@dataclass(frozen=True, kw_only=True)
class Mended:
    """A payload before and after."""

    before: Arguments
    after: Arguments
    message: bytes
    """The whole message, to be kept with the letter."""

    @property
    def changed(self) -> list[str]:
        """Names of the arguments that are not what they were."""
        names = dict.fromkeys([*self.before, *self.after])
        return [name for name in names if _text(self.before, name) != _text(self.after, name)]


def _text(arguments: Arguments, name: str) -> str | None:
    return canonical_json(arguments[name]) if name in arguments else None


def arguments_of(letter: Letter, policy: TaskPolicy) -> Arguments:
    """Name the arguments that a replay would send now, by the parameters of the code that sent them.

    Raises:
        PayloadUnreadable: it is not JSON, or was not kept.
    """
    return arguments_in(letter.to_send, policy, mended=letter.edited is not None)


def arguments_in(message: bytes, policy: TaskPolicy, *, mended: bool = False) -> Arguments:
    """Name the arguments of a message, by the parameters of the code that sent it.

    Args:
        mended: they were given for the parameters of today's code.

    Raises:
        PayloadUnreadable: it is not JSON, or was not kept.
    """
    payload = messages.read(message)
    told: Any = None if mended else dead_letters.declared(message).get("parameters")
    return named(told or policy.told.get("parameters"), payload.args, payload.kwargs)


def with_arguments(message: bytes, policy: TaskPolicy, news: Arguments, *, mended: bool = False) -> bytes:
    """Give some arguments of a message other values; the rest of it stays.

    Raises:
        PayloadUnreadable: it is not JSON, or was not kept.
        PayloadUnfit: today's code can't be called so.
    """
    args, kwargs = call_of(policy, {**arguments_in(message, policy, mended=mended), **news})
    _see_that_it_fits(policy, args, kwargs)
    return messages.edit(message, args, kwargs)


def changed(letter: Letter, policy: TaskPolicy, news: Arguments, gone: Collection[str] = ()) -> Mended:
    """Give some arguments other values, and take some away.

    Raises:
        PayloadUnreadable: it is not JSON, or was not kept.
        PayloadUnfit: today's code can't be called so.
    """
    before = arguments_of(letter, policy)
    absent = [name for name in gone if name not in before]
    if absent:
        raise PayloadUnfit(f"it has no argument {', '.join(absent)} ({', '.join(before)})")
    after = {**{name: value for name, value in before.items() if name not in gone}, **news}
    return replaced(letter, policy, *call_of(policy, after))


def replaced(
    letter: Letter, policy: TaskPolicy, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
) -> Mended:
    """Give a letter other positional or named arguments, or both; the rest of its message stays.

    Raises:
        PayloadUnreadable: its message is not JSON, or was not kept.
        PayloadUnfit: today's code can't be called so.
    """
    payload = messages.read(letter.to_send)
    args = payload.args if args is None else args
    kwargs = payload.kwargs if kwargs is None else kwargs
    _see_that_it_fits(policy, args, kwargs)
    after = named(policy.told.get("parameters"), args, kwargs)
    return Mended(before=arguments_of(letter, policy), after=after, message=messages.edit(letter.message, args, kwargs))


def _see_that_it_fits(policy: TaskPolicy, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    if policy.signature is not None:
        try:
            policy.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise PayloadUnfit(f"the task can't be called so: {error}") from error


def call_of(policy: TaskPolicy, values: Arguments) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Turn named values into what today's code is called with.

    Raises:
        PayloadUnfit: it can't be called so.
    """
    if policy.signature is None:
        raise PayloadUnfit("the task's parameters are not known: give all of its arguments anew")
    parameters = policy.signature.parameters
    known = {name: value for name, value in values.items() if name in parameters}
    rest = {name: value for name, value in values.items() if name not in parameters}
    catch_all = next((p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)
    if rest and catch_all is None:
        raise PayloadUnfit(f"the task has no parameter {', '.join(rest)} ({', '.join(parameters)})")
    if catch_all is not None:
        known[catch_all] = rest
    bound = inspect.BoundArguments(policy.signature, known)
    return bound.args, bound.kwargs
