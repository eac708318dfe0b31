"""What is kept of an exception, and what it says about side effects."""

from __future__ import annotations

import json
import os
import sysconfig
import traceback
from collections.abc import Collection, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from .exceptions import EffectNotAllowed, PostconditionFailed, RolledBack, StepWrites, UnknownOutcome
from .logs import OF_SYSTEMS
from .records import Failure
from .redaction import kept_text, redact_text
from .serialization import TEXT_LIMIT, safe_text
from .states import Category, Reason
from .tracebacks import name_of, raised_at

_REASONS: tuple[tuple[type[BaseException], Reason], ...] = (
    (RolledBack, Reason.ROLLED_BACK),
    (PostconditionFailed, Reason.POSTCONDITION),
    (EffectNotAllowed, Reason.EFFECT_NOT_ALLOWED),
)
_UNKNOWN: tuple[type[BaseException], ...] = (
    UnknownOutcome,
    StepWrites,
    TimeoutError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
)
_BROKEN = frozenset(
    {"IncompleteRead", "ProtocolError", "ReadError", "RemoteProtocolError", "ServerDisconnectedError", "TimeoutExpired"}
)
"""Names in HTTP libraries, and in the standard one, for what broke off after the request had been sent."""


MESSAGE_LIMIT = 4_000
_CUT = "\n…[cut]…\n"
_FRAMES = 8
"""How many of the innermost ones count: a recursion must not make a group of every depth."""
_OURS = f"{Path(__file__).parent}{os.sep}"
_FOREIGN = (
    "<frozen ",
    _OURS,
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
)
"""Where code lies that is nobody's fault: the standard library, installed packages, ours."""


def failure_of(
    error: BaseException,
    reason: Reason = Reason.EXCEPTION,
    *,
    known: Collection[str] = (),
    says: bool = True,
    category: Category = Category.UNCLASSIFIED,
) -> Failure:
    """Describe an exception as text; its own methods may do anything and are not trusted.

    Args:
        known: texts that are known to be secret.
        says: whether what it says is kept, and not only what it is and where it was raised.
        category: what kind of failure it was judged to be.
    """
    if isinstance(error, MemoryError):
        # What the body's frames still hold is what is missing now, to write this down.
        traceback.clear_frames(error.__traceback__)
    return Failure(
        type=safe_text(name_of(error), 500),
        message=kept_text(error, MESSAGE_LIMIT, known) if says else "",
        traceback=_bounded(_traceback(error) if says else raised_at(error), known),
        category=category,
        reason=next((word for cls, word in _REASONS if isinstance(error, cls)), reason),
        frames=_frames(error),
    )


def is_outage(task: Any, error: BaseException) -> bool:
    """Is a broker, a database or the result backend away? What failed for that may succeed in a while."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, (ConnectionError, TimeoutError)) or names & OF_SYSTEMS:
        return True
    return bool(task.backend.exception_safe_to_retry(error))


def _frames(error: BaseException) -> tuple[str, ...]:
    """Name the functions of the project's own code that an error came through, outermost first.

    Where it came through none of them, the function that raised it; of post-conditions, those that do not hold.
    """
    if isinstance(error, PostconditionFailed):
        return tuple(f"post-condition {safe_text(name, 250)}" for name in error.conditions[:_FRAMES])
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = [code for code in codes if not code.co_filename.startswith(_FOREIGN)]
    return tuple(safe_text(_function(code), 300) for code in (own or codes[-1:])[-_FRAMES:])


def _function(code: CodeType) -> str:
    path = Path(code.co_filename)
    # Not the whole path: the same code lies elsewhere on the next machine.
    return f"{path.parent.name}/{path.name}:{getattr(code, 'co_qualname', code.co_name)}"


def _traceback(error: BaseException) -> str:
    try:
        told = traceback.TracebackException.from_exception(error, compact=True)
        _leave_out_ours(told)
        return "".join(told.format())
    except Exception:  # a user's __str__ or __repr__
        return raised_at(error)


def _leave_out_ours(told: traceback.TracebackException) -> None:
    """Leave out our own functions between those of others: they are in every traceback, and nobody's fault."""
    left = [told]
    while left:
        link = left.pop()
        ours = [frame.filename.startswith(_OURS) for frame in link.stack]
        innermost = max((at for at, own in enumerate(ours) if not own), default=-1)
        link.stack[:] = [frame for at, frame in enumerate(link.stack) if at > innermost or not ours[at]]
        # A group's members are there since Python 3.11.
        behind = (link.__cause__, link.__context__, *(getattr(link, "exceptions", None) or ()))
        left.extend(filter(None, behind))


def _bounded(text: str, known: Collection[str]) -> str:
    """Redact and then cut a text: where it began, and what it came to in the end."""
    # Of a monstrous text so much that what is secret is seen as a whole in what is kept of it.
    parts = (text[: TEXT_LIMIT * 4], text[-TEXT_LIMIT * 4 :]) if len(text) > TEXT_LIMIT * 8 else (text,)
    text = _CUT.join(redact_text(safe_text(part, len(part)), known) for part in parts)
    return text if len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT // 4]}{_CUT}{text[-TEXT_LIMIT // 2 :]}"


def failure_json(failure: Failure) -> str:
    """Encode what the job's own record keeps of a failure."""
    return json.dumps({"type": failure.type, "message": failure.message, "reason": str(failure.reason)})


def leaves_outcome_unknown(error: BaseException) -> bool:
    """May a side effect have happened although its call raised this?

    Time-outs after sending, connections that broke, and anything that cut the call off from outside, as a refused write
    does; also where they are an error's cause. A refused connection or an error answer says that nothing happened.
    """
    return any(_cuts_off(link) for link in _links(error))


def _links(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it wraps: as its cause, its context, or an argument, as HTTP libraries do."""
    waiting, seen = [error], set[int]()
    while waiting:
        link = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        wrapped = (link.__cause__, link.__context__, getattr(link, "reason", None), *link.args)
        waiting.extend(inner for inner in wrapped if isinstance(inner, BaseException))


def _cuts_off(error: BaseException) -> bool:
    if isinstance(error, _UNKNOWN) or not isinstance(error, Exception):
        return True
    names = {cls.__name__ for cls in type(error).__mro__}
    if names & _BROKEN:
        return True
    timed_out = any(name.endswith(("Timeout", "TimeoutError", "TimeLimitExceeded")) for name in names)
    return timed_out and not any(name.startswith(("ConnectTimeout", "PoolTimeout")) for name in names)


def blank(kind: type[BaseException]) -> BaseException:
    """Make an error of a class by the built-in one that it comes from: no code of the class's own is run for that."""
    made_by: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    made: BaseException = made_by.__new__(kind)
    return made
