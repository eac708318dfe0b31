"""Errors by which a body says itself what kind of failure it is. Any class may: `replay_category` is all it takes."""

from __future__ import annotations

from typing import ClassVar

from ..states import Category


class _Told(Exception):
    """An error that says what kind of failure it is."""

    replay_category: ClassVar[Category]


class Transient(_Told):
    """It may go away by itself."""

    replay_category = Category.TRANSIENT


class Throttled(_Told):
    """The other side wants it slower.

    Args:
        retry_after_s: seconds that it asks to wait, if it says so.
    """

    replay_category = Category.THROTTLED

    def __init__(self, message: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s)
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return str(self.args[0])


class Invalid(_Told):
    """The payload is wrong: it would fail again, and somebody has to mend it."""

    replay_category = Category.VALIDATION


class Permanent(_Told):
    """It would fail again."""

    replay_category = Category.PERMANENT
