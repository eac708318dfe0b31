"""A job's value: a head that scripts can read, then everything else, with its ended attempts and their last events.

A finished job is one value. The head is a line of text, its fields between tabs:

    status nonce claim flags marks at keep canvas original task_id trace_id operation key

The first four are the *guard*: a script that is to go on where nobody came between compares them. Flags are those of
others' making: w(aiters), l(etter), and e where earlier attempts are kept that the attempt's own process does not know.
Marks may change while it runs: u(nsettled), a (canvas advanced), k (canvas unknown). `at` is when it was written; some
times in the rest count from it, since a script's caller does not know the store's clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...clock import Micros
from ...facts import attempt_of
from ...records import AttemptRecord, Chunk, Job, evolve
from ...serialization import unzipped
from ...states import Outcome
from .codec import Codec, escaped, pack, unpack, word

_NAMES = {
    "correlation_id": "c", "causation_id": "b", "fingerprint": "h", "generation": "g", "fence": "e",
    "lease_until": "l", "reserved_until": "v", "attempts": "a", "strikes": "x", "ack": "k", "redelivery_us": "d",
    "message": "m", "result": "t", "result_lost": "z", "failure": "f", "origin": "j", "worker": "w", "pid": "i",
    "published_at": "p", "started_at": "s", "closed_at": "q",
}  # fmt: skip
_HEAD = (
    "submission", "status", "nonce", "claim", "waiters", "letter", "unsettled", "canvas_advanced", "canvas_unknown",
    "keep_until", "canvas_until", "original", "task_id", "trace_id", "operation", "key",
)  # fmt: skip
_JOBS = Codec(Job, _NAMES, leave=_HEAD)
_ATTEMPTS = Codec(AttemptRecord, leave=("submission",))
OPENED = ("fence", "lease_until", "started_at")
"""Times that count from `at` in what a first OPEN writes."""
CLOSED = ("closed_at", "reserved_until")
"""Times that count from `at` in what CLOSE writes for an attempt that was alone."""
_FROM_AT = {"o": OPENED, "c": CLOSED}
FIELDS = {"status": 1, "task_id": 10, "trace_id": 11, "operation": 12, "key": 13}
"""Where the head has what jobs are looked for by."""
_ESCAPE = re.compile(r"\\([\\tn])")
_PLAIN = {"\\": "\\", "t": "\t", "n": "\n"}
MANY = 8
"""Chunks that stay with their job; more go to their trace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What a job's value holds."""

    job: Job
    attempts: tuple[AttemptRecord, ...] = ()
    chunks: tuple[Chunk, ...] = field(default=())
    """Without their large values."""


def _restored(text: str) -> str:
    return _ESCAPE.sub(lambda found: _PLAIN[found[1]], text) if "\\" in text else text


def guard(job: Job, *, earlier: bool = False, closed: bool = False) -> bytes:
    """Return the beginning of a job's head, up to the flags of others' making.

    Args:
        earlier: its value holds attempts or events that only a unit may write anew.
        closed: leave the nonce to the body, where it takes less room; no script asks for it any more.
    """
    nonce, claim, flags = "" if closed else job.nonce, job.claim or "", "e" if earlier else ""
    if job.waiters or job.letter:
        flags = ("w" if job.waiters else "") + ("l" if job.letter else "") + flags
    return _bytes(_line((str(job.status), nonce, claim, flags, "")))


def marks(job: Job) -> bytes:
    """Return the marks of a job."""
    u, a, k = job.unsettled, job.canvas_advanced, job.canvas_unknown
    return (b"u" if u else b"") + (b"a" if a else b"") + (b"k" if k else b"")


def tail(job: Job) -> bytes:
    """Return the end of a job's head."""
    trace_id = "" if job.trace_id == job.submission else job.trace_id
    return _bytes(_line((job.original or "", job.task_id, trace_id, job.operation, job.key)))


def _line(fields: Sequence[str]) -> str:
    """Put fields into a line, with tabs between them."""
    text = "\t".join(fields)
    if "\\" in text or "\n" in text or text.count("\t") != len(fields) - 1:
        text = "\t".join(map(escaped, fields))
    return text


def body(job: Job, ending: bytes, chunks: Sequence[Chunk] = (), *, since: str = "") -> bytes:
    """Return what follows the head of a job whose earlier attempts, if there were any, nobody kept.

    Args:
        ending: the head's: its `tail`.
        chunks: the attempt's own events.
        since: `o` or `c`, where the times of `OPENED` or `CLOSED` count from when the value is written.
    """
    data, parts = _lean(job)
    if since:
        data["~"] = since
    if since == "c":
        data["n"] = job.nonce
        del data["q"]  # it is `at`
    # A job that runs has its value for as long as that lasts: room is for those that have ended.
    return _packed(job, data, parts, chunks, ending, compressed=since != "o")


