"""One task for each way in which a job can end, acknowledged early, late, or late and brought back."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from celery.exceptions import Ignore, Reject
from kombu import serialization

from tests.end_to_end.apps.project import exists, make_app, post

ACKNOWLEDGED: dict[str, dict[str, Any]] = {
    "early": {},
    "late": {"acks_late": True},
    "brought back": {"acks_late": True, "reject_on_worker_lost": True},
    "kept on timeout": {"acks_late": True, "acks_on_timeout": False},
    "kept on failure": {"acks_late": True, "acks_on_failure": False},
    "retried": {"retry_on_worker_lost": True, "default_retry_delay": 1, "max_retries": 1},
}
app = make_app("outcomes", result_extended=True)
app.conf.accept_content = ["json", "only-parents-read"]

PARENT = os.getpid()
ACCEPTED_S = 0.3
"""Within that time a child's parent hears that it has the job; before, it would simply give it to another child."""


def _only_in_the_parent(text: str) -> Any:
    if os.getpid() != PARENT:
        raise ValueError("no child can read this")
    return serialization.loads(text, "application/json", "utf-8")


serialization.register(
    "only-parents-read", lambda data: serialization.dumps(data, "json")[2], _only_in_the_parent, "application/x-parent"
)


class Unpicklable(Exception):
    """Can be pickled, and not unpickled."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def task(name: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a task for each way of acknowledgement."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        for acknowledged, how in ACKNOWLEDGED.items():
            app.task(bind=True, name=f"{name}, {acknowledged}", **{**options, **how})(_noted(body))
        return body

    return register


def _noted(body: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, reference: str) -> Any:
        post("begun", reference)
        return body(self, reference)

    return run


@task("well")
def well(self: Any, reference: str) -> str:
    """End well."""
    return reference


@task("long")
def long(self: Any, reference: str) -> str:
    """Take longer than any limit."""
    time.sleep(4)
    return reference


@task("held")
def held(self: Any, reference: str) -> str:
    """Wait until the test gives its sign."""
    while not exists("sign", reference):
        time.sleep(0.05)
    return reference


@task("raising")
def raising(self: Any, reference: str) -> None:
    """Fail."""
    raise ValueError(reference)


@task("wrong", postconditions=[lambda result: result == "right"])
def wrong(self: Any, reference: str) -> str:
    """Return what it should not."""
    return reference


@task("retrying", max_retries=2)
def retrying(self: Any, reference: str) -> None:
    """Ask for retries until there are no more."""
    raise self.retry(countdown=0, exc=KeyError(reference))


@task("retrying by itself", autoretry_for=(ValueError,), max_retries=2, retry_backoff=False, default_retry_delay=0)
def retrying_by_itself(self: Any, reference: str) -> None:
    """Fail, and be retried by Celery until there are no more retries."""
    raise ValueError(reference)


@task("ignoring")
def ignoring(self: Any, reference: str) -> None:
    """Want to be ignored."""
    raise Ignore


@task("replacing")
def replacing(self: Any, reference: str) -> None:
    """Let another task do it."""
    raise self.replace(app.signature("well, early", (reference,)).set(queue=self.request.delivery_info["routing_key"]))


@task("rejecting")
def rejecting(self: Any, reference: str) -> None:
    """Reject the message."""
    raise Reject(reference, requeue=False)


@task("giving back")
def giving_back(self: Any, reference: str) -> None:
    """Give the message back, always."""
    raise Reject(reference, requeue=True)


@task("giving back once")
def giving_back_once(self: Any, reference: str) -> str:
    """Give the message back the first time."""
    if not self.request.delivery_info["redelivered"]:
        raise Reject(reference, requeue=True)
    return reference


@task("dying")
def dying(self: Any, reference: str) -> None:
    """Be killed, as by the kernel when memory is short."""
    time.sleep(ACCEPTED_S)
    os.kill(os.getpid(), signal.SIGKILL)


@task("dying once")
def dying_once(self: Any, reference: str) -> str:
    """Be killed the first time."""
    if not exists("died", reference):
        post("died", reference)
        time.sleep(ACCEPTED_S)
        os.kill(os.getpid(), signal.SIGKILL)
    return reference


@task("leaving")
def leaving(self: Any, reference: str) -> None:
    """End the process, as a script would."""
    sys.exit(3)


@task("out of memory")
def out_of_memory(self: Any, reference: str) -> None:
    """Find no memory."""
    raise MemoryError


@task("hoarding")
def hoarding(self: Any, reference: str) -> None:
    """Fill all the memory that there is, a megabyte at a time."""
    room = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), room[1]))
    hoard: list[Any] = []
    for size in (1 << 20, 1 << 16):
        with suppress(MemoryError):
            while True:
                hoard.append(bytearray(size))
    hoard.append(bytearray(1 << 20))


@task("returning an object")
def returning_an_object(self: Any, reference: str) -> object:
    """Return what can't be sent."""
    return object()


@task("raising oddly")
def raising_oddly(self: Any, reference: str) -> None:
    """Raise what can't be unpickled."""
    raise Unpicklable(5, reference)


@task("retrying oddly", max_retries=1)
def retrying_oddly(self: Any, reference: str) -> None:
    """Ask for a retry because of what can't be unpickled."""
    raise self.retry(countdown=0, exc=Unpicklable(5, reference))


@app.task(name="link")
def link(previous: Any, reference: str) -> None:
    """Be a callback."""
    post("link", reference)


@app.task(name="errback")
def errback(reference: str) -> None:
    """Be an error callback, which is a job of its own."""
    post("errback", reference)


@app.task(name="old errback")
def old_errback(request: Any, error: Any, trace: Any, reference: str) -> None:
    """Be an error callback of the old kind, which is called where the failure is announced."""
    post("errback", reference)


@app.task(name="body")
def body(results: Any, reference: str) -> None:
    """Be a chord's body."""
    post("chord", reference)


@app.task(name="chord failed")
def chord_failed(reference: str) -> None:
    """Be the error callback of a chord's body."""
    post("chord-error", reference)


@app.task(name="other")
def other() -> None:
    """Be the chord's other member."""
