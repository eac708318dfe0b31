"""What becomes of a changed record: the commands that write it and its places in the indexes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...clock import Micros
from ...records import HistoryEntry, Job, Letter, Operation, Placed, Portion, Row, StepRecord
from . import codec
from .jobs import Kept, value_of
from .links import Argument

Write = tuple[Argument, ...]
"""A command of Redis or of `commit.lua`, and its arguments, of which the first is a key."""
LEAST_MS = 3_600_000
"""How long at least something stays that ends after its retention, such as a letter that was decided."""


def of_job(before: Kept | None, kept: Kept, now: Micros, *, parked: bool, keep_us: Micros) -> Iterable[Write]:
    """Write a job."""
    job, submission = kept.job, raw(kept.job.submission)
    key = f"j:{job.submission}"
    if kept != before:
        yield "SET", key, value_of(kept, now)
    if job.claim and (before is None or before.job.claim != job.claim):
        yield "SET", f"c:{job.claim}", submission
    if before is None or before.job.started_at != job.started_at:
        yield "log", submission, job.started_at
    if job.reap_at is None or parked:
        yield "ZREM", "reap", submission
    else:
        yield "ZADD", "reap", job.reap_at, submission
    keys = [key, f"s:{job.identity}", *([f"c:{job.claim}"] if job.claim else [])]
    if job.status.over and not job.letter and not parked and job.keep_until is not None:
        ttl = max((job.keep_until - now) // 1000, LEAST_MS)
        yield from (("PEXPIRE", name, ttl) for name in keys)
    else:
        yield from (("PERSIST", name) for name in keys)
    if before is None and job.trace_id != job.submission:
        yield "of_trace", raw(job.trace_id), b"j:" + submission, b"", keep_us // 1000


def of_trace(job: Job, now: Micros, keep_us: Micros) -> Write:
    """Let a job's trace last as long as the job: it comes last, when all that there is of the trace is written."""
    if job.letter or (job.status.over and job.keep_until is None):
        return "hold", raw(job.trace_id)
    return "let_go", raw(job.trace_id), max((job.keep_until or 0) - now, keep_us) // 1000


def of_row(name: str, before: Row | None, row: Row | None) -> Iterable[Write]:
    """Write a row of the parking lot, or delete it."""
    submission = raw(name)
    if row == before:
        return
    if before is not None and (row is None or row.subject != before.subject):
        yield "ZREM", f"b:{before.subject}", submission
    if row is None:
        yield "DEL", f"r:{name}"
        yield "ZREM", "rows", submission
        yield "ZREM", "due", submission
        return
    yield "SET", f"r:{name}", codec.ROWS.encode(row)
    yield "ZADD", "rows", row.parked_at, submission
    yield "ZADD", "due", row.wake_at, submission
    yield "ZADD", f"b:{row.subject}", row.parked_at, submission


def of_steps(steps: Mapping[tuple[str, str], StepRecord], dropped: Collection[tuple[str, str]]) -> Iterable[Write]:
    """Write steps, and delete some."""
    for (scope, name), step in steps.items():
        yield "HSET", f"s:{scope}", name, codec.step_value(step)
    for scope, name in dropped:
        yield "HDEL", f"s:{scope}", name
    for scope in {scope for scope, _ in (*steps, *dropped)}:
        yield "bump", f"s:{scope}"


def of_letter(before: Letter | None, letter: Letter) -> Iterable[Write]:
    """Write a dead letter."""
    submission = raw(letter.submission)
    if letter == before:
        return
    if before is not None and before.state is not letter.state:
        yield "ZREM", f"ls:{before.state.value}", submission
    if before is not None and before.group_id != letter.group_id:
        yield "ZREM", f"lg:{before.group_id}", submission
    yield "SET", f"l:{letter.submission}", codec.letter_value(letter)
    for index in ("letters", f"ls:{letter.state.value}", f"lg:{letter.group_id}"):
        yield "ZADD", index, letter.last_failed, submission


def of_operation(operation: Operation | Portion) -> Iterable[Write]:
    """Write an operation, or some of its letters."""
    if isinstance(operation, Portion):
        yield "HSET", f"portions:{operation.operation_id}", str(operation.number), operation.body
        return
    name = raw(operation.operation_id)
    yield "SET", f"op:{operation.operation_id}", codec.OPERATIONS.encode(operation)
    yield "ZADD", "ops", operation.began_at, name
    if operation.active:
        yield "ZADD", "ops:active", operation.began_at, name
    else:
        yield "ZREM", "ops:active", name
    if operation.keep_until is not None:
        yield "ZADD", "ops:over", operation.keep_until, name


def of_entry(entry: HistoryEntry, keep_us: Micros) -> Iterable[Write]:
    """Write an entry of the history."""
    home = home_of(entry)
    name = raw(f"{home}\t{entry.entry_id}")
    yield "HSET", f"h:{home}", entry.entry_id, codec.entry_value(entry)
    yield "ZADD", "history", entry.at, name
    if entry.group_id:
        yield "ZADD", f"hg:{entry.group_id}", entry.at, name
    if entry.operation_id:
        key = f"ho:{entry.operation_id}"
        yield "ZADD", key, entry.at, name
        yield "live", key, 10 * keep_us // 1000


def of_placed(placed: Placed) -> Iterable[Write]:
    """Write what is known of an object elsewhere."""
    yield "SET", f"o:{placed.name}", raw(f"{placed.look_at} {placed.reference}")
    yield "ZADD", "placed", placed.look_at, raw(placed.name)


def home_of(entry: HistoryEntry) -> str:
    """Name what an entry of the history is kept with."""
    if entry.submission:
        return f"s:{entry.submission}"
    return f"g:{entry.group_id}" if entry.group_id else f"o:{entry.operation_id}"


def raw(text: str) -> bytes:
    """Return a text as it is in a key or among the members of one."""
    return text.encode("utf-8", "surrogatepass")
