"""Details go before their job: of a trace that ended well it is kept how many events there were of which."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..clock import Micros
from ..records import Chunk, Job
from ..states import Outcome
from .reading import Readable
from .units import Unit

T = TypeVar("T")
Summarise = Callable[[Sequence[Chunk]], Sequence[Chunk]]
"""Returns the chunks of a trace that change when all that they say is reduced to counts."""
WELL = frozenset({Outcome.SUCCEEDED, Outcome.DEDUPLICATED, Outcome.STALE_IGNORED, Outcome.IGNORED})
"""How a job ends about which nobody will ask."""
_BATCH = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Going:
    """What pruning would delete, or reduce, now."""

    jobs: int = 0
    """Past their retention."""
    traces: int = 0
    """That go with them."""
    thinned: int = 0
    """Traces whose details go, while their jobs stay."""
    bytes: int = 0
    """Of events and large values of all these; shared ones count for each trace, and stay if another one has them."""


class Thinning(Readable):
    """The part of a store that lets details go."""

    @abstractmethod
    def _atomically(self, step: Callable[[Unit], T]) -> T:
        """Run a step as one."""

    def thin(self, detail_us: Micros, summarise: Summarise, after: str = "", limit: int = _BATCH) -> tuple[int, str]:
        """Let details go of the next jobs that ended well so long ago, and so did all jobs of their traces.

        Not of a trace that is kept, or of one with a dead letter that waits for somebody.

        Args:
            after: where the last call ended.

        Returns:
            How many traces were reduced, and where to go on; empty at the end.
        """
        until = self.now() - detail_us
        with self._read() as reader:
            jobs, last = reader.oldest_jobs(after, until, limit)
            wanted = [trace for trace in _traces(jobs, until) if _well(reader.jobs_of_trace(trace), until)]
        return sum(self._atomically(lambda unit, t=trace: _thin(unit, t, summarise)) for trace in wanted), last  # type: ignore[misc]

    def going(self, detail_us: Micros, summarise: Summarise, limit: int = 100_000) -> Going:
        """Say what would be deleted or reduced now, among the oldest jobs.

        Args:
            detail_us: how long details are kept; 0 for as long as the job.
        """
        now = self.now()
        until = now - detail_us if detail_us else 0
        jobs = thinned = size = 0
        gone: set[str] = set()
        with self._read() as reader:
            for job in self.oldest_jobs(now, limit):
                if _past(job, now) and reader.row(job.submission) is None:
                    jobs += 1
                    members = reader.jobs_of_trace(job.trace_id)
                    if job.trace_id not in gone and all(_past(member, now) for member in members):
                        gone.add(job.trace_id)
                        size += reader.trace_size(job.trace_id)
            for trace in _traces(self.oldest_jobs(until, limit), until) if detail_us else ():
                well = trace not in gone and _well(reader.jobs_of_trace(trace), until)
                if well and summarise(reader.chunks(trace)):
                    thinned += 1
                    size += reader.trace_size(trace)
        return Going(jobs=jobs, traces=len(gone), thinned=thinned, bytes=size)

    def oldest_jobs(self, until: Micros, limit: int) -> Iterator[Job]:
        """Yield jobs that were last started by some time, oldest first; about `limit` at most."""
        after, seen = "", 0
        while seen < limit:
            with self._read() as reader:
                jobs, after = reader.oldest_jobs(after, until, _BATCH)
            yield from jobs
            seen += len(jobs)
            if not after:
                return


def _past(job: Job, now: Micros) -> bool:
    return job.status.over and not job.letter and job.keep_until is not None and job.keep_until <= now


def _traces(jobs: Iterable[Job], until: Micros) -> list[str]:
    return list(dict.fromkeys(job.trace_id for job in jobs if _well([job], until)))


def _well(jobs: Sequence[Job], until: Micros) -> bool:
    return bool(jobs) and all(
        job.status in WELL
        and not job.letter
        and job.keep_until is not None
        and job.closed_at is not None
        and job.closed_at <= until
        for job in jobs
    )


def _thin(unit: Unit, trace_id: str, summarise: Summarise) -> bool:
    chunks = summarise(unit.chunks(trace_id))
    if chunks:
        unit.put_chunks(chunks)
        unit.forget_blobs(trace_id)
    return bool(chunks)
