"""A shop whose store can be filled by hand, and its command line."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from click.testing import CliRunner, Result

from celery_replay import ReplayTask
from celery_replay.cli import replay
from celery_replay.records import Failure
from celery_replay.runtime import use_store
from celery_replay.serialization import pack
from celery_replay.states import Outcome
from celery_replay.stores.base import Store
from celery_replay.stores.memory import MemoryStore
from tests.conformance.callers import closes, runs
from tests.conformance.world import Clock
from tests.rules.builders import delivery


@dataclass
class Shop:
    """An app, its store, and what is typed at its command line."""

    app: Celery
    store: Store
    clock: Clock

    def types(self, line: str, *more: str) -> Result:
        obj = SimpleNamespace(app=self.app)
        result = CliRunner().invoke(replay, [*line.split(), *more], obj=obj, prog_name="replay")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def reads(self, line: str, *more: str) -> list[dict[str, Any]]:
        """Type a line with --json; return its objects."""
        return [json.loads(text) for text in self.types(line, *more, "--json").stdout.splitlines()]

    def fails(self, name: str, payload: bytes = b"", **failure: Any) -> None:
        """Run a job that fails, with a message as it is kept."""
        told = Failure(**{"type": "builtins.ValueError", "message": "no", "frames": ("shop/tasks.py:ship",), **failure})
        job = runs(self.store, name, claim=None, key=f"ship:{name}")
        sent = replace(delivery(name), message=lambda: payload)
        closes(self.store, job, Outcome.FAILED, claim=None, failure=told, delivery=sent)


@pytest.fixture
def shop(tmp_path: Path, empty_memory_broker: None) -> Iterator[Shop]:
    clock = Clock()
    store = MemoryStore(clock)
    with Celery("shop", task_cls=ReplayTask, set_as_current=False, broker="memory://") as app:
        app.conf.update(replay_store="memory://", replay_spool_dir=str(tmp_path / "spool"))
        app.task(ship, name="shop.ship", shared=False)
        use_store(app, store)
        yield Shop(app, store, clock)


def ship(order_id: int, password: str = "") -> None:
    """Do nothing."""


def kept(body: bytes, content_type: str = "application/json", **changes: Any) -> bytes:
    """Pack a message as the parking lot keeps it."""
    return pack(
        {
            "v": 1,
            "headers": {"id": "task", "task": "shop.ship", "argsrepr": "('ann', 'hunter2')", "retries": 0},
            "body": base64.b64encode(body).decode(),
            "content_type": content_type,
            "content_encoding": "utf-8",
            "exchange": "",
            "routing_key": "celery",
            "priority": None,
            "correlation_id": "task",
            "reply_to": None,
            "properties": {},
            **changes,
        }
    )
