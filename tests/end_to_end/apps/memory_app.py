"""An app whose store is its process's memory: no Django, no database."""

from __future__ import annotations

from typing import Any

from celery import Celery

app = Celery("memory", task_cls="celery_replay:ReplayTask")
app.conf.update(broker_connection_retry_on_startup=True, replay_store="memory://")
_runs: list[str] = []


@app.task(name="order", idempotency_key="order:{key}", on_incomplete="resume")
def order(key: str) -> int:
    """Return how often it has run."""
    _runs.append(key)
    return len(_runs)


@app.task(name="flaky", bind=True, max_retries=10)
def flaky(self: Any, key: str, fails: int) -> int:
    """Ask for retries, and return how many it needed."""
    if self.request.retries < fails:
        raise self.retry(countdown=0)
    return int(self.request.retries)
