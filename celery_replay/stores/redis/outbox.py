r"""What a journal has to be told: names of what changed, and what it is now.

| name | what changed | where it is |
|---|---|---|
| `j:<submission>` | a job, its attempts and last events, its letter, its row of the parking lot | `j:`, `l:`, `r:` |
| `s:<scope>` | side-effect steps | `s:` |
| `h:<home>` | history | `h:` |
| `e:<chunk>\t<trace>` | events that are kept with their trace | `t:` |
| `x:<reference>\t<trace>` | a large value | `x:` |
| `l:<resource>` | a lease | `lease:` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...clock import SECOND, Micros
from ...records import Chunk
from ..archive import Backlog, Now, Taken
from . import codec, scripts
from .codec import text_of
from .jobs import fields_of, kept_of
from .links import Link

_ALL = b"all"


def take(link: Link, settle_us: Micros, limit: int, names: Sequence[str]) -> Taken:
    """Take names out of the outbox."""
    raw = [name.encode("utf-8", "surrogatepass") for name in names]
    found = link.call(scripts.TAKE, settle_us, limit, *raw)
    return {text_of(name): noted for name, noted in zip(found[::2], found[1::2], strict=True)}


def told(link: Link, taken: Mapping[str, bytes]) -> None:
    """Forget what was taken."""
    pairs = [part for name, noted in taken.items() for part in (name.encode("utf-8", "surrogatepass"), noted)]
    if pairs:
        link.call(scripts.TOLD, *pairs)


def put_off(link: Link, taken: Mapping[str, bytes], delay_us: Micros) -> None:
    """Put what was taken back into the outbox, where nobody has noted it again; then forget that it was taken."""
    later = str(_clock(link) + delay_us)
    link.each("ZADD", [("outbox", "NX", later, name) for name in taken])
    told(link, taken)


def backlog(link: Link) -> Backlog:
    """Count what waits, and look since when."""
    waiting, taken = link.many("ZCARD", ["outbox", "taken"])
    first = [
        found[1] for found in link.each("ZRANGE", [(n, "0", "0", "WITHSCORES") for n in ("taken", "outbox")]) if found
    ]
    since = min((int(float(score)) for score in first), default=None)
    age = 0 if since is None else max(_clock(link) - since, 0)
    return Backlog(count=int(waiting) + int(taken), age_us=age)


def note_older(link: Link, limit: int) -> int:
    """Note the next jobs of the index with all that belongs to them; `archived` has how far this has come."""
    begin = link.do("GET", "archived") or b"-"
    if begin == _ALL:
        return 0
    found = link.do("XRANGE", "jobs", begin, "+", "COUNT", limit)
    submissions = list(dict.fromkeys(text_of(entry[1][1]) for entry in found))
    values = link.many("GET", [f"j:{submission}" for submission in submissions])
    jobs = [kept_of(s, value).job for s, value in zip(submissions, values, strict=True) if value is not None]
    traces = sorted({job.trace_id for job in jobs})
    fields = zip(traces, link.many("HKEYS", [f"t:{trace}" for trace in traces]), strict=True)
    apart = [f"{text_of(name)}\t{trace}" for trace, names in fields for name in names if name[:2] in (b"e:", b"x:")]
    own = [name for job in jobs for name in (f"j:{job.submission}", f"s:{job.identity}", f"h:s:{job.submission}")]
    _note(link, [*own, *apart])
    if len(found) < limit:
        # What was said of groups and operations: little, and no job leads there.
        homes = {text_of(name).rpartition("\t")[0] for name in link.do("ZRANGE", "history", 0, -1)}
        resources = [f"l:{text_of(name)}" for name in link.do("ZRANGE", "leases", 0, -1)]
        _note(link, [*(f"h:{home}" for home in sorted(homes) if not home.startswith("s:")), *resources])
    link.do("SET", "archived", b"(" + found[-1][0] if len(found) == limit else _ALL)
    return len(jobs)


def _note(link: Link, names: Sequence[str]) -> None:
    now = str(_clock(link))
    link.each("ZADD", [("outbox", "NX", now, name) for name in names])


def _clock(link: Link) -> Micros:
    seconds, micros = link.ask("TIME")
    return int(seconds) * SECOND + int(micros)


def now(link: Link, names: Sequence[str]) -> Now:
    """Read in one round trip what has these names."""
    found = Now()
    prefix = link.prefix.decode()
    answers = iter(link.all([_call(name, prefix) for name in names]))
    for name in names:
        kind, _, rest = name.partition(":")
        _TELL[kind](found, rest, next(answers))
    return found


def _call(name: str, prefix: str) -> tuple[str, ...]:
    kind, _, rest = name.partition(":")
    first, _, trace = rest.rpartition("\t")
    match kind:
        case "j":
            return "MGET", f"j:{rest}", f"{prefix}l:{rest}", f"{prefix}r:{rest}"
        case "s":
            return "HGETALL", f"s:{rest}"
        case "h":
            return "HVALS", f"h:{rest}"
        case "e":
            return "HGET", f"t:{trace}", f"e:{first}"
        case "x":
            return "HGET", f"x:{first}", ""
        case _:
            return "GET", f"lease:{rest}"


def _job(found: Now, submission: str, answer: Any) -> None:
    value, letter, row = answer
    if value is not None:
        kept = kept_of(submission, value)
        found.jobs.append(kept.job)
        found.attempts += kept.attempts
        found.chunks += kept.chunks
    if letter is not None:
        found.letters.append(codec.letter_of(submission, letter))
    if row is not None:
        found.rows.append(codec.ROWS.decode(row))
    else:
        found.unparked.append(submission)


def _steps(found: Now, scope: str, answer: Any) -> None:
    found.scopes.append(scope)
    found.steps += [codec.step_of(scope, value) for name, value in fields_of(answer).items() if name]


def _history(found: Now, home: str, answer: Any) -> None:
    found.history += [codec.entry_of(value) for value in answer]


def _events(found: Now, name: str, answer: Any) -> None:
    chunk, _, trace = name.rpartition("\t")
    if answer is not None:
        found.chunks.append(codec.chunk_of(trace, f"e:{chunk}", answer))


def _blob(found: Now, name: str, answer: Any) -> None:
    reference, _, trace = name.rpartition("\t")
    if answer is not None:
        found.blobs.append(Chunk(trace_id=trace, nonce="", first=0, count=0, body=b"", blobs=((reference, answer),)))


def _lease(found: Now, resource: str, answer: Any) -> None:
    if answer is not None:
        found.leases.append(codec.lease_of(resource, answer))


_TELL: dict[str, Callable[[Now, str, Any], None]] = {
    "j": _job, "s": _steps, "h": _history, "e": _events, "x": _blob, "l": _lease,
}  # fmt: skip
