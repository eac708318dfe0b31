"""A job that fails after its effect; and a lock that a thread of the worker's keeps."""

from __future__ import annotations

import os
import threading
import time

from celery_replay import step
from tests.end_to_end.apps.project import make_app, post

app = make_app("trial")
lock = threading.Lock()


@step(side_effect=True, key="buy:{reference}")
def buy(reference: str) -> str:
    """Have an effect."""
    post("done", reference)
    return f"L-{reference}"


@app.task(name="order", stepwise=True)
def order(reference: str, fails: bool = True, seconds: float = 0) -> str:
    """Buy something, and fail at what comes after it."""
    label = buy(reference)
    with lock:
        time.sleep(float(os.environ.get("TRIAL_SECONDS", seconds)))
    if fails:
        raise ValueError(f"no address for {reference}")
    return label


@app.task(name="keep")
def keep() -> None:
    """Let a thread of this process take the lock for good."""
    threading.Thread(target=lock.acquire, daemon=True).start()
