"""Tasks that a beat sends."""

from __future__ import annotations

from typing import Any

from tests.end_to_end.apps.project import make_app, post

app = make_app("schedules")
app.conf.beat_max_loop_interval = 0.2


@app.task(name="tick", bind=True)
def tick(self: Any, reference: str) -> str:
    """Be sent again and again."""
    post("done", reference)
    return reference


@app.task(name="daily", bind=True, idempotency_key="daily:{day}", on_incomplete="resume")
def daily(self: Any, day: str) -> str:
    """Be sent by two beats, and meant once."""
    post("done", day)
    return day


@app.task(name="flaky", bind=True, max_retries=10)
def flaky(self: Any, reference: str, fails: int, countdown: float) -> str:
    """Ask for retries until it has failed often enough."""
    post("tries", reference)
    if self.request.retries < fails:
        raise self.retry(countdown=countdown)
    post("done", reference)
    return reference
