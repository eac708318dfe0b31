"""An app with and without celery-replay: half of its tasks are plain ones."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Task

from celery_replay.extension import uninstall
from tests.end_to_end.apps.project import exists, make_app, post

app = make_app("interop")


def header_of(request: Any) -> dict[str, Any]:
    """Return our header as it came, on either level."""
    nested = request.headers or {}
    return dict(request.get("celery_replay") or nested.get("celery_replay") or {})


@app.task(name="ours", bind=True, max_retries=10)
def ours(self: Any, reference: str, fails: int = 0) -> Any:
    """Tell which headers came with the last delivery."""
    post("tries", reference)
    if self.request.retries < fails:
        raise self.retry(countdown=0)
    post("done", reference)
    custom = {name: self.request.get(name, "absent") for name in ("tenant", "sentry-trace", "baggage")}
    return {"header": header_of(self.request), "custom": custom, "retries": self.request.retries}


@app.task(name="order", bind=True, idempotency_key="order:{key}", on_incomplete="resume")
def order(self: Any, key: str, note: str = "") -> Any:
    """Be a business intent; where its headers say so, hold the key until the test gives its sign, and fail."""
    if self.request.get("hold"):
        post("held", key)
        while not exists("sign", key):
            time.sleep(0.05)
        raise ValueError(key)
    post("done", key)
    return {"header": header_of(self.request)}


@app.task(name="twice", bind=True, autoretry_for=(Exception,), max_retries=3, default_retry_delay=0)
def twice(self: Any, reference: str) -> None:
    """Ask for a retry by hand where Celery would do it as well."""
    post("tries", reference)
    try:
        raise ValueError(reference)
    except ValueError as error:
        raise self.retry(exc=error, countdown=0) from error


@app.task(name="counting", bind=True, autoretry_for=(Exception,), max_retries=10)
def counting(self: Any, reference: str, number: int) -> int:
    """Retry with the next number."""
    post("done", f"{reference}-{number}")
    if number < 3:
        raise self.retry(args=[reference, number + 1], countdown=0)
    return number


class Awkward(Exception):
    """Can be pickled, and not unpickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


@app.task(name="awkward", bind=True)
def awkward(self: Any, reference: str, again: bool) -> None:
    """Fail with an error that does not survive pickling."""
    post("tries", reference)
    error = Awkward("one", reference)
    if again:
        raise self.retry(exc=error, countdown=0, max_retries=1)
    raise error


@app.task(name="plain", bind=True, base=Task, max_retries=10)
def plain(self: Any, reference: str, fails: int = 0) -> Any:
    """Be a task of plain Celery in an app of ours."""
    post("tries", reference)
    if self.request.retries < fails:
        # Not at once: another process would be through before this one has stored its RETRY, over the result.
        raise self.retry(countdown=0.5)
    post("done", reference)
    return {"header": header_of(self.request), "attempt": hasattr(self, "attempt")}


@app.task(name="plain_after", base=Task)
def plain_after(previous: Any, reference: str) -> Any:
    """Be a plain task in the middle of a chain."""
    post("done", reference)
    return previous


@app.task(name="mixed", bind=True)
def mixed(self: Any, reference: str) -> str:
    """Call a plain task, and be replaced by one."""
    post("tries", reference)
    raise self.replace(app.signature("plain", (reference,)))


@app.task(name="after")
def after(previous: Any, reference: str) -> Any:
    """Have an effect after another task."""
    post("done", reference)
    return previous


if os.environ.get("REPLAY_TEST_UNINSTALLED"):
    app.finalize()
    uninstall(app)
