"""Jobs of every protection, for workers that lose their store, their lease or their life."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from celery.signals import task_prerun

from tests.end_to_end.apps.project import exists, make_app, post

LATE: dict[str, Any] = {"acks_late": True, "reject_on_worker_lost": True}
app = make_app("jobs")


def await_sign(reference: str) -> None:
    """Wait until the test gives its sign."""
    while not exists("sign", reference):
        time.sleep(0.05)


@app.task(name="plain")
def plain(reference: str) -> int:
    """Have an effect; nothing is declared."""
    post("done", reference)
    return os.getpid()


@app.task(name="plain_held")
def plain_held(reference: str) -> str:
    """Have an effect between two moments that a test can choose; nothing is declared."""
    post("begun", reference)
    await_sign(reference)
    post("done", reference)
    return reference


@app.task(name="keyed", idempotency_key="{reference}", on_incomplete="resume")
def keyed(reference: str, seconds: float = 0) -> int:
    """Have an effect once per key."""
    post("begun", reference)
    time.sleep(seconds)
    post("done", reference)
    return os.getpid()


@app.task(name="keyed_held", idempotency_key="{reference}", on_incomplete="resume")
def keyed_held(reference: str) -> str:
    """Have an effect once per key, between two moments that a test can choose."""
    post("begun", reference)
    await_sign(reference)
    post("done", reference)
    return reference


@app.task(name="keyed_early_held", idempotency_key="{reference}", on_incomplete="resume", acks_late=False)
def keyed_early_held(reference: str) -> None:
    """Have an effect when a test wants it; the message is acknowledged before."""
    post("begun", reference)
    await_sign(reference)
    post("done", reference)


@app.task(name="late", **LATE)
def late(reference: str, seconds: float = 0) -> str:
    """Have an effect, acknowledged late; nothing else is declared."""
    post("begun", reference)
    time.sleep(seconds)
    post("done", reference)
    return reference


@app.task(name="leased", resources=["order:{order}"], **LATE)
def leased(reference: str, order: str, held: bool = False) -> str:
    """Work on an order, in several moments, of which a test may choose when the first is over."""
    post("begun", reference)
    if held:
        await_sign(reference)
    post("order", order)
    post("done", reference)
    return reference


@app.task(name="leased_both", resources=lambda numbers: [f"order:{number}" for number in numbers], **LATE)
def leased_both(reference: str, numbers: list[str]) -> str:
    """Work on several orders, as another task."""
    for number in numbers:
        post("order", number)
    post("done", reference)
    return reference


@app.task(name="barrier", idempotency_key="{reference}", on_incomplete="resume")
def barrier(reference: str) -> str:
    """Have an effect once per key; its copies come to OPEN all at the same time."""
    post("done", reference)
    return reference


@task_prerun.connect(weak=False)
def _wait_at_the_barrier(task: Any, args: Any, **_: Any) -> None:
    if task.name == "barrier":
        post("waiting", args[0])
        await_sign(args[0])


@app.task(name="deadly", idempotency_key="{key}", on_incomplete="resume")
def deadly(key: str) -> None:
    """Kill its process, every time."""
    post("begun", key)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="leaving", idempotency_key="{key}", on_incomplete="resume")
def leaving(key: str) -> None:
    """End its process, as a script would, every time."""
    post("begun", key)
    sys.exit(1)


@app.task(name="deadly_once", idempotency_key="{key}", on_incomplete="resume", reject_on_worker_lost=False)
def deadly_once(key: str) -> None:
    """Kill its process; Celery acknowledges the message then, so that it does not come again."""
    post("begun", key)
    # Within that time its parent hears that it has the job; before, it would simply give it to another child.
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="fatal", idempotency_key="{reference}", on_incomplete="resume", reject_on_worker_lost=False)
def fatal(reference: str, dies: bool = True) -> str:
    """Kill its process if that is asked for, else have an effect; Celery acknowledges the message either way."""
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    post("done", reference)
    return reference


@app.task(name="failing", stepwise=True, idempotency_key="{reference}")
def failing(reference: str) -> str:
    """Fail until the test gives its sign; it has no effect before."""
    if not exists("sign", reference):
        raise ValueError("no sign")
    post("done", reference)
    return reference


@app.task(name="after")
def after(reference: str) -> None:
    """Be a callback."""
    post("after", reference)
