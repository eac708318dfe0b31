"""Tasks that show how a pool treats them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded

from celery_replay import record, step
from tests.end_to_end.apps.project import exists, make_app, post

app = make_app("pool")


@app.task(name="done")
def done(reference: str, value: Any = None) -> Any:
    """Have an effect and return a value."""
    post("done", reference)
    return value


@app.task(name="after")
def after(previous: Any, reference: str) -> Any:
    """Have an effect after another task."""
    post("done", reference)
    return previous


@app.task(name="slow")
def slow(reference: str, seconds: float) -> str:
    """Have an effect, slowly."""
    post("begun", reference)
    time.sleep(seconds)
    post("done", reference)
    return reference


@app.task(bind=True, name="flaky", max_retries=10)
def flaky(self: Any, reference: str, fails: int = 1) -> str:
    """Ask for retries until it has failed often enough."""
    post("tries", reference)
    if self.request.retries < fails:
        raise self.retry(countdown=0)
    post("done", reference)
    return reference


@app.task(bind=True, name="noted")
def noted(self: Any, reference: str) -> int:
    """Write to the trace, by both ways."""
    record("looked_up", reference=reference)
    self.attempt.record("decided", answer=42)
    return int(self.attempt.fence)


@app.task(name="order", idempotency_key="order:{key}", on_incomplete="resume")
def order(key: str, seconds: float = 0) -> str:
    """Be a business intent with a key; it takes its time, unless the test gives its sign."""
    post("begun", key)
    if not exists("sign", key):
        time.sleep(seconds)
    post("done", key)
    return key


@app.task(name="late", acks_late=True)
def late(reference: str, seconds: float) -> str:
    """Be acknowledged late, with nothing declared."""
    post("begun", reference)
    time.sleep(seconds)
    post("done", reference)
    return reference


@app.task(name="polite")
def polite(reference: str, seconds: float) -> str:
    """Notice the soft time limit and end well."""
    try:
        time.sleep(seconds)
    except SoftTimeLimitExceeded:
        post("soft", reference)
        return "stopped in time"
    return "in time"


@app.task(name="gather")
def gather(values: list[Any], reference: str) -> list[Any]:
    """Be a chord's body."""
    post("done", reference)
    return values


@app.task(name="failed")
def failed(request: Any, error: Any, trace: Any, reference: str) -> None:
    """Be an error callback."""
    post("done", reference)


@step(side_effect=True)
def part(reference: str, number: int) -> int:
    """Have an effect, wherever the body wants it."""
    post("done", f"{reference}-{number}")
    return number


@app.task(bind=True, name="spread", stepwise=True, max_retries=1)
def spread(self: Any, reference: str, known: bool) -> list[int]:
    """Do two steps in threads, or whatever the pool makes of them, and ask for a retry once."""
    with ThreadPoolExecutor(2) as threads:
        runs = [copy_context().run if known else _call for _ in range(2)]
        parts = [threads.submit(run, part, reference, number) for number, run in enumerate(runs)]
    done = [one.result() for one in parts]
    if not self.request.retries:
        raise self.retry(countdown=0)
    return done


def _call(function: Any, *args: Any) -> Any:
    return function(*args)
