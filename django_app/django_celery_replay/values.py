"""What goes into a shortcut's statement, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar

from celery_replay.states import LetterState, Outcome

from . import relative
from .tables import JOBS, LETTERS, Table

R = TypeVar("R")
FRESH = {
    "status": Outcome.OPEN,
    "reserved_until": None,
    "canvas_advanced": False,
    "canvas_until": None,
    "attempts": 1,
    "strikes": 0,
    "waiters": False,
    "letter": False,
    "canvas_unknown": False,
    "result": None,
    "result_lost": False,
    "failure": None,
    "origin": None,
    "original": None,
    "closed_at": None,
}
"""What is the same for every job that OPEN sees for the first time."""
DONE = {"lease_until": None, "strikes": 0, "canvas_unknown": False, "failure": None}
"""What is the same for every job whose CLOSE files no letter."""
CLOSING = (
    "status", "canvas_advanced", "unsettled", "message", "result", "result_lost", *relative.CLOSED, "reap_at", *DONE,
)  # fmt: skip
"""Columns that CLOSE may change where it files no letter."""
LETTER_FILED = {
    "lease_until": None,
    "strikes": 0,
    "message": None,
    "canvas_unknown": False,
    "result": None,
    "result_lost": False,
    "letter": True,
}
"""What is the same for every job whose CLOSE files its first letter."""
FIRST = {
    "state": LetterState.OPEN,
    "resolved_how": "",
    "assignee": "",
    "edited": None,
    "replay": "",
    "operation_id": "",
    "replays": 0,
    "revision": 0,
}
"""What is the same for every letter that was just filed."""


class Values(Generic[R]):
    """How a record's columns get into a statement: as parameters, some as distances from the clock; or as literals.

    A parameter costs a microsecond on its way, and most columns of a job that nothing has happened to are the same.

    Args:
        table: the record's.
        names: the columns.
        moving: those whose parameter is a distance from the clock.
        fixed: those that are written into the statement, with what they are.
    """

    def __init__(self, table: Table[R], names: Sequence[str], moving: Sequence[str], fixed: Mapping[str, Any]) -> None:
        given = [name for name in names if name not in fixed]
        self._fixed = attrgetter(*fixed)
        self._wanted = tuple(fixed.values())
        self._given = table.values(given)
        self.sql = {name: "%s + clock.now" if name in moving else "%s" for name in given}
        self.sql.update((name, _literal(table.encode(name, value))) for name, value in fixed.items())

    def apply(self, record: R) -> bool:
        """Are the record's fixed columns what the statement says?"""
        return bool(self._fixed(record) == self._wanted)

    def parameters(self, record: R) -> list[Any]:
        """Return the parameters, in the order of `sql`."""
        return self._given(record)


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    return str(value) if isinstance(value, int) else f"'{value}'"


OPENED = Values(JOBS, JOBS.columns, (*relative.OPENED, "reap_at"), FRESH)
CLOSED = Values(JOBS, CLOSING, (*relative.CLOSED, "reap_at"), DONE)
FAILED = Values(JOBS, (*CLOSING, "letter"), (*relative.CLOSED, "reap_at"), LETTER_FILED)
FILED = Values(LETTERS, LETTERS.columns, relative.FILED, FIRST)
