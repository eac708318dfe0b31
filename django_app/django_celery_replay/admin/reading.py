"""What the pages read: records from the store's database, never more of them than a page can show."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from django.db import models, router
from django.db.models import Q, QuerySet

from celery_replay import records
from celery_replay.records import LEASE, AttemptRecord, Chunk, StepRecord

from ..conf import store_alias
from ..models import Attempt, HistoryEntry, ProcessedJob, ResourceLease, TraceChunk
from ..models import StepRecord as StepRow
from ..tables import ATTEMPTS, CHUNKS, HISTORY, STEPS
from ..text import token

AT_ONCE = 500
"""Keys that one query looks for: SQLite may take no more than 999."""
FEW = 500
"""Values that are looked up first, to search by them."""
LINES = 100
"""How many attempts or steps of one job are shown."""
CHUNKS_READ = 200
EVENTS_SHOWN = 1_000

M = TypeVar("M", bound=models.Model)
_LAST = "\U0010ffff"
_NO_CHARACTER = (0xD800, 0x110000)


def stored(model: type[M]) -> QuerySet[M]:
    """Return a model's rows, in the database where the store is."""
    rows: QuerySet[M] = model._default_manager.using(store_alias() or router.db_for_read(model))
    return rows


def one(model: type[M], pk: str, *columns: str) -> M | None:
    """Return a row by its key as it is stored, with all columns or with these."""
    if "\x00" in pk:
        # PostgreSQL refuses to look for it, and nothing that is stored has it.
        return None
    rows: QuerySet[M] = stored(model).filter(pk=pk)
    return (rows.only(*columns) if columns else rows).first()


def many(model: type[M], keys: Collection[str], *columns: str) -> dict[str, M]:
    """Return rows by their keys as they are stored, with all columns or with these."""
    wanted = list(keys)
    found: dict[str, M] = {}
    for start in range(0, len(wanted), AT_ONCE):
        rows = stored(model).filter(pk__in=wanted[start : start + AT_ONCE])
        found |= {row.pk: row for row in (rows.only(*columns) if columns else rows)}
    return found


def attempts(submission: str) -> list[AttemptRecord]:
    """Return a job's latest attempts, oldest first."""
    rows = stored(Attempt).filter(submission=token(submission)).order_by("-started_at")[:LINES]
    return [ATTEMPTS.record_of(row) for row in rows][::-1]


def steps(scope: str) -> list[StepRecord]:
    """Return the steps of a key or job, in the order of their claims."""
    rows = stored(StepRow).filter(scope=token(scope)).order_by("claimed_at", "step_id")[:LINES]
    return [STEPS.record_of(row) for row in rows]


def history(limit: int = LINES, **about: str) -> list[records.HistoryEntry]:
    """Return what was done to a submission, a group or in an operation: the newest of it, oldest first."""
    wanted = {name: token(value) for name, value in about.items()}
    rows = stored(HistoryEntry).filter(**wanted).order_by("-at", "-entry_id")[:limit]
    return [HISTORY.record_of(row) for row in rows][::-1]


class Traces:
    """Reads the events of a trace: a `celery_replay.trace.ChunkReader` that stops at what a page shows."""

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Return the first events of a trace, attempt by attempt."""
        rows = stored(TraceChunk).filter(trace_id=token(trace_id)).order_by("nonce", "first")[:CHUNKS_READ]
        taken, events = [], 0
        for row in rows:
            if events >= EVENTS_SHOWN:
                break
            taken.append(CHUNKS.record_of(row))
            events += row.count
        return taken


def beginning(text: str, *names: str) -> Q:
    """Return the condition that one of these columns begins with a text, by their indexes.

    LIKE would not use them: not on SQLite, and on PostgreSQL not with every collation.
    """
    start = token(text)
    found = Q()
    for name in names:
        found |= Q(**{f"{name}__gte": start, f"{name}__lt": _beyond(start)})
    return found


def _beyond(start: str) -> str:
    """Return a text after all that begin with this one, if it can be of their characters: MySQL may not take others."""
    following = ord(start[-1]) + 1
    return start + _LAST if following in _NO_CHARACTER else start[:-1] + chr(following)


def jobs_beginning(text: str) -> QuerySet[ProcessedJob]:
    """Find jobs by submission, task id, trace id or key, or by what one of them begins with."""
    found: QuerySet[ProcessedJob] = stored(ProcessedJob).filter(
        beginning(text, "submission", "task_id", "trace_id", "key")
    )
    return found


def few_or_all(rows: QuerySet[Any], name: str) -> Any:
    """Return the values of a column for a condition: themselves where they are few, else what finds them.

    A database that has the few at hand finds the rest by its index. One that has to find them for each row that it
    passes, newest first, comes to the end of a large table before it has found one.
    """
    values = rows.values_list(name, flat=True)
    some = list(values[: FEW + 1])
    return some if len(some) <= FEW else values


def holders(subjects: Sequence[str]) -> dict[str, Any]:
    """Return the jobs that hold these keys or resources, or have these submissions, by what they were asked for."""
    names = ("submission", "claim", "operation", "key", "status")
    leased = _lessees(subjects)
    wanted = Q(claim__in=subjects) | Q(submission__in=[*subjects, *leased.values()])
    rows = list(stored(ProcessedJob).filter(wanted).only(*names))
    found = {name: row for row in rows for name in (row.submission, row.claim) if name in subjects}
    jobs = {row.submission: row for row in rows}
    return found | {subject: jobs[name] for subject, name in leased.items() if name in jobs}


def _lessees(subjects: Sequence[str]) -> dict[str, str]:
    """Return the submissions that have those of these that are resources."""
    names = [subject.removeprefix(LEASE) for subject in subjects if subject.startswith(LEASE)]
    if not names:
        return {}
    held = stored(ResourceLease).filter(resource__in=names).exclude(nonce="")
    return {f"{LEASE}{resource}": submission for resource, submission in held.values_list("resource", "submission")}
