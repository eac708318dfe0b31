"""A Celery app without any of our code: the ground truth that the support package is tested with.

The broker and the result backend come from Celery's own CELERY_BROKER_URL and CELERY_RESULT_BACKEND.
"""

from __future__ import annotations

import os
import time
import urllib.request

from celery import Celery

app = Celery("plain")
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_reject_on_worker_lost=False,
    worker_prefetch_multiplier=1,
)


@app.task
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


@app.task
def where() -> int:
    """Return the id of the process that runs the task."""
    return os.getpid()


@app.task
def effect(url: str) -> int:
    """Have an effect at a counting server and return its status."""
    with urllib.request.urlopen(urllib.request.Request(url, method="POST")) as answer:
        return int(answer.status)


@app.task
def sleep(seconds: float) -> float:
    """Sleep and say for how long."""
    time.sleep(seconds)
    return seconds
