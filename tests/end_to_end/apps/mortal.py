"""Jobs that can be killed at every moment of their life: one task for each acknowledgement and declaration."""

from __future__ import annotations

import functools
import time
from typing import Any

from celery.backends.redis import RedisBackend
from celery.signals import task_postrun, task_success
from django.db import connection

from celery_replay.attempts import Attempt
from celery_replay.request import ReplayRequest
from tests.end_to_end.apps.killpoints import accepted, reach
from tests.end_to_end.apps.project import EFFECTS_TABLE, exists, make_app, post

ACKNOWLEDGED: dict[str, dict[str, Any]] = {
    "early": {"acks_late": False, "reject_on_worker_lost": False},
    "late": {"acks_late": True, "reject_on_worker_lost": True},
    "late_acks_loss": {"acks_late": True, "reject_on_worker_lost": False},
}
DECLARED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "verify": {
        "on_incomplete": "verify",
        "verify": lambda reference, **_: reference if exists("effects", reference) else None,
    },
    "resume": {"on_incomplete": "resume"},
    "dead_letter": {"on_incomplete": "dead_letter"},
    "atomic": {"atomic": "default"},
}


def _around(method: Any, before: str | None, after: str | None) -> Any:
    @functools.wraps(method)
    def around(attempt: Attempt, *args: Any, **kwargs: Any) -> Any:
        reference = _reference(attempt.task, attempt.args)
        if before and reference:
            reach(before, reference)
        result = method(attempt, *args, **kwargs)
        if after and reference:
            reach(after, reference)
        return result

    return around


def _reference(task: Any, args: Any) -> str:
    return str(args[0]) if task.name.startswith("job.") else ""


# Connected before celery-replay's own receivers, so that the flag is not even noted in memory.
@task_success.connect(weak=False)
def _canvas_is_sent(sender: Any, **_: Any) -> None:
    reference = _reference(sender, sender.request.args)
    if reference:
        reach("canvas", reference)


@task_postrun.connect(weak=False)
def _job_is_over(sender: Any, task: Any, args: Any, **_: Any) -> None:
    reference = _reference(task, args)
    attempt = vars(task.request).get("replay_attempt")
    if reference and attempt is not None:
        attempt.runtime.heartbeat.drain()
        reach("flag", reference)


Attempt.open = _around(Attempt.open, "open", None)  # type: ignore[method-assign]
Attempt.close = _around(Attempt.close, "effect", "close")  # type: ignore[method-assign]


def _count_part(backend: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
    reach("result", str(request.args[0]))
    return _counted(backend, request, *args, **kwargs)


_counted, RedisBackend.on_chord_part_return = RedisBackend.on_chord_part_return, _count_part


class ObservedRequest(ReplayRequest):
    """Tells when the parent has heard from the child that has the job."""

    def on_accepted(self, *args: Any, **kwargs: Any) -> None:
        """Note it, after Celery has."""
        super().on_accepted(*args, **kwargs)
        accepted(str(self.args[0]))


app = make_app("mortal")


def _body(declared: str, task: Any, reference: str, retry: bool) -> str:
    post("runs", reference)
    if retry and not task.request.retries:
        raise task.retry(countdown=0)
    if retry:
        # Celery's Redis backend looks for a SUCCESS and then writes RETRY, in two steps: one that is stored in between
        # is overwritten. Where the job runs at once, as here, that is seldom, but not never.
        time.sleep(0.5)
    if declared == "atomic":
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {EFFECTS_TABLE} (reference) VALUES (%s)", [reference])
    reach("body", reference)
    if declared != "atomic":
        post("effects", reference)
    return reference


def _make(acknowledged: str, declared: str) -> None:
    def job(self: Any, reference: str, retry: bool = False) -> str:
        return _body(declared, self, reference, retry)

    options = {**ACKNOWLEDGED[acknowledged], **DECLARED[declared]}
    if declared not in ("nothing", "atomic"):
        options["idempotency_key"] = "{reference}"
    app.task(bind=True, name=f"job.{acknowledged}.{declared}", Request=ObservedRequest, **options)(job)


for _acknowledged in ACKNOWLEDGED:
    for _declared in DECLARED:
        _make(_acknowledged, _declared)


@app.task(name="witness.callback")
def callback(reference: str) -> None:
    """Count a callback."""
    post("callbacks", reference)


@app.task(name="witness.member")
def member(reference: str) -> str:
    """Be a chord's member that nothing happens to."""
    return reference


@app.task(name="witness.body")
def body(results: list[str], reference: str) -> None:
    """Count a chord's body."""
    assert results == [reference, "member"], results
    post("callbacks", reference)
