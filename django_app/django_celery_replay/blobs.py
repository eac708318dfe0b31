"""Large values: kept once, however many traces have them, until the last of these goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any

from celery_replay.records import Chunk

from .connections import Link
from .models import Blob, BlobUse
from .statements import Statements
from .text import token

BLOBS = Blob._meta.db_table
USES = BlobUse._meta.db_table
BLOB_COLUMNS = ("reference", "body")
USE_COLUMNS = ("pair", "reference", "trace_id")
_BATCH = 500


def of(chunks: Iterable[Chunk]) -> list[tuple[list[Any], list[Any]]]:
    """Return the rows of large values, each with the row that says which trace has it, in an order to lock in."""
    found = {(reference, chunk.trace_id): body for chunk in chunks for reference, body in chunk.blobs}
    return [
        ([token(reference), body], [token(f"{reference}:{trace_id}"), token(reference), token(trace_id)])
        for (reference, trace_id), body in sorted(found.items())
    ]


def put(link: Link, statements: Statements, chunks: Iterable[Chunk]) -> None:
    """Insert events' large values."""
    rows = of(chunks)
    for number, (table, columns) in enumerate(((BLOBS, BLOB_COLUMNS), (USES, USE_COLUMNS))):
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({statements.marks(len(columns))})"
        sql += again(statements, columns[0])
        link.many(sql, [row[number] for row in rows])


def again(statements: Statements, key: str) -> str:
    """Return what makes an INSERT lock the row that is there: whoever gives it up has to see that it is used.

    It is the same, so nothing of it is written again; nor where it is elsewhere by now.
    """
    return str(statements.dialect.merge(key, {key: statements.dialect.given(key)}))


def unplaced(statements: Statements, limit: int) -> str:
    """Return a query for large values that nobody has looked at, whether they go elsewhere."""
    return f"SELECT reference, body FROM {BLOBS} WHERE placed IS NULL LIMIT {int(limit)}"


def stub(link: Link, statements: Statements, reference: str, body: bytes) -> None:
    """Replace a large value by a stub, if nobody has looked at it."""
    mark = statements.dialect.mark
    sql = f"UPDATE {BLOBS} SET body = {mark}, placed = TRUE WHERE reference = {mark} AND placed IS NULL"
    link.change(sql, [body, token(reference)])


def stay(link: Link, statements: Statements, reference: str) -> None:
    """Note that somebody has looked at a large value."""
    link.change(
        f"UPDATE {BLOBS} SET placed = FALSE WHERE reference = {statements.dialect.mark} AND placed IS NULL",
        [token(reference)],
    )


def drop(link: Link, statements: Statements, trace_id: str, references: Collection[str]) -> None:
    """Delete large values of one trace, but for those that others have, too."""
    mark = statements.dialect.mark
    for batch in _batches(sorted(map(token, references))):
        which = f"reference IN ({statements.marks(len(batch))})"
        link.change(f"DELETE FROM {USES} WHERE trace_id = {mark} AND {which}", [token(trace_id), *batch])
        _drop_unused(link, statements, which, batch)


def forget(link: Link, statements: Statements, traces: Sequence[str]) -> None:
    """Delete the large values of traces that go, but for those that others have, too."""
    for batch in _batches(traces):
        gone = f"trace_id IN ({statements.marks(len(batch))})"
        found = link.rows(f"SELECT DISTINCT reference FROM {USES} WHERE {gone} ORDER BY reference", batch)
        if found:
            link.change(f"DELETE FROM {USES} WHERE {gone}", batch)
        for references in _batches([row[0] for row in found]):
            _drop_unused(link, statements, f"reference IN ({statements.marks(len(references))})", references)


def _drop_unused(link: Link, statements: Statements, which: str, references: Sequence[str]) -> None:
    # Locked by a statement of its own: the next one sees who came while this one waited. Who comes later waits in turn.
    link.rows(f"SELECT reference FROM {BLOBS} WHERE {which} ORDER BY reference{statements.dialect.lock}", references)
    used = f"SELECT 1 FROM {USES} WHERE {USES}.reference = {BLOBS}.reference"
    link.change(f"DELETE FROM {BLOBS} WHERE {which} AND NOT EXISTS ({used})", [*references])


def _batches(values: Sequence[str]) -> Iterable[list[str]]:
    left = iter(values)
    while batch := list(islice(left, _BATCH)):
        yield batch
