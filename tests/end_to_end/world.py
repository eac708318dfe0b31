"""A test's surroundings: its broker, its database, its counting server, a producer, and workers of one app."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from celery import Celery
from celery_replay import extension
from django_celery_replay.store import DjangoStore

from tests.support.counting_server import CountingServer
from tests.support.django_stores import make_django_store
from tests.support.workers import WorkerProcess, Workers

READY_TIMEOUT_S = 90
APPS = "tests.end_to_end.apps."


class World:
    """What a test acts on, and what it may judge by."""

    def __init__(
        self, app: str, workers: Workers, folder: Path, *, broker: str, backend: str, database: str, target: CountingServer
    ) -> None:
        self.app = APPS + app
        self.kills = folder / "kills"
        self.kills.mkdir()
        self.spool = folder / "spool"
        self.target = target
        self.database = database
        self.broker = broker
        self.store: DjangoStore = make_django_store(database)
        self.producer = Celery("producer", broker=broker, backend=backend, set_as_current=False)
        self._workers = workers
        self._backend = backend

    def start(
        self,
        *queues: str,
        settings: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> WorkerProcess:
        """Start a worker.

        Args:
            queues: those that it consumes.
            settings: Celery settings in which it differs from the others.
            env: added to its environment.
            options: those of `WorkerOptions`.
        """
        return self._workers.start(
            self.app,
            queues=queues,
            broker_url=self.broker,
            result_backend=self._backend,
            env={**self.environment(settings), **(env or {})},
            ready_timeout_s=READY_TIMEOUT_S,
            **options,
        )

    def environment(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Return what a process of the app needs to know."""
        return {
            "REPLAY_DJANGO_DATABASE_URL": self.database,
            "REPLAY_TEST_TARGET": self.target.url,
            "REPLAY_TEST_KILLS": str(self.kills),
            "REPLAY_TEST_SETTINGS": json.dumps({"replay_spool_dir": str(self.spool), **(settings or {})}),
        }

    def send(self, task: str, *args: Any, queue: str, **options: Any) -> Any:
        """Publish a job, as a producer with celery-replay installed does."""
        return self.producer.send_task(task, args, queue=queue, **options)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement in the database of the app."""
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def effects(self, reference: str, what: str = "effects") -> int:
        """Count what reached the target."""
        return self.target.effects(f"/{what}", reference)


@contextmanager
def world(*args: Any, **kwargs: Any) -> Iterator[World]:
    """Lend a world whose producer stamps its messages."""
    lent = World(*args, **kwargs)
    extension.install(lent.producer)
    try:
        yield lent
    finally:
        extension.uninstall(lent.producer)
        lent.producer.close()
        lent.store.close_connections()
