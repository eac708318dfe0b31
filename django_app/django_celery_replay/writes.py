"""Where a job may not write to Django's databases: in a step with a side effect, and where its part is done.

A step's record stays when the transaction around it is rolled back; the rows that it wrote would not. A retry would
find the step done, return its output, and never write them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from celery_replay.exceptions import HalfCommitted, StepWrites

_NO_CODE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Texts, quoted names and comments."""
_FIRST = re.compile(r"[\s(]*(\w+)")
_READS = frozenset({"SELECT", "WITH", "EXPLAIN", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC", "PRAGMA", "FETCH"})
_TRANSACTIONS = frozenset({"SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "START", "COMMIT", "SET", "DECLARE", "CLOSE"})
_STATES = "django_celery_results_"
"""Celery's own tables: what a task tells of its progress is no business data."""
_WRITES_WITHIN = re.compile(r"\b(INSERT|DELETE|MERGE|INTO|(?<!FOR )(?<!FOR NO KEY )UPDATE)\b", re.IGNORECASE)


def without_writes(step: str) -> AbstractContextManager[None]:
    """Refuse what this thread writes through Django's cursors, to whatever database.

    Args:
        step: its name, for the message.

    Raises:
        StepWrites: a statement would write.
    """

    def error(alias: str, verb: str) -> Exception:
        return StepWrites(
            f"step {step} would write to database {alias!r} ({verb}): its record stays if the transaction is rolled "
            "back, its rows don't. Split it: let the step return what it got from outside, and write that in the body, "
            "behind it"
        )

    return _refusing(connections, error)


def without_writes_to(aliases: Collection[str]) -> AbstractContextManager[None]:
    """Refuse what this thread writes through Django's cursors to databases in which its job was committed.

    Raises:
        HalfCommitted: a statement would write.
    """

    def error(alias: str, verb: str) -> Exception:
        return HalfCommitted(
            f"an earlier attempt was committed in database {alias!r} and not in the others, and the body would write "
            f"there again ({verb}); let it skip that part where {alias!r} is in `self.attempt.committed`, or do the "
            "rest by hand"
        )

    return _refusing(aliases, error)


@contextmanager
def _refusing(aliases: Iterable[str], error: Callable[[str, str], Exception]) -> Iterator[None]:
    def execute(run: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        connection = context["connection"]
        text = sql if isinstance(sql, str) else sql.as_string(connection.connection)
        verb = writing(text)
        if verb and _STATES not in text:
            raise error(connection.alias, verb)
        return run(sql, params, many, context)

    with ExitStack() as stack:
        for alias in aliases:
            # One whose driver is missing can't be written to either.
            with suppress(ImproperlyConfigured):
                stack.enter_context(connections[alias].execute_wrapper(execute))
        yield


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
