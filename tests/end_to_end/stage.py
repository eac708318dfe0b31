"""Workers and a producer of one app that many tests share: a database, queues and an effect counter of their own."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from celery import states

from celery_replay.records import Event, Job, Letter, Row
from celery_replay.runtime import runtime_of
from celery_replay.serialization import result_value
from celery_replay.states import LetterState, Outcome
from celery_replay.trace import timeline
from tests.support import project_database
from tests.support.counting_server import CountingServer
from tests.support.remote import Remote
from tests.support.workers import SOURCES, WorkerProcess, Workers, worker_pool

APPS = "tests.end_to_end.apps."
TWO_FILES = APPS + "two_files"
PATIENCE_S = 40.0
"""How long a test waits for what has to come; the machine may be busy."""
_OVER = (Outcome.LOST,)


class Stage:
    """One app's worker and producer, and what a test may judge by.

    The producer is a process of its own: `stage.web(function, …)` calls `function(app, …)` there.
    """

    def __init__(
        self,
        app: str,
        folder: Path,
        workers: Workers,
        *,
        broker: str,
        backend: str,
        database: str,
        target: CountingServer,
        settings: Mapping[str, Any] | None = None,
        django_settings: str = "tests.worker_settings",
    ) -> None:
        self._django_settings = django_settings
        self.app = APPS + app
        self.queue = f"stage-{uuid.uuid4().hex[:10]}"
        self.database = database
        self.broker = broker
        self.backend = backend
        self.target = target
        self.settings = {
            "task_default_queue": self.queue,
            "worker_enable_remote_control": True,
            "replay_spool_dir": str(folder / "spool"),
            "replay_lease_ttl": 10,
            **(settings or {}),
        }
        self._folder = folder
        self.workers = workers
        self._remotes: list[Remote] = []
        self.web = self.producer()

    def producer(self, app: str = "", **settings: Any) -> Remote:
        """Start another producer process; it ends with the stage."""
        made = Remote(APPS + app if app else self.app, self.environment(settings), self._folder)
        self._remotes.append(made)
        return made

    def environment(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Return what a process of the app needs to know."""
        return {
            "DJANGO_SETTINGS_MODULE": self._django_settings,
            "CELERY_BROKER_URL": self.broker,
            "CELERY_RESULT_BACKEND": self.backend,
            "REPLAY_DJANGO_DATABASE_URL": self.database,
            "REPLAY_TEST_TARGET": self.target.url,
            "REPLAY_TEST_SETTINGS": json.dumps({**self.settings, **(settings or {})}),
        }

    def process_environment(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        """Return the whole environment of a process of the app."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES), "C_FORCE_ROOT": "1", **self.environment(settings)}

    def start(
        self, *queues: str, app: str = "", settings: Mapping[str, Any] | None = None, **options: Any
    ) -> WorkerProcess:
        """Start a worker; the options are those of `WorkerOptions`."""
        options["env"] = {**self.environment(settings), **options.get("env", {})}
        return self.workers.start(APPS + app if app else self.app, queues=queues, **options)

    def close(self) -> None:
        """End the producers."""
        for remote in self._remotes:
            remote.close()

    def log_tails(self) -> Iterator[tuple[str, str]]:
        """Yield a title and the last lines of each process's log."""
        yield from self.workers.log_tails()
        for remote in self._remotes:
            yield "log of a producer", remote.process.log_tail()

    # What a test judges by

    def effects(self, reference: str, what: str = "done") -> int:
        """Count an effect, at the place where it happened."""
        return self.target.effects(f"/{what}", reference)

    def sign(self, reference: str) -> None:
        """Let a task go on that waits for it."""
        self.target.take_effect("/sign", reference)

    def state(self, task_id: str) -> str:
        """Return what Celery's result backend says."""
        return str(self.web(_state, task_id))

    def result(self, task_id: str, patience_s: float = PATIENCE_S) -> Any:
        """Wait for a task's result and return it; an error is returned as its text."""
        return self.web(_result, task_id, patience_s)

    def settle(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until nothing more will happen by itself: queues empty, nobody parked, every canvas sent on.

        Raises:
            TimeoutError: something is still going on, or waits for ever; the message says what.
        """
        deadline = time.monotonic() + patience_s
        quiet = 0
        while quiet < 2:
            left = self.web(_unsettled, self.queue)
            quiet = 0 if left else quiet + 1
            if time.monotonic() > deadline:
                raise TimeoutError(f"never at rest: {left}")
            time.sleep(0.15)

    def jobs(self, **wanted: str) -> list[Job]:
        """Return stored jobs by task id, key or trace."""
        found: list[Job] = self.web(_jobs, wanted)
        return found

    def job(self, **wanted: str) -> Job:
        """Return the one job that there is."""
        (found,) = self.jobs(**wanted)
        return found

    def canvas_advanced(self, result: str) -> bool:
        """Has the job with this text as its result sent its canvas on, as far as the store knows?"""
        return any(job.canvas_advanced for job in self.jobs() if job.result == json.dumps(result))

    def rows(self) -> list[Row]:
        """Return what is parked."""
        found: list[Row] = self.web(_rows)
        return found

    def letters(self, task_id: str) -> list[Letter]:
        """Return the open dead letters of a task."""
        return [letter for letter in self.all_letters() if letter.task_id == task_id]

    def all_letters(self) -> list[Letter]:
        """Return all open dead letters."""
        found: list[Letter] = self.web(_letters)
        return found

    def events(self, job: Job) -> list[Event]:
        """Return a job's trace."""
        found: list[Event] = self.web(_events, job.trace_id)
        return found

    def event_names(self, job: Job) -> list[str]:
        """Return the names of a job's events, in their order."""
        return [event.name for event in self.events(job)]

    def story(self, *told: Job) -> str:
        """Tell all that is known of jobs and of those that they caused, for the report of a failure."""
        names = {job.submission for job in told}
        every = [*told, *(job for job in self.jobs() if job.causation_id in names)]
        return "\n".join(str(one) for job in every for one in ("", job, *self.events(job)))


def wait_for(condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Poll until the condition holds, and return what it returned."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {patience_s:g} s; last: {value!r}")
        time.sleep(0.05)


@contextmanager
def stage(app: str, folder: Path, *, admin_dsn: str, template: str, **options: Any) -> Iterator[Stage]:
    """Lend a stage with a database copied from `template`.

    Args:
        app: the module below `tests.end_to_end.apps`.
        options: those of `Stage`; a `database` that is given is new.
    """
    with ExitStack() as stack:
        database = options.pop("database", None)
        if database is None:
            database = project_database.copied(admin_dsn, template, stack)
        elif database.startswith("sqlite"):
            options["django_settings"] = TWO_FILES
            project_database.migrate(database, TWO_FILES, "replay")
        else:
            project_database.migrate(database, "tests.worker_settings")
        target = stack.enter_context(CountingServer())
        workers = stack.enter_context(worker_pool(folder))
        lent = Stage(app, folder, workers, database=database, target=target, **options)
        stack.callback(lent.close)
        yield lent


def fresh() -> str:
    """Return a reference that no other test has."""
    return uuid.uuid4().hex[:12]


def references(count: int) -> Sequence[str]:
    """Return several references that no other test has."""
    return [fresh() for _ in range(count)]


# What runs in the producer


def _state(app: Any, task_id: str) -> str:
    return str(app.AsyncResult(task_id).state)


def _result(app: Any, task_id: str, patience_s: float) -> Any:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        found = app.AsyncResult(task_id)
        if found.ready():
            return repr(found.result) if isinstance(found.result, BaseException) else found.result
        time.sleep(0.03)
    # A stock backend may get the RETRY of an earlier attempt after the end of the last one, and keeps that.
    for job in runtime_of(app).store.find_jobs(task_id=task_id) if found.state == states.RETRY else ():
        if job.status is Outcome.SUCCEEDED and job.result is not None:
            return result_value(job.result)
    raise TimeoutError(f"{task_id}: no result; jobs: {runtime_of(app).store.find_jobs(task_id=task_id)}")


def _jobs(app: Any, wanted: Mapping[str, str]) -> list[Job]:
    return list(runtime_of(app).store.find_jobs(**wanted, limit=100_000))


def _rows(app: Any) -> list[Row]:
    return list(runtime_of(app).store.rows(limit=10_000))


def _letters(app: Any) -> list[Letter]:
    return [letter for letter in runtime_of(app).store.letters(limit=10_000) if letter.state is LetterState.OPEN]


def _events(app: Any, trace_id: str) -> list[Event]:
    return timeline(runtime_of(app).store, trace_id)


def _unsettled(app: Any, queue: str) -> list[str]:
    waiting = _waiting(app, queue)
    store = runtime_of(app).store
    left = [f"{waiting} messages"] if waiting else []
    left += [f"{row.operation} {row.status} behind {row.subject} ({row.reason})" for row in store.rows()]
    for job in store.find_jobs(limit=100_000):
        if job.status not in _OVER and not (job.status.ended and (job.canvas_advanced or job.canvas_unknown)):
            left.append(f"{job.operation} {job.status} {job.task_id} canvas advanced: {job.canvas_advanced}")
    return left


def _waiting(app: Any, queue: str) -> int:
    with app.connection_for_read() as connection:
        try:
            return int(connection.default_channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:
            # Virtual transports know a queue by its messages.
            return 0
