"""A worker, its app and its store, with which a test experiments."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery, states
from celery.backends.cache import CacheBackend
from celery.contrib.testing.worker import start_worker

from celery_replay import parking
from celery_replay.clock import Micros, micros, wall
from celery_replay.parent import listeners
from celery_replay.records import Event, Job, Letter
from celery_replay.runtime import reset, runtime_of, use_store
from celery_replay.steward import Steward
from celery_replay.stores.memory import MemoryStore
from celery_replay.trace import timeline
from tests.inprocess.broker import URL, Copy, copies

TIMEOUT_S = 10


class Clock:
    """The store's clock, which a test may put forward."""

    def __init__(self) -> None:
        self.ahead: Micros = 0

    def __call__(self) -> Micros:
        return wall() + self.ahead

    def forward(self, seconds: float) -> None:
        self.ahead += micros(seconds)


class Results(CacheBackend):
    """Celery's own, but a RETRY that is stored late does not hide the FAILURE of the attempt that it was for.

    Whoever waits for such a result waits for ever; a test that is about something else shall not.
    """

    _storing = threading.Lock()

    def _store_result(self, task_id: str, result: Any, state: str, *args: Any, **kwargs: Any) -> Any:
        with self._storing:
            late = state == states.RETRY and self._get_task_meta_for(task_id)["status"] in states.READY_STATES
            return result if late else super()._store_result(task_id, result, state, *args, **kwargs)


def make_app(name: str, **conf: Any) -> Celery:
    backend = f"{__name__}:{Results.__name__}+memory://"
    app = Celery(name, task_cls="celery_replay:ReplayTask", broker=URL, backend=backend, set_as_current=False)
    app.conf.update(
        broker_transport_options={"polling_interval": 0.005},
        task_default_queue=f"{name}-{uuid.uuid4().hex[:8]}",
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        result_serializer="json",
        accept_content=["json", "pickle"],
        result_accept_content=["json", "pickle"],
        replay_store="memory://",
        replay_flush_interval=0.02,
        **conf,
    )
    return app


class Lab:
    """What a test has: its own tasks, a store of its own, and a shared worker."""

    def __init__(self, app: Celery, worker: Any) -> None:
        self.app = app
        self.worker = worker
        self.clock = Clock()
        self.log: list[Any] = []
        """What the test's tasks did, in their order."""
        self._names: list[str] = []
        self._settings: dict[str, Any] = {}
        self.use(MemoryStore(self.clock))

    @property
    def runtime(self) -> Any:
        return runtime_of(self.app)

    @property
    def store(self) -> Any:
        return self.runtime.store

    def use(self, store: Any) -> Any:
        """Begin with another store."""
        use_store(self.app, store)
        steward = listeners.get(self.app)
        if isinstance(steward, Steward):
            # It began with the worker, and the app's runtime may be another one since.
            steward.runtime = self.runtime
        return store

    def configure(self, **settings: Any) -> None:
        """Change settings of ours; the store stays."""
        store = self.store
        for name, value in settings.items():
            self._settings.setdefault(f"replay_{name}", self.app.conf.get(f"replay_{name}"))
            self.app.conf[f"replay_{name}"] = value
        reset(self.app)
        self.use(store)

    def task(self, *, name: str = "", **options: Any) -> Callable[[Callable[..., Any]], Any]:
        """Register a task with the app and the running worker."""

        def register(function: Callable[..., Any]) -> Any:
            full = name or f"lab.{function.__name__}-{uuid.uuid4().hex[:6]}"
            task = self.app.task(function, name=full, shared=False, lazy=False, **options)
            self._names.append(full)
            if self.worker is not None:
                strategies = self.worker.consumer.strategies
                strategies[full] = task.start_strategy(self.app, self.worker.consumer)
            return task

        return register

    def close(self) -> None:
        """Leave the app as it was."""
        self.idle()
        for name, value in self._settings.items():
            self.app.conf[name] = value
        if self._settings:
            reset(self.app)
        self._forget_tasks()

    def _forget_tasks(self) -> None:
        for name in self._names:
            self.app.tasks.pop(name, None)
            if self.worker is not None:
                self.worker.consumer.strategies.pop(name, None)

    # Looking

    def get(self, result: Any, timeout: float = TIMEOUT_S) -> Any:
        """Return a result's value, or raise its error."""
        return result.get(timeout=timeout, interval=0.005, disable_sync_subtasks=False)

    def error(self, result: Any) -> Any:
        """Return the error that a job ended with, or its value."""
        return result.get(timeout=TIMEOUT_S, interval=0.005, propagate=False, disable_sync_subtasks=False)

    def wait(self, condition: Callable[[], Any], what: str = "it") -> Any:
        """Wait until something is so; return it."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            found = condition()
            if found:
                return found
            assert time.monotonic() < deadline, f"{what} did not happen; log: {self.log}"
            time.sleep(0.004)

    def jobs(self, task_id: str) -> list[Job]:
        return list(self.store.find_jobs(task_id=task_id))

    def job(self, task_id: str) -> Job:
        """Return the only job of a task id, once it is there."""
        (job,) = self.wait(lambda: self.jobs(task_id), "the job's record")
        return job

    def settled(self, task_id: str) -> Job:
        """Wait until a job has ended and its canvas was sent on."""
        self.wait(lambda: [job for job in self.jobs(task_id) if job.status.ended and job.canvas_advanced], "its end")
        return self.job(task_id)

    def letter(self, task_id: str) -> Letter | None:
        return self.store.letter(self.job(task_id).submission)

    def letters(self) -> list[Letter]:
        return list(self.store.letters())

    def events(self, task_id: str) -> list[Event]:
        self.runtime.heartbeat.beat()
        return timeline(self.store, self.job(task_id).trace_id)

    def names(self, task_id: str) -> list[str]:
        return [event.name for event in self.events(task_id)]

    def messages(self, task_id: str) -> list[Copy]:
        return copies(task_id)

    # Acting

    def redeliver(self, copy: Copy) -> None:
        with self.app.connection_for_write() as connection:
            copy.deliver(connection)

    def release_due(self) -> int:
        """Do a steward's round: free parked jobs, file lost ones."""
        rows = self.store.release_due()
        parking.dispatch(self.app, self.store, rows, self.runtime.resend_us)
        return len(rows) + self.store.reap()

    def idle(self) -> None:
        """Wait until the queue is empty and nothing runs."""
        from celery.worker import state

        queue = self.app.conf.task_default_queue

        def quiet() -> bool:
            with self.app.connection_for_write() as connection:
                waiting = connection.default_channel._size(queue)
            # A copy that comes when its own test is over, and its task forgotten, never ends.
            here = (*state.active_requests, *state.reserved_requests)
            return not waiting and not any(request.name in self._names for request in here)

        self.wait(quiet, "the end of all work")
        self.runtime.heartbeat.beat()


class Gate:
    """A place in a task's body where a test holds it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()

    def wait(self) -> None:
        self.reached.set()
        assert self._open.wait(TIMEOUT_S), "nobody opened the gate"

    def open(self) -> None:
        self._open.set()

    def await_reached(self) -> None:
        assert self.reached.wait(TIMEOUT_S), "nobody came to the gate"


@contextmanager
def running(app: Celery, pool: str, concurrency: int) -> Iterator[Any]:
    """Run a worker in this process."""
    use_store(app, MemoryStore())
    with start_worker(
        app, pool=pool, concurrency=concurrency, perform_ping_check=False, shutdown_timeout=30, prefetch_multiplier=10
    ) as worker:
        yield worker
