"""Many finished jobs in Redis: how much room does one take, and what do new ones notice of them?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import redis

from celery_replay.stores.redis import RedisStore

from .figures import Figure, figure
from .jobs import Jobs

SAMPLE = 1_000
"""Jobs that are really run; the rest of a history are copies of them under other names."""
_BATCH = 5_000
_JOBS = 200
"""Jobs of a slice."""

_COPY = """
local prefix, ttl = ARGV[1], ARGV[2]
for i = 5, #ARGV do
  local name = string.format('%032x', ARGV[3] + i)
  redis.call('SET', prefix .. 'j:' .. name, redis.call('GET', prefix .. 'j:' .. ARGV[i]), 'PX', ttl)
  if ARGV[4] ~= '' then redis.call('SET', prefix .. 'c:' .. name, name, 'PX', ttl) end
  redis.call('XADD', prefix .. 'jobs', '*', 's', name)
end
"""


@dataclass(frozen=True, kw_only=True)
class History:
    """What a history of finished jobs costs; each with a result and ten events."""

    keyed: bool
    jobs: int
    bytes_per_job: float
    sample_bytes: float
    """The same, of the first thousand, which were really run."""
    job_ms: float
    """OPEN and CLOSE of one more, the median."""
    share: Figure
    """Of the rate beside a thousand."""


def measure(url: str, jobs: int, slices: int, *, keyed: bool, tell: Callable[[str], None]) -> History:
    """Fill one store, and do jobs there and in one that has a thousand, in turn.

    Args:
        url: of a Redis database that nobody else uses.
    """
    client = redis.Redis.from_url(url)
    try:
        many, few = (_filled(url, name, client, keyed=keyed) for name in ("many", "few"))
        room = _copied(client, jobs, keyed=keyed, tell=tell)
        times: list[tuple[float, float]] = []
        for number in range(slices):
            tell(f"among {jobs:,} finished jobs: slice {number + 1} of {slices}")
            times.append((_slice(few.jobs), _slice(many.jobs)))
    finally:
        client.flushdb()
        client.close()
    return History(
        keyed=keyed,
        jobs=jobs,
        bytes_per_job=room,
        sample_bytes=many.room,
        job_ms=median(each for _, each in times) * 1e3,
        share=figure([alone / among for alone, among in times]),
    )


@dataclass(frozen=True, kw_only=True)
class _Filled:
    jobs: Jobs
    room: float


def _filled(url: str, name: str, client: redis.Redis, *, keyed: bool) -> _Filled:
    """Run the first jobs of a store."""
    store = RedisStore(url, prefix=name)
    jobs = Jobs(store, "shop.tasks.ship", keyed=keyed)
    jobs.run()
    before = _used(client)
    for _ in range(SAMPLE):
        jobs.run()
    return _Filled(jobs=jobs, room=(_used(client) - before) / SAMPLE)


def _copied(client: redis.Redis, jobs: int, *, keyed: bool, tell: Callable[[str], None]) -> float:
    """Copy the first jobs until there are so many; return the bytes that one of them takes."""
    prefix = "{many}:"
    names = [key[len(prefix) + 2 :].decode() for key in client.scan_iter(f"{prefix}j:*", count=_BATCH)][:SAMPLE]
    ttl = client.pttl(f"{prefix}j:{names[0]}")
    copy = client.register_script(_COPY)
    before = _used(client)
    for begun in range(0, jobs, _BATCH):
        tell(f"filling: {begun:,} of {jobs:,} finished jobs")
        copy(args=[prefix, ttl, begun, "keyed" if keyed else "", *(names * (_BATCH // SAMPLE))])
    return (_used(client) - before) / jobs


def _used(client: redis.Redis) -> int:
    return int(client.info("memory")["used_memory"])


def _slice(jobs: Jobs) -> float:
    begun = time.perf_counter()
    for _ in range(_JOBS):
        jobs.run()
    return (time.perf_counter() - begun) / _JOBS
