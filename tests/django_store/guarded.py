"""Guarded transactions, as the tests of fences and markers make them: in threads with connections of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaitingError
from contextlib import contextmanager
from typing import Any

from django.db import connections

from celery_replay.clock import wall
from celery_replay.exceptions import FenceRefused
from django_celery_replay import fenced, marked
from django_celery_replay.models import Fence, Marker

PATIENCE_S = 10
SETTLING_S = 0.15
"""How long is watched that somebody waits."""


class Client:
    """A thread with a database connection of its own, told what to do step by step."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._pool = ThreadPoolExecutor(1)

    def do(self, what: Callable[[], Any]) -> Future[Any]:
        return self._pool.submit(what)

    def _close(self) -> None:
        connections[self.alias].close()

    def end(self) -> None:
        # A thread's connection is its own: it has to be looked up there.
        self.do(self._close).result(PATIENCE_S)
        self._pool.shutdown()


@contextmanager
def clients(alias: str, count: int) -> Iterator[list[Client]]:
    made = [Client(alias) for _ in range(count)]
    try:
        yield made
    finally:
        for client in made:
            client.end()


def waits(future: Future[Any]) -> bool:
    """Tell whether somebody is held up."""
    try:
        future.result(SETTLING_S)
    except StillWaitingError:
        return True
    return False


class Hold:
    """A place inside a transaction where a test holds it."""

    def __init__(self, error: Exception | None = None) -> None:
        self._inside, self._go_on = threading.Event(), threading.Event()
        self._error = error

    def __call__(self) -> None:
        self._inside.set()
        assert self._go_on.wait(PATIENCE_S)
        if self._error is not None:
            raise self._error

    def await_reached(self) -> None:
        assert self._inside.wait(PATIENCE_S)

    def let_go(self) -> None:
        self._go_on.set()


def write(alias: str, name: str, token: int, inside: Callable[[], Any] = int, mark: str = "") -> str:
    """Write a row in a fenced transaction; say what became of it."""
    try:
        with fenced(alias, name, token):
            inside()
            Marker.objects.using(alias).create(identity=mark or f"{name}-{token}", nonce="n", marked_at=wall())
    except FenceRefused:
        return "refused"
    return "written"


def written(alias: str) -> list[str]:
    """Return what `write` has left."""
    return sorted(Marker.objects.using(alias).values_list("identity", flat=True))


def run(alias: str, identity: str, nonce: str, result: str | None = '"done"', hold: Callable[[], Any] = int) -> Any:
    """Have an effect in a marked transaction, or find the one that there is."""
    with marked(alias, identity, nonce) as marker:
        if marker.done:
            return ("found", marker.result)
        Fence.objects.using(alias).create(name=f"effect of {nonce}", token=1)
        hold()
        marker.complete(result)
    return ("did", result)


def effects(alias: str) -> list[str]:
    """Return what `run` has left."""
    return sorted(Fence.objects.using(alias).values_list("name", flat=True))
