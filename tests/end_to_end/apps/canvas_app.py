"""Tasks to make canvases of. Each has an effect at the counting server, so that bodies and callbacks can be counted."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from celery import chain, chord, group
from celery.signals import task_success

from tests.end_to_end.apps.project import exists, make_app, post


# Connected before celery-replay's own receiver: nothing of ours knows yet that the canvas was sent on.
@task_success.connect(weak=False)
def _die_after_counting(sender: Any, **_: Any) -> None:
    reference = sender.request.get("dies")
    if reference and not exists("died", reference):
        post("died", reference)
        os.kill(os.getpid(), signal.SIGKILL)


app = make_app("canvas")


def await_sign(reference: str) -> None:
    """Wait until the test gives its sign."""
    while not exists("sign", reference):
        time.sleep(0.05)


@app.task(name="done")
def done(reference: str, value: Any = None) -> Any:
    """Have an effect and return a value."""
    post("done", reference)
    return value


@app.task(name="after")
def after(previous: Any, reference: str) -> Any:
    """Have an effect after another task, and pass its value on."""
    post("done", reference)
    return previous


@app.task(name="gather")
def gather(values: list[Any], reference: str) -> list[Any]:
    """Be a chord's body."""
    post("done", reference)
    return values


@app.task(name="broken")
def broken(reference: str) -> None:
    """Have an effect and fail."""
    post("done", reference)
    raise ValueError(reference)


@app.task(bind=True, name="flaky", max_retries=10)
def flaky(self: Any, reference: str, fails: int = 1, value: Any = None) -> Any:
    """Ask for retries until it has failed often enough."""
    post("tries", reference)
    if self.request.retries < fails:
        raise self.retry(countdown=0)
    post("done", reference)
    return value


@app.task(bind=True, name="auto", autoretry_for=(KeyError,), retry_kwargs={"max_retries": 2}, default_retry_delay=0)
def auto(self: Any, reference: str, fails: int = 1, value: Any = None) -> Any:
    """Fail so that Celery retries by itself."""
    post("tries", reference)
    if self.request.retries < fails:
        raise KeyError(reference)
    post("done", reference)
    return value


@app.task(bind=True, name="parent", max_retries=10)
def parent(self: Any, child: str, key: str, fails: int = 1) -> str:
    """Publish children and then ask for a retry."""
    done.delay(child)
    order.delay(key)
    if self.request.retries < fails:
        raise self.retry(countdown=0)
    return child


@app.task(name="order", idempotency_key="order:{key}", on_incomplete="resume", bind=True)
def order(self: Any, key: str, seconds: float = 0, fail: bool = False) -> str:
    """Be a business intent with a key."""
    if self.request.get("hold"):
        post("held", key)
        await_sign(self.request.get("hold"))
        if self.request.get("then") == "fail":
            raise ValueError(key)
        return key
    post("order", key)
    time.sleep(seconds)
    if fail:
        raise ValueError(key)
    post("ordered", key)
    return key


@app.task(name="ship", idempotency_key="ship:{key}", on_incomplete="resume", max_retries=10, bind=True)
def ship(self: Any, key: str, fails: int = 0, seconds: float = 0) -> str:
    """Be a business intent that needs a few tries."""
    post("ship", key)
    time.sleep(seconds)
    if self.request.retries < fails:
        raise self.retry(countdown=0.3)
    post("shipped", key)
    return key


@app.task(name="mortal", acks_late=True, reject_on_worker_lost=True)
def mortal(reference: str) -> str:
    """Kill its own process, once."""
    post("tries", reference)
    if not exists("died", reference):
        post("died", reference)
        os.kill(os.getpid(), signal.SIGKILL)
    post("done", reference)
    return reference


@app.task(name="poison", acks_late=True, reject_on_worker_lost=True)
def poison(reference: str) -> None:
    """Kill its own process, each time."""
    post("tries", reference)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="counted", acks_late=True, reject_on_worker_lost=True)
def counted(reference: str) -> str:
    """Be a member that comes again after its worker died, wherever that was."""
    post("done", reference)
    return reference


@app.task(name="waits")
def waits(reference: str) -> str:
    """Wait for the test's sign."""
    post("begun", reference)
    await_sign(reference)
    post("done", reference)
    return reference


@app.task(name="failed")
def failed(request: Any, error: Any, trace: Any, reference: str) -> None:
    """Be an errback that Celery calls on the spot."""
    post("done", reference)


@app.task(name="failed_later")
def failed_later(task_id: str, *, reference: str) -> None:
    """Be an errback that Celery publishes: it takes one argument by its position."""
    post("done", reference)


@app.task(bind=True, name="becomes")
def becomes(self: Any, kind: str, first: str, second: str) -> Any:
    """Replace itself."""
    post("runs", first)
    raise self.replace(_replacement(kind, first, second))


@app.task(bind=True, name="becomes_order", idempotency_key="becomes:{key}", on_incomplete="resume")
def becomes_order(self: Any, key: str, kind: str) -> Any:
    """Replace itself, under a key."""
    post("runs", key)
    raise self.replace(_replacement(kind, key, f"{key}-2"))


def _replacement(kind: str, first: str, second: str) -> Any:
    if kind == "task":
        return done.si(first, first)
    if kind == "retrying task":
        return flaky.si(first, 1, first)
    if kind == "chain":
        return chain(done.si(first, first), after.s(second))
    if kind == "group":
        return group(done.si(first, first), done.si(second, second))
    return chord([done.si(first, first), done.si(second, second)], gather.s(f"{first}-body"))
