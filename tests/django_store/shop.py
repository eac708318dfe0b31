"""An app whose tasks run as attempts in this process, at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery

from celery_replay.records import Event, Job
from celery_replay.runtime import runtime_of
from celery_replay.trace import timeline


class Shop:
    """An app that runs its tasks at once, with a store in memory."""

    def __init__(self) -> None:
        self.app = Celery("shop", task_cls="django_celery_replay:ReplayTask", set_as_current=False)
        self.app.conf.update(task_always_eager=True, replay_eager="record", replay_store="memory://")

    def task(self, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        return self.app.task(shared=False, bind=True, **options)

    @property
    def store(self) -> Any:
        return runtime_of(self.app).store

    def job(self) -> Job:
        """Return the job that was there last."""
        return max(self.store.find_jobs(), key=lambda job: job.started_at)  # type: ignore[no-any-return]

    def events(self) -> dict[str, Event]:
        """Return the events of the last job, by name."""
        runtime_of(self.app).heartbeat.drain()
        return {event.name: event for event in timeline(self.store, self.job().trace_id)}

    def letter(self) -> Any:
        return self.store.letter(self.job().submission)
