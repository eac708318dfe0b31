"""An app without Django and without a store of its own choice: its records are in the broker's Redis."""

from __future__ import annotations

import os
import signal
import sys
import urllib.request
from typing import Any

from celery import Celery, chord

app = Celery("redis_app", task_cls="celery_replay:ReplayTask")
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": 2,
        "unacked_restore_interval": 0.5,
        "unacked_restore_throttle": 0.5,
        "unacked_mutex_expire": 2,
    },
    replay_lease_ttl=1,
    replay_flush_interval=0.1,
)


@app.task(name="charge", bind=True, idempotency_key="charge:{key}", on_incomplete="resume")
def charge(self: Any, key: str, url: str = "", dies: int = 0) -> str:
    """Take effect at a counting server; the first `dies` attempts kill their whole worker before they do."""
    if self.attempt.job.attempts <= dies:
        for pid in (os.getppid(), os.getpid()):
            os.kill(pid, signal.SIGKILL)
    if url:
        urllib.request.urlopen(urllib.request.Request(url, method="POST")).close()
    return f"{key} charged"


@app.task(name="fail")
def fail(text: str) -> None:
    """Raise."""
    raise ValueError(text)


@app.task(name="total")
def total(parts: list[str]) -> int:
    """Count the parts of a chord."""
    return len(parts)


def charge_all(keys: list[str]) -> Any:
    """Charge many, and count them."""
    return chord([charge.s(key) for key in keys], total.s())()


@app.task(name="modules")
def modules() -> list[str]:
    """Return which parts of Django are loaded."""
    return sorted(name for name in sys.modules if name.partition(".")[0] == "django_celery_replay")
