"""Changes to many records at once, in batches that hold few locks."""

from __future__ import annotations

from typing import Any

from celery_replay.clock import Micros
from celery_replay.states import Outcome

from . import blobs, lines
from .connections import Link
from .models import LetterTrend
from .statements import Statements
from .tables import ATTEMPTS, CHUNKS, GROUPS, HISTORY, JOBS, LETTERS, OPERATIONS, PORTIONS, ROWS, STEPS, UNCOUNTED

_ENDED = tuple(sorted(outcome.value for outcome in Outcome if outcome.ended))
_OVER = tuple(sorted(outcome.value for outcome in Outcome if outcome.over))


def advance(link: Link, statements: Statements, submissions: list[str]) -> list[str]:
    """Note that the canvases of jobs that ended were sent on; return which ones these were.

    What `facts.advance_canvas` does to one job, where nothing about the job has to be known but that it ended.
    """
    which = f"submission IN ({statements.marks(len(submissions))})"
    ended = f"status IN ({statements.marks(len(_ENDED))})"
    lock = statements.dialect.lock
    found = link.rows(
        f"SELECT submission FROM {JOBS.name} WHERE {which} AND {ended} ORDER BY submission{lock}",
        [*submissions, *_ENDED],
    )
    done = [row[0] for row in found]
    if done:
        which = f"submission IN ({statements.marks(len(done))})"
        link.change(f"DELETE FROM {ROWS.name} WHERE {which}", done)
        link.change(
            f"UPDATE {JOBS.name} SET canvas_advanced = TRUE, canvas_unknown = FALSE,"
            f" canvas_until = NULL, reap_at = NULL WHERE {which}",
            done,
        )
    return done


def forgettable(statements: Statements, now: Micros) -> tuple[str, list[Any]]:
    """Return the jobs past their retention, as what follows FROM, with its parameters."""
    parked = f"SELECT 1 FROM {ROWS.name} AS parked WHERE parked.submission = job.submission"
    sql = (
        f"{JOBS.name} AS job WHERE letter = FALSE AND keep_until <= {statements.dialect.mark}"
        f" AND status IN ({statements.marks(len(_OVER))}) AND NOT EXISTS ({parked})"
    )
    return sql, [now, *_OVER]


def prune(link: Link, statements: Statements, now: Micros, limit: int) -> int:
    """Delete up to `limit` jobs past their retention and what hangs on them; return how many jobs went.

    Jobs that somebody is busy with are left for the next batch.
    """
    lines.prune(link, statements, now, limit)
    _prune_operations(link, statements, now, limit)
    old, values = forgettable(statements, now)
    tail = f" ORDER BY keep_until LIMIT {int(limit)}{statements.dialect.skip_locked}"
    found = link.rows(f"SELECT submission, claim, trace_id FROM {old}{tail}", values)
    if not found:
        return 0
    submissions = [submission for submission, _, _ in found]
    groups = _groups_of(link, statements, submissions)
    _delete(link, statements, STEPS.name, "scope", [claim or submission for submission, claim, _ in found])
    for table in (ATTEMPTS, LETTERS, HISTORY, JOBS):
        _delete(link, statements, table.name, "submission", submissions)
    traces = _finished(link, statements, {trace for _, _, trace in found})
    _delete(link, statements, CHUNKS.name, "trace_id", traces)
    blobs.forget(link, statements, traces)
    if groups:
        _forget_groups(link, statements, groups)
    return len(found)


def _prune_operations(link: Link, statements: Statements, now: Micros, limit: int) -> None:
    mark = statements.dialect.mark
    where = f"keep_until <= {mark} ORDER BY keep_until LIMIT {int(limit)}{statements.dialect.skip_locked}"
    found = [row[0] for row in link.rows(f"SELECT operation_id FROM {OPERATIONS.name} WHERE {where}", [now])]
    for operation_id in found:
        said = f"DELETE FROM {HISTORY.name} WHERE operation_id = {mark} AND submission = {mark}"
        link.change(said, [operation_id, HISTORY.encode("submission", "")])
    for table in (PORTIONS, OPERATIONS):
        _delete(link, statements, table.name, "operation_id", found)


def _groups_of(link: Link, statements: Statements, submissions: list[str]) -> set[str]:
    """Return the groups of these jobs' letters, and the few that are silent for longest.

    Those, because a letter that failed otherwise when it was replayed has left its old group behind.
    """
    which = f"submission IN ({statements.marks(len(submissions))})"
    found = link.rows(f"SELECT DISTINCT group_id FROM {LETTERS.name} WHERE {which}", submissions)
    silent = link.rows(f"SELECT group_id FROM {GROUPS.name} ORDER BY last_seen LIMIT 20")
    return {row[0] for row in (*found, *silent)}


def _forget_groups(link: Link, statements: Statements, groups: set[str]) -> None:
    """Delete those of which no letter is left, unless one comes meanwhile."""
    mark = statements.dialect.mark
    kept = f"SELECT 1 FROM {LETTERS.name} AS letter WHERE letter.group_id = grouped.group_id"
    empty = link.rows(
        f"SELECT group_id, filed FROM {GROUPS.name} AS grouped"
        f" WHERE group_id IN ({statements.marks(len(groups))}) AND NOT EXISTS ({kept})",
        sorted(groups),
    )
    # Whoever files a letter counts it in the same row.
    unchanged = f"DELETE FROM {GROUPS.name} WHERE group_id = {mark} AND filed = {mark}"
    gone = [group_id for group_id, filed in sorted(empty) if link.change(unchanged, [group_id, filed])]
    for table in (LetterTrend._meta.db_table, UNCOUNTED.name, HISTORY.name):
        _delete(link, statements, table, "group_id", gone)


def _finished(link: Link, statements: Statements, traces: set[str]) -> list[str]:
    """Return the traces of which no younger job is left."""
    which = f"trace_id IN ({statements.marks(len(traces))})"
    kept = link.rows(f"SELECT DISTINCT trace_id FROM {JOBS.name} WHERE {which}", list(traces))
    return list(traces - {row[0] for row in kept})


def _delete(link: Link, statements: Statements, table: str, column: str, values: list[Any]) -> None:
    for start in range(0, len(values), 500):
        batch = values[start : start + 500]
        link.change(f"DELETE FROM {table} WHERE {column} IN ({statements.marks(len(batch))})", batch)
