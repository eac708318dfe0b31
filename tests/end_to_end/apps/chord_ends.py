"""Chords whose last member can be killed at every moment of the chord's end."""

from __future__ import annotations

import functools
import time
from typing import Any

from celery import current_task
from celery.signals import task_failure, task_postrun, task_success

from tests.end_to_end.apps.killpoints import reach
from tests.end_to_end.apps.observed import ObservedRequest
from tests.end_to_end.apps.project import exists, make_app, post


def _name() -> str:
    """Name the member that runs here."""
    running = current_task
    return str(running.request.args[0]) if running and running.name == "member" else ""


# Connected before celery-replay's own receivers, so that the flag is not even noted in memory.
@task_success.connect(weak=False)
@task_failure.connect(weak=False)
def _canvas_is_sent(**_: Any) -> None:
    name = _name()
    if name:
        post("counted", name)
        reach("flag", name)


@task_postrun.connect(weak=False)
def _job_is_over(task: Any, **_: Any) -> None:
    name = _name()
    attempt = vars(task.request).get("replay_attempt")
    if name and attempt is not None:
        attempt.runtime.heartbeat.drain()
        reach("ack", name)


app = make_app("chord_ends")


# Its tables are Django's, which `make_app` has set up.
from django_celery_replay.results import DatabaseBackend  # noqa: E402


def _around(method: str, before: str = "", after: str = "") -> None:
    original = getattr(DatabaseBackend, method)

    @functools.wraps(original)
    def around(*args: Any, **kwargs: Any) -> Any:
        name = _name()
        if before and name:
            reach(before, name)
        result = original(*args, **kwargs)
        if after and name:
            post(after, name)
            reach(after, name)
        return result

    setattr(DatabaseBackend, method, around)


_around("_store_result", before="store", after="stored")
_around("on_chord_part_return", before="count")
_around("_send", before="publish", after="delete")
_around("_fail", before="fail", after="failed")
_around("_tell_outer_chords", before="tell", after="told")


def _look_at_another_chord(backend: Any, chord_id: str, *args: Any) -> None:
    name = _name()
    if name and chord_id != current_task.request.group:
        reach("look", name)
    _look(backend, chord_id, *args)


_look, DatabaseBackend._end_if_complete = DatabaseBackend._end_if_complete, _look_at_another_chord


@app.task(name="member", acks_late=True, reject_on_worker_lost=True, Request=ObservedRequest)
def member(name: str, others: list[str], fails: bool = False, when: str = "counted") -> str:
    """Be a chord's member that ends when the others have been counted, or only stored."""
    while not all(exists(when, other) for other in others):
        time.sleep(0.05)
    post("ran", name)
    if fails:
        raise ValueError(name)
    return name


@app.task(name="at")
def at(name: str, moment: float) -> str:
    """Be a chord's member that ends at a moment."""
    time.sleep(max(0, moment - time.time()))
    return name


@app.task(name="gather")
def gather(values: list[str], names: list[str], reference: str) -> str:
    """Be a chord's body."""
    assert values == names, (values, names)
    post("done", reference)
    return reference


@app.task(name="after")
def after(previous: Any, reference: str) -> Any:
    """Come after a body."""
    post("done", reference)
    return previous


@app.task(name="failed")
def failed(request: Any, error: Any, traceback: Any, reference: str) -> None:
    """Be an errback that Celery calls on the spot."""
    post("failed", reference)
