"""What all variants share: settings of the worker, and the body of the task."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from celery import Celery, signals

TASK = "benchmarks.job"
BODY_S = float(os.environ.get("BENCH_BODY_MS", "0")) / 1000


def make_app(**options: Any) -> Celery:
    """Make an app on the broker and backend that CELERY_BROKER_URL and CELERY_RESULT_BACKEND name."""
    app = Celery("bench", **options)
    app.conf.update(
        broker_connection_retry_on_startup=True,
        task_acks_late=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=4,
        worker_cancel_long_running_tasks_on_connection_loss=False,
    )
    return app


def body(number: int) -> dict[str, int]:
    """Do what the task does: nothing, or sleep."""
    if BODY_S:
        time.sleep(BODY_S)
    return {"number": number, "squared": number * number}


@signals.worker_ready.connect
def _say_ready(sender: Any = None, **_: Any) -> None:
    # The log is at ERROR, since two lines for each task would be a good part of what is measured.
    sys.__stderr__.write(f"{sender.hostname} ready.\n")
    sys.__stderr__.flush()
