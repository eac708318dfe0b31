"""Steps with a side effect don't write to Django's databases.

A step's record stays when the transaction around it is rolled back; the rows that it wrote would not. A retry would
find the step done, return its output, and never write them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connections

from celery_replay.exceptions import StepWrites

_NO_CODE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Texts, quoted names and comments."""
_FIRST = re.compile(r"[\s(]*(\w+)")
_READS = frozenset({"SELECT", "WITH", "EXPLAIN", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "PRAGMA", "FETCH"})
_TRANSACTIONS = frozenset({"SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "START", "COMMIT", "SET", "DECLARE", "CLOSE"})
_WRITES_WITHIN = re.compile(r"\b(INSERT|DELETE|MERGE|INTO|(?<!FOR )(?<!FOR NO KEY )UPDATE)\b", re.IGNORECASE)


@contextmanager
def without_writes(step: str) -> Iterator[None]:
    """Refuse what this thread writes through Django's cursors.

    Args:
        step: its name, for the message.

    Raises:
        StepWrites: a statement would write.
    """
    with ExitStack() as stack:
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(_refuser(step)))
        yield


def _refuser(step: str) -> Callable[..., Any]:
    def execute(run: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        connection = context["connection"]
        verb = writing(sql if isinstance(sql, str) else sql.as_string(connection.connection))
        if verb:
            raise StepWrites(
                f"step {step} would write to database {connection.alias!r} ({verb}): its record stays if the "
                "transaction is rolled back, its rows don't. Split it: let the step return what it got from outside, "
                "and write that in the body, behind it"
            )
        return run(sql, params, many, context)

    return execute


def writing(sql: str) -> str:
    """Return the word by which SQL writes; empty where it only reads."""
    for statement in _NO_CODE.sub(" ", sql).split(";"):
        first = _FIRST.match(statement)
        verb = first[1].upper() if first else ""
        if verb in _READS:
            within = _WRITES_WITHIN.search(statement)
            verb = within[1].upper() if within else ""
        if verb and verb not in _TRANSACTIONS:
            return verb
    return ""
