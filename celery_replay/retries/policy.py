"""What a task says about its failures: which are tried again, how often, after what time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..states import Category
from .builtin import BUILT_IN
from .delays import Jitter, delay_s
from .rules import Judgement, Rule, classify


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Try again after a while, that grows with each attempt.

    Args:
        max_attempts: all in all, the first one included; by default what the task's own `max_retries` allows.
        first_s: seconds that the first delay is at most.
        factor: by which it grows with each attempt.
        cap_s: seconds that no delay is longer than, unless the other side asks for more with `Retry-After`.
        max_age_s: seconds since the job was first sent after which it is given up; for ever by default.
        jitter: `full`, `decorrelated` or `none`.

    Raises:
        ValueError: a value makes no sense; the message says which.
    """

    max_attempts: int | None = None
    first_s: float = 1.0
    factor: float = 2.0
    cap_s: float = 600.0
    max_age_s: float | None = None
    jitter: Jitter | str = Jitter.FULL

    def __post_init__(self) -> None:
        object.__setattr__(self, "jitter", Jitter(self.jitter))
        most: Any = self.max_attempts
        if most is not None and (type(most) is not int or most < 1):
            raise ValueError(f"max_attempts={self.max_attempts!r}: must be a whole number, 1 or more")
        for name in ("first_s", "factor", "cap_s", "max_age_s"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise ValueError(f"{name}={value!r}: must be a number above 0")
        if self.first_s > self.cap_s:
            raise ValueError(f"first_s={self.first_s!r} is above cap_s={self.cap_s!r}")

    def __str__(self) -> str:
        often = "as often as its max_retries allows" if self.max_attempts is None else f"{self.max_attempts} attempts"
        age = "" if self.max_age_s is None else f", until it is {self.max_age_s:g} s old"
        delays = f"{self.first_s:g} s to {self.cap_s:g} s apart, growing by {self.factor:g}"
        return f"retry: {often}, {delays}, jitter {self.jitter}{age}"

    def wait_s(self, judged: Judgement, made: int, seed: str) -> float:
        """Return how long to wait after so many attempts: the backoff, or longer where the other side asks for that."""
        return max(self.delay_s(made, seed), judged.retry_after_s or 0.0)

    def delay_s(self, attempt: int, seed: str) -> float:
        """Return the delay after an attempt, the first being 1."""
        return delay_s(Jitter(self.jitter), self.first_s, self.factor, self.cap_s, attempt, seed)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Don't try again: somebody has to decide."""

    def __str__(self) -> str:
        return "dead letter"


@dataclass(frozen=True, kw_only=True, slots=True)
class FailurePolicy:
    """What becomes of a failure, by its category; and rules of the task's own, which come before the built-in ones."""

    transient: Retry | DeadLetter = Retry()
    throttled: Retry | DeadLetter = Retry()
    dependency: Retry | DeadLetter = Retry()
    concurrency: Retry | DeadLetter = Retry(first_s=0.2, cap_s=30.0)
    validation: Retry | DeadLetter = DeadLetter()
    permanent: Retry | DeadLetter = DeadLetter()
    poison: Retry | DeadLetter = DeadLetter()
    unknown_outcome: Retry | DeadLetter = DeadLetter()
    """With a retry here, the task's `on_incomplete` says what the next attempt does."""
    unclassified: Retry | DeadLetter = DeadLetter()
    rules: Sequence[Rule] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if field.name == "rules":
                if not all(isinstance(one, Rule) for one in value):
                    raise ValueError("rules: must be made with rule()")
            elif not isinstance(value, (Retry, DeadLetter)):
                raise ValueError(f"{field.name}={value!r}: must be Retry(...) or DeadLetter()")

    def judge(self, error: BaseException, made: int = 1) -> Judgement:
        """Say what kind of failure an error is, after so many attempts."""
        return classify(error, (*self.rules, *BUILT_IN), made)

    def of(self, category: Category) -> Retry | DeadLetter:
        """Return what becomes of failures of a category."""
        found: Retry | DeadLetter = getattr(self, str(category))
        return found


ONLY_TOLD = FailurePolicy()
"""Of tasks that declare none: their failures are classified, and nothing is done by that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Is a failed job tried again?"""

    delay_s: float | None
    """Seconds until then; None where it is not."""
    said: str
    """Why, or why not."""


def most_attempts(max_retries: int | None) -> int | None:
    """Return how many attempts a task's `max_retries` allows, the first one included; None for no end."""
    return None if max_retries is None else int(max_retries) + 1


def decide(
    policy: FailurePolicy, judged: Judgement, *, made: int, most: int | None, age_s: float, seed: str
) -> Decision:
    """Decide whether a failed job is tried again.

    Args:
        made: its attempts so far, this one included.
        most: attempts that the task's `max_retries` allows; None for no end.
        age_s: seconds since it was first sent.
        seed: the submission, by which delays are spread.
    """
    then = policy.of(judged.category)
    if isinstance(then, DeadLetter):
        return Decision(delay_s=None, said=f"failures that are {judged.category} are not retried")
    limit = then.max_attempts if then.max_attempts is not None else most
    if limit is not None and made >= limit:
        return Decision(delay_s=None, said=f"attempt {made} of {limit}")
    delay = then.wait_s(judged, made, seed)
    if then.max_age_s is not None and age_s + delay > then.max_age_s:
        return Decision(delay_s=None, said=f"{age_s:.0f} s old, and {then.max_age_s:g} s is the most")
    return Decision(delay_s=delay, said=f"attempt {made} of {limit if limit is not None else 'any number'}")
