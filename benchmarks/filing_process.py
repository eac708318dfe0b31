"""Does jobs in a process of its own, as its standard input asks: `python -m benchmarks.filing_process`.

Each line asks for so many seconds of one kind of job, and is answered by how many were done and how long they took.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median, quantiles

import django

from celery_replay.records import Failure

FRAMES = ("shop/tasks.py:ship", "shop/carrier.py:buy_label", "shop/carrier.py:_post")
FAILURE = Failure(
    type="requests.exceptions.ConnectTimeout",
    message="HTTPSConnectionPool(host='api.carrier.example', port=443): Max retries exceeded with url: /v2/labels",
    traceback="Traceback (most recent call last):\n" + "  File ..., in send\n    return self._send(request)\n" * 50,
    frames=FRAMES,
)


def main() -> None:
    """Answer until the input ends."""
    django.setup()
    from dataclasses import replace

    from django_celery_replay.store import DjangoStore

    from .jobs import Jobs

    store = DjangoStore()
    others, failing = Jobs(store, "shop.tasks.other"), Jobs(store, "shop.tasks.ship")
    kinds: dict[str, Callable[[int], object]] = {
        "steward": lambda number: store.count_up(),
        "other": lambda number: others.run(),
        "one cause": lambda number: failing.fail(FAILURE),
        "many causes": lambda number: failing.fail(replace(FAILURE, frames=(*FRAMES, f"part{number % 1_000}.py:call"))),
    }
    for line in sys.stdin:
        kind, seconds, rate = json.loads(line)
        sys.stdout.write(json.dumps(_work(kinds[kind], seconds, rate)) + "\n")
        sys.stdout.flush()


def _work(one: Callable[[int], object], seconds: float, rate: float) -> dict[str, float]:
    """Do jobs for so long, no more than `rate` a second unless that is 0."""
    times: list[float] = []
    begun = time.perf_counter()
    while (now := time.perf_counter()) - begun < seconds:
        if rate and (wait := begun + len(times) / rate - now) > 0:
            time.sleep(min(wait, seconds))
            now = time.perf_counter()
        one(len(times))
        times.append(time.perf_counter() - now)
    spent = time.perf_counter() - begun
    late = quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
    return {"count": len(times), "seconds": spent, "median_ms": median(times) * 1e3, "late_ms": late * 1e3}


if __name__ == "__main__":
    main()
