"""Checks what has to hold once a body has returned; and conditions ready to be declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded

from .attempts import Attempt
from .conditions import Condition
from .current import current_attempt
from .exceptions import PostconditionFailed, PostconditionUnchecked, ReplayError
from .redaction import kept_text
from .serialization import canonical
from .states import Capture
from .templates import KEY_FORMATTER

_SHOWN = 200
"""Characters that the letter says of a value."""
_NOT_THE_CHECKS = (ReplayError, Ignore, Reject, Retry, SoftTimeLimitExceeded)
"""What ends an attempt out of a check just as it does out of the body."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """What a post-condition returns that does not hold."""

    expected: Any
    found: Any


def begin(attempt: Attempt) -> Callable[[Any], None]:
    """Measure what is compared, before the body begins; return what checks its result.

    Raises:
        PostconditionUnchecked: it could not be measured.
    """
    if not attempt.policy.postconditions:
        return _hold
    checks = _Checks(attempt)
    checks.measure()
    return checks.check


def check_found(attempt: Attempt, result: Any) -> None:
    """Check a result that was found in place of running the body: of what happened before, nothing is known."""
    if attempt.policy.postconditions:
        _Checks(attempt).check(result)


def _hold(result: Any) -> None:
    pass


class _Checks:
    """The post-conditions of one attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._conditions = attempt.policy.postconditions
        self._bound = attempt.policy.bind(attempt.args, attempt.kwargs) or {}
        self._before: dict[str, Any] = {}

    def measure(self) -> None:
        """Ask each condition for what it wants to compare."""
        self._attempt.recorder.witnessed = []
        for condition in self._conditions:
            if condition.before is not None:
                self._before[condition.name] = self._asked(condition, condition.before, self._bound)

    def check(self, result: Any) -> None:
        """See that all conditions hold.

        Raises:
            PostconditionFailed: some do not.
            PostconditionUnchecked: a check failed itself.
        """
        if self._attempt.retry_at is not None:
            # It has published a retry, and returned all the same: that one's body is to be asked.
            return
        doubts, identity, is_step = self._attempt.steps.doubts, self._attempt.identity, self._attempt.policy.is_step
        if is_step:
            # What the body did has stayed, and is not known to be right: nobody is to do it again blindly.
            doubts.add(identity)
        broken = self._broken(result)
        if broken:
            raise self._failed(broken)
        if is_step:
            doubts.discard(identity)
        names = ", ".join(condition.name for condition in self._conditions)
        self._attempt.recorder.record("postconditions_held", attributes={"postconditions": names})

    def _broken(self, result: Any) -> dict[str, Violation]:
        broken: dict[str, Violation] = {}
        for condition in self._conditions:
            given = {**self._bound, "result": result, "before": self._before.get(condition.name)}
            try:
                answer = self._asked(condition, partial(_answer, condition), given)
            except PostconditionUnchecked:
                if broken:
                    # That is known, whatever this one would have said.
                    break
                raise
            if answer is not None:
                broken[condition.name] = answer
        return broken

    def _asked(self, condition: Condition, ask: Callable[[Mapping[str, Any]], Any], given: Mapping[str, Any]) -> Any:
        try:
            return ask(given)
        except _NOT_THE_CHECKS:
            raise
        except Exception as error:
            said = self._attempt.recorder.said(error)
            self._attempt.recorder.record(
                "postcondition_unchecked", status="fail", attributes={"postcondition": condition.name, **said}
            )
            unchecked = PostconditionUnchecked(
                f"post-condition {condition.name} could not be checked: {self._shown(error, str)}"
            )
            raise unchecked.with_traceback(error.__traceback__) from error

    def _failed(self, broken: Mapping[str, Violation]) -> PostconditionFailed:
        says = self._attempt.policy.capture is not Capture.NONE
        said = []
        for name, violation in broken.items():
            expected, found = (violation.expected, violation.found) if says else (None, None)
            self._attempt.recorder.record(
                "postcondition_failed",
                status="fail",
                attributes={"postcondition": name, "expected": expected, "found": found},
            )
            said.append(f"{name}: expected {self._shown(violation.expected)}, found {self._shown(violation.found)}")
        return PostconditionFailed("; ".join(said), *broken)

    def _shown(self, value: Any, show: Callable[[Any], str] = repr) -> str:
        try:
            text = show(value)
        except Exception:  # a user's __repr__
            text = f"a {type(value).__name__}"
        return kept_text(text, _SHOWN, self._attempt.secrets())


def _answer(condition: Condition, given: Mapping[str, Any]) -> Violation | None:
    try:
        answer = condition.holds(given)
    except AssertionError as error:
        return Violation(expected=True, found=str(error) or "a failed assertion")
    if answer is None or answer is True:
        return None
    if answer is False:
        return Violation(expected=True, found=False)
    if isinstance(answer, Violation):
        return answer
    raise TypeError(f"it returned {type(answer).__name__}; it must return None, True, False or a Violation")


def recorded(event: str, /, count: int | None = None, **attributes: Any) -> Callable[..., Violation | None]:
    """Make a post-condition: the body recorded such an event, by `record()`.

    Args:
        count: how often; by default once or more.
        attributes: what the event has to say. A text is a template over the task's parameters, as a key is.
    """

    def holds(**arguments: Any) -> Violation | None:
        wanted = {name: _filled(value, arguments) for name, value in attributes.items()}
        return _witnessed(event, wanted, count)

    return _named(holds, f"recorded {event}")


def published(task: Any, /, count: int | None = None) -> Callable[..., Violation | None]:
    """Make a post-condition: the body published such a task.

    What waits for the commit, as with `delay_on_commit()`, is published too late to be seen in a transaction.

    Args:
        task: the task, or its name.
        count: how often; by default once or more.
    """
    name = task if isinstance(task, str) else task.name
    return _named(lambda: _witnessed("child_published", {"task": name}, count), f"published {name}")


def _named(holds: Callable[..., Violation | None], name: str) -> Callable[..., Violation | None]:
    holds.__name__ = name
    return holds


def _filled(value: Any, arguments: Mapping[str, Any]) -> Any:
    return KEY_FORMATTER.vformat(value, (), arguments) if isinstance(value, str) else value


def _witnessed(event: str, wanted: Mapping[str, Any], count: int | None) -> Violation | None:
    attempt = current_attempt()
    if attempt is None or attempt.recorder.witnessed is None:
        # An earlier attempt ran the body, and nobody knows what it would have told.
        return None
    told = [attributes for name, attributes in attempt.recorder.witnessed if name == event]
    found = sum(all(_same(attributes.get(name), value) for name, value in wanted.items()) for attributes in told)
    if found == count or (count is None and found):
        return None
    return Violation(expected="1 or more" if count is None else count, found=found)


def _same(told: Any, wanted: Any) -> bool:
    plain, text = canonical(told), canonical(wanted)
    return bool(plain == text or (isinstance(text, str) and KEY_FORMATTER.format_field(told, "") == text))
