"""Jobs with each kind of guard, whose effects are rows of one table: what is left after a beating is counted."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from django.db import Error, connection

from tests.end_to_end.apps.project import EFFECTS_TABLE, make_app

AGAIN: dict[str, Any] = {"autoretry_for": (Error,), "retry_kwargs": {"max_retries": 50, "countdown": 0.2}}
"""A connection that is cut in the middle of a body is the body's error."""
LATE: dict[str, Any] = {"acks_late": True, "reject_on_worker_lost": True, **AGAIN}
STARVED_US = 900_000
app = make_app("chaos")


def write(kind: str, reference: str, fence: int = 0) -> None:
    """Have an effect: a row more."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {EFFECTS_TABLE} (kind, reference, fence) VALUES (%s, %s, %s)", [kind, reference, fence]
        )


def written(kind: str, reference: str) -> bool:
    """Look whether the effect is there."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {EFFECTS_TABLE} WHERE kind = %s AND reference = %s", [kind, reference])
        return cursor.fetchone() is not None


@app.task(name="plain", **LATE)
def plain(reference: str, seconds: float) -> str:
    """Declare nothing."""
    time.sleep(seconds)
    write("plain", reference)
    return reference


@app.task(name="resumed", idempotency_key="{reference}", on_incomplete="resume", **AGAIN)
def resumed(reference: str, seconds: float) -> str:
    """Have a key, and run again when in doubt."""
    time.sleep(seconds)
    write("resumed", reference)
    return reference


@app.task(name="atomic", idempotency_key="{reference}", atomic="default", **AGAIN)
def atomic(reference: str, seconds: float) -> str:
    """Commit the effect with its own record."""
    write("atomic", reference)
    time.sleep(seconds)
    return reference


@app.task(
    name="fenced",
    bind=True,
    idempotency_key="{reference}",
    on_incomplete="verify",
    verify=lambda reference, seconds: reference if written("fenced", reference) else None,
    fenced="default",
    **AGAIN,
)
def fenced(self: Any, reference: str, seconds: float) -> str:
    """Look before the effect, and have it behind a fence."""
    time.sleep(seconds)
    with self.attempt.fenced():
        write("fenced", reference, self.attempt.fence)
    return reference


@app.task(
    name="starved",
    bind=True,
    idempotency_key="{reference}",
    on_incomplete="verify",
    verify=lambda reference, seconds: reference if written("starved", reference) else None,
    fenced="default",
    **AGAIN,
)
def starved(self: Any, reference: str, seconds: float) -> str:
    """Let nobody else run in this process for longer than the lease lasts, as a long C call does; the first time."""
    if not written("starving", reference):
        write("starving", reference)
        hold = ctypes.PyDLL(None).usleep
        for _ in range(int(seconds * 1_000_000 / STARVED_US)):
            hold(STARVED_US)
    with self.attempt.fenced():
        write("starved", reference, self.attempt.fence)
    return reference


def order_of(reference: str, *_: Any) -> str:
    """Name one of the few orders that jobs work on."""
    return f"order:{ord(reference[0]) % 3}"


@app.task(name="leased", bind=True, resources=lambda reference, seconds: order_of(reference), **LATE)
def leased(self: Any, reference: str, seconds: float) -> str:
    """Have an order for oneself, and write to it behind its fence."""
    order = order_of(reference)
    time.sleep(seconds / 4)
    with self.attempt.fenced(order):
        write("leased", reference)
        write("order", order, self.attempt.fence_of(order))
    return reference


@app.task(name="after", atomic="default", **LATE)
def after(reference: str) -> None:
    """Be the callback of a job that ended well."""
    write("after", reference)
