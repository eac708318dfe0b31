"""Rules: each looks at one error, and says what kind of failure it is, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..states import Category

_LINKS = 20
"""Causes of an error that are looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What kind of failure an error is, and by what that was told."""

    category: Category
    rule: str
    """The name of the rule that matched."""
    because: str
    """The fact that it matched by, such as `has HTTP status 503`. Of the error's type and codes, never of its text."""
    retry_after_s: float | None = None
    """How long the other side asks to wait."""


IN_DOUBT = Judgement(category=Category.UNKNOWN_OUTCOME, rule="side effects", because="leaves a side effect in doubt")
"""Of whatever error: its task has no way to find out whether its effect has happened."""

Judge = Callable[[BaseException, int], Judgement | None]
"""Looks at an error after so many attempts."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A judge with a name."""

    name: str
    judge: Judge
    kinds: tuple[str, ...] = ()
    """The classes that it is about, as `module.Class`; for showing."""


def rule(
    category: Category | str,
    *kinds: type[BaseException] | str,
    when: Callable[[Any], bool] | None = None,
    attempts: int | None = None,
    name: str = "",
    **attributes: Any,
) -> Rule:
    """Make a rule: errors of these classes are of this category.

    Args:
        kinds: classes, or their names as `module.Class`, which need not be importable here.
        when: looks at the error, too; where it fails, the rule does not match.
        attempts: it matches only as long as the job had no more attempts than these.
        name: how traces and commands call it; by default by its classes.
        attributes: what the error's attributes have to be: a value, or a collection of values.

    Raises:
        ValueError: there is no such category, or no class is named.
    """
    word = Category(category)
    if not kinds:
        raise ValueError("a rule needs a class, or the name of one")
    names = tuple(kind if isinstance(kind, str) else path_of(kind) for kind in kinds)

    def judge(error: BaseException, made: int) -> Judgement | None:
        matched = next((path for path in paths(error) if path in names), None)
        if matched is None or (attempts is not None and made > attempts):
            return None
        if not _has(error, attributes) or not _holds(when, error):
            return None
        told = "".join(f", {key}={getattr(error, key)!r}" for key in attributes)
        return Judgement(category=word, rule=called, because=f"is a {matched}{told}", retry_after_s=asked(error))

    called = name or " or ".join(names)
    return Rule(called, judge, names)


def path_of(kind: type[BaseException]) -> str:
    """Name a class as rules and letters do: built-in ones by their name alone."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def paths(error: BaseException) -> Iterator[str]:
    """Name the classes that an error is of, its own first."""
    return map(path_of, type(error).__mro__)


def asked(error: BaseException) -> float | None:
    """Say how long an error asks to wait, where it says so itself."""
    told = getattr(error, "retry_after_s", None)
    return float(told) if isinstance(told, (int, float)) and not isinstance(told, bool) and told >= 0 else None


def classify(error: BaseException, rules: Sequence[Rule], made: int = 1) -> Judgement:
    """Say what kind of failure an error is: the first rule that matches it, else one that matches what caused it.

    Args:
        made: attempts of the job so far, this one included.
    """
    for link in _causes(error):
        for one in rules:
            found = _judged(one, link, made)
            if found is not None:
                return found if link is error else replace(found, because=f"was caused by one that {found.because}")
    return Judgement(category=Category.UNCLASSIFIED, rule="", because="no rule matches")


def _judged(one: Rule, error: BaseException, made: int) -> Judgement | None:
    try:
        return one.judge(error, made)
    except Exception:  # an error's attributes are anybody's code
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Follow `raise ... from`: what an error was raised in the handling of says less about it."""
    link: BaseException | None = error
    for _ in range(_LINKS):
        if link is None:
            return
        yield link
        link = link.__cause__


def _has(error: BaseException, attributes: Mapping[str, Any]) -> bool:
    return all(_is(getattr(error, name, None), wanted) for name, wanted in attributes.items())


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Collection) and not isinstance(wanted, (str, bytes)):
        return value in wanted
    return bool(value == wanted)


def _holds(when: Callable[[Any], bool] | None, error: BaseException) -> bool:
    return when is None or bool(when(error))