def value_of(kept: Kept, now: Micros) -> bytes:
    """Return a job's value."""
    job = kept.job
    keep, canvas = _number(job.keep_until), _number(job.canvas_until)
    data, parts = _lean(job)
    if kept.attempts:
        data["A"] = [_ATTEMPTS.plain(attempt)[0] for attempt in kept.attempts]
    ending = tail(job)
    head = b"%s%s\t%d\t%s\t%s\t%s\n" % (
        guard(job, earlier=bool(kept.attempts or kept.chunks)), marks(job), now, keep, canvas, ending
    )  # fmt: skip
    return head + _packed(job, data, parts, kept.chunks, ending)


def kept_of(submission: str, value: bytes) -> Kept:
    """Read a job's value.

    Raises:
        SchemaMismatch: it has something that this version does not know.
    """
    head, _, rest = value.partition(b"\n")
    status, nonce, claim, flags, marked, at, keep, canvas, original, task_id, trace, operation, key = (
        _restored(text) for text in head.decode("utf-8", "surrogatepass").split("\t")
    )
    data, parts = unpack(rest, context_of(head))
    attempts, chunks = data.pop("A", ()), data.pop("C", ())
    since, nonce = data.pop("~", ""), data.pop("n", nonce)
    values = _JOBS.values(data, parts)
    for name in _FROM_AT.get(since, ()):
        if values.get(name) is not None:
            values[name] += int(at)
    if since == "o":
        values = {**dict.fromkeys(OPENED, int(at)), **values}
    if since == "c":
        values["closed_at"] = int(at)
    job = Job(
        **{"correlation_id": trace or submission, **values},
        submission=submission,
        status=word(Outcome, status),
        nonce=nonce,
        claim=claim or None,
        waiters="w" in flags,
        letter="l" in flags,
        unsettled="u" in marked,
        canvas_advanced="a" in marked,
        canvas_unknown="k" in marked,
        keep_until=int(keep) if keep else None,
        canvas_until=int(canvas) if canvas else None,
        original=original or None,
        task_id=task_id,
        trace_id=trace or submission,
        operation=operation,
        key=key,
    )
    return Kept(
        job=job,
        attempts=_attempts(job, attempts, own=since == "c"),
        chunks=tuple(_chunk(job, described, parts) for described in chunks),
    )


def context_of(head: bytes) -> bytes:
    """Return the end of a head: it never changes, and what it names the rest names, too."""
    return head.split(b"\t", 8)[8]


def _attempts(job: Job, kept: Sequence[dict[str, Any]], *, own: bool) -> tuple[AttemptRecord, ...]:
    found = [AttemptRecord(submission=job.submission, **_ATTEMPTS.values(data, ())) for data in kept]
    if own:
        # CLOSE wrote it; the job has all that there is to say of its only attempt.
        found.append(attempt_of(job, job.status, job.closed_at or 0))
    return tuple(found)


def _lean(job: Job) -> tuple[dict[str, Any], list[bytes]]:
    data, parts = _JOBS.plain(job)
    if job.correlation_id == job.trace_id:
        data.pop("c", None)
    return data, parts


def _packed(
    job: Job,
    data: dict[str, Any],
    parts: list[bytes],
    chunks: Sequence[Chunk],
    ending: bytes,
    *,
    compressed: bool = True,
) -> bytes:
    if chunks:
        data["C"] = [_described(job, chunk, len(parts) + number) for number, chunk in enumerate(chunks)]
        parts = [*parts, *(unzipped(chunk.body) for chunk in chunks)]
    return pack(data, parts, ending, compressed=compressed)


def _described(job: Job, chunk: Chunk, part: int) -> list[Any]:
    described: list[Any] = [part, chunk.first, chunk.count, chunk.recorded_at]
    if (chunk.nonce, chunk.trace_id) != (job.nonce, job.trace_id):
        described += [chunk.nonce, chunk.trace_id]
    return described


def _chunk(job: Job, described: list[Any], parts: Sequence[bytes]) -> Chunk:
    part, first, count, recorded_at, *whose = described
    nonce, trace_id = whose or (job.nonce, job.trace_id)
    return Chunk(
        trace_id=trace_id,
        nonce=nonce,
        first=first,
        count=count,
        body=parts[part],
        recorded_at=recorded_at,
    )


def without_blobs(chunk: Chunk) -> Chunk:
    """Return a chunk as its job keeps it."""
    return evolve(chunk, blobs=()) if chunk.blobs else chunk


def _number(value: Micros | None) -> bytes:
    return b"" if value is None else b"%d" % value


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def evolve_kept(kept: Kept, job: Job) -> Kept:
    """Return a job with what was kept of it before."""
    return Kept(job=job, attempts=kept.attempts, chunks=kept.chunks)


def whole(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Return each chunk once: one whose write was not answered is written again, perhaps elsewhere and with more."""
    found: dict[str, Chunk] = {}
    for chunk in chunks:
        known = found.setdefault(chunk.chunk_id, chunk)
        if known.count < chunk.count:
            found[chunk.chunk_id] = chunk
    return list(found.values())


def fields_of(found: Sequence[bytes]) -> dict[str, bytes]:
    """Return a hash by its fields."""
    return {name.decode("utf-8", "surrogatepass"): v for name, v in zip(found[::2], found[1::2], strict=True)}
