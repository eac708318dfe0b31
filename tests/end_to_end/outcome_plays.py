"""How each outcome of the table is brought about."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from celery import chord
from kombu.exceptions import OperationalError

from celery_replay.records import Job, Letter
from celery_replay.runtime import runtime_of
from celery_replay.serialization import unpack
from celery_replay.states import Outcome, Reason
from tests.end_to_end.outcomes import Cell, attempts, canvas, counted
from tests.end_to_end.stage import PATIENCE_S, Stage, fresh, wait_for
from tests.end_to_end.wire import Wire, put, take
from tests.support.remote import Remote
from tests.support.workers import WorkerProcess

LIMIT_S = 1
"""Shorter than what the task `long` takes."""
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "ends well": ("well", {}),
    "exception": ("raising", {}),
    "post-condition that does not hold": ("wrong", {}),
    "soft time limit": ("long", {"soft_time_limit": LIMIT_S}),
    "retries exhausted": ("retrying", {}),
    "autoretry exhausted": ("retrying by itself", {}),
    "Ignore": ("ignoring", {}),
    "replaced": ("replacing", {}),
    "Reject": ("rejecting", {}),
    "Reject with requeue, once": ("giving back once", {}),
    "Reject with requeue, always": ("giving back", {}),
    "hard time limit": ("long", {"time_limit": LIMIT_S}),
    "child killed": ("dying", {}),
    "child killed, once": ("dying once", {}),
    "`sys.exit()`": ("leaving", {}),
    "`MemoryError`": ("out of memory", {}),
    "no memory left": ("hoarding", {}),
    "result that is not JSON": ("returning an object", {}),
    "exception that can't be unpickled": ("raising oddly", {}),
    "the same, given to `retry()`": ("retrying oddly", {}),
    "expired in its queue": ("well", {"expires": 0.001}),
}
"""Task and options, where nothing else has to be done."""
VIOLENT = frozenset(
    {
        "child killed",
        "child killed, once",
        "`sys.exit()`",
        "no memory left",
        "revoked with SIGTERM",
        "revoked with SIGKILL",
    }
)
"""What ends a pool's child."""
BODY = b'[["%s"], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]'
RAW: dict[str, dict[str, Any]] = {
    "unknown task": {"task": "gone.task"},
    "unknown task, message of protocol 1": {
        "body": b'{"task": "gone.task", "id": "%i", "args": ["%s"], "kwargs": {}}', "headers": {},
    },
    "unknown content type": {"body": b"\x00\xff%s", "content_type": "application/x-nobody"},
    "content type that is not accepted": {
        "body": b"\x80\x04K\x05.%s", "content_type": "application/x-python-serialize", "content_encoding": "binary",
    },
    "broken JSON": {"body": b'[["%s"], {'},
    "bytes that are no text": {"body": b"\xff\xfe\x00\x80%s"},
    "JSON nested without end": {"body": b"[" * 100_000 + b'"%s"'},
    "unknown compression": {"more": {"compression": "application/x-nobody"}},
    "broken compression": {"more": {"compression": "application/x-gzip"}},
    "empty body": {"body": b""},
    "body that is a number": {"body": b"5"},
    "body that is a text": {"body": b'"%s"'},
    "body of two parts": {"body": b'[["%s"], {}]'},
    "body that is a mapping": {"body": b'{"reference": "%s"}'},
    "kwargs that are a list": {"body": b'[["%s"], [], {}]'},
    "args that are a number": {"body": b"[5, {}, {}]"},
    "canvas that is a list": {"body": b'[["%s"], {}, [1]]'},
    "no task id": {"headers": {"task": "well, early"}},
    "no headers": {"headers": {}},
    "task name that is a list": {"more": {"task": ["%s"]}},
    "ETA that is no time": {"more": {"eta": "soon"}},
    "ETA beyond all time": {"more": {"eta": "9999-12-31T23:59:59-23:00"}},
    "expiry that is no time": {"more": {"expires": ["soon"]}},
    "time limit that is a number": {"more": {"timelimit": 5}},
    "time limits that are texts": {"more": {"timelimit": ["soon", None]}},
    "time limit beyond all numbers": {"more": {"timelimit": [10**400, None]}},
    "stamps that are a number": {"more": {"stamped_headers": 5}},
    "body that only the parent can read": {"content_type": "application/x-parent"},
}  # fmt: skip
"""Messages as they are on the wire; %s is the reference, %i the task id."""


@dataclass(frozen=True)
class Sent:
    """A job on its way."""

    task_id: str
    reference: str


@dataclass(frozen=True)
class Seen:
    """What became of it."""

    said: tuple[str, str, str, str, str]
    """As the table has it."""
    job: Job | None
    letter: Letter | None


@dataclass(frozen=True)
class Theatre:
    """Where the cells of one pool are played."""

    stage: Stage
    queue: str
    worker: WorkerProcess

    @property
    def web(self) -> Remote:
        """The producer, which all theatres share."""
        return self.stage.web

    def play(self, played: Iterable[Cell]) -> dict[Cell, Sent]:
        """Bring cells about, those first that take a free worker."""
        return {cell: self._play(cell, fresh()) for cell in sorted(played, key=lambda cell: cell.outcome not in PLAYS)}

    def goes_on(self) -> bool:
        """Does its worker still do what it is asked?"""
        ids = [_send(self, "well, late", fresh()) for _ in range(10)]
        return all(wait_for(lambda one=one: self.web(state, one) == "SUCCESS", "a common job") for one in ids)

    def _play(self, cell: Cell, reference: str) -> Sent:
        return Sent(PLAYS.get(cell.outcome, _publish)(self, cell, reference), reference)


def _publish(theatre: Theatre, cell: Cell, reference: str) -> str:
    if cell.outcome in RAW:
        return str(theatre.web(put_raw, theatre.queue, cell.outcome, reference))
    name, options = TASKS[cell.outcome]
    return _send(theatre, f"{name}, {cell.acknowledged}", reference, **options)


def _send(theatre: Theatre, name: str, reference: str, *, old: bool = False, **options: Any) -> str:
    return str(theatre.web(publish, theatre.queue, name, reference, options, old))


def _old_errback(theatre: Theatre, cell: Cell, reference: str) -> str:
    return _send(theatre, "raising, early", reference, old=True)


def _revoked_before(theatre: Theatre, cell: Cell, reference: str) -> str:
    task_id = f"revoked-{reference}"
    theatre.web(revoke, task_id, theatre.worker.hostname)
    return _send(theatre, "well, early", reference, task_id=task_id)


def _revoked_by(name: str) -> Callable[[Theatre, Cell, str], str]:
    def play(theatre: Theatre, cell: Cell, reference: str) -> str:
        task_id = _send(theatre, f"held, {cell.acknowledged}", reference)
        wait_for(lambda: theatre.stage.effects(reference, "begun"), "begun")
        theatre.web(revoke, task_id, theatre.worker.hostname, name)
        return task_id

    return play


def _cold_shutdown(theatre: Theatre, cell: Cell, reference: str) -> str:
    stage, queue = theatre.stage, f"{theatre.queue}-{reference}"
    worker = stage.start(queue, concurrency=1)
    task_id = str(theatre.web(publish, queue, f"held, {cell.acknowledged}", reference, {}, False))
    wait_for(lambda: stage.effects(reference, "begun"), "begun")
    worker.signal(signal.SIGQUIT)
    worker.wait(PATIENCE_S)
    stage.sign(reference)
    stage.start(queue, concurrency=1)
    return task_id


def _deduplicated(theatre: Theatre, cell: Cell, reference: str) -> str:
    """Bring a message again, marked as redelivered, whose task has succeeded as far as Celery knows."""
    source = f"{theatre.queue}-source"
    task_id = str(theatre.web(publish, theatre.queue, f"well, {cell.acknowledged}", reference, {}, False, source))
    (message,) = theatre.web(take, source, 1)
    theatre.web(put, theatre.queue, message)
    wait_for(lambda: theatre.web(state, task_id) == "SUCCESS", "success")
    before = theatre.worker.log().count(task_id)
    theatre.web(put_again, theatre.queue, message)
    wait_for(lambda: theatre.worker.log().count(task_id) > before, "its copy came")
    return task_id


def _not_published(theatre: Theatre, cell: Cell, reference: str) -> str:
    return str(theatre.web(fail_to_publish, reference))


def _eager(theatre: Theatre, cell: Cell, reference: str) -> str:
    return str(theatre.web(run_eagerly, reference))


def _called(theatre: Theatre, cell: Cell, reference: str) -> str:
    theatre.web(call, reference)
    return f"none-{reference}"


PLAYS: Mapping[str, Callable[[Theatre, Cell, str], str]] = {
    "exception, error callback of the old kind": _old_errback,
    "revoked before it began": _revoked_before,
    "revoked with SIGTERM": _revoked_by("SIGTERM"),
    "revoked with SIGKILL": _revoked_by("SIGKILL"),
    "cold shutdown": _cold_shutdown,
    "copy of a success, skipped by Celery": _deduplicated,
    "publishing fails": _not_published,
    "eager call": _eager,
    "direct call": _called,
}
"""What takes more than to publish a task."""


# What runs in the producer


def publish(
    app: Any, queue: str, name: str, reference: str, options: Mapping[str, Any], old: bool, source: str = ""
) -> str:
    """Publish a task with a callback and an error callback, as a member of a chord."""

    def to_queue(task: str, *, immutable: bool = False, **kwargs: Any) -> Any:
        return app.signature(task, kwargs=kwargs, immutable=immutable).set(queue=queue)

    member = app.signature(name, (reference,)).set(queue=source or queue, **options)
    member.link(to_queue("link", reference=reference))
    member.link_error(to_queue("old errback" if old else "errback", immutable=not old, reference=reference))
    body = to_queue("body", reference=reference)
    body.link_error(to_queue("chord failed", immutable=True, reference=reference))
    made = chord([member, to_queue("other")], body, app=app).apply_async()
    return str(made.parent.results[0].id)


def put_raw(app: Any, queue: str, name: str, reference: str) -> str:
    """Put a message on a queue that no task can be made of."""
    task_id, wire = raw_wire(name, reference)
    put(app, queue, wire)
    return task_id


def raw_wire(name: str, reference: str) -> tuple[str, Wire]:
    """Make such a message, and its task id."""
    kind = RAW[name]
    task_id = f"raw-{reference}"
    headers = {"lang": "py", "id": task_id, "task": kind.get("task", "well, early"), "root_id": task_id, "retries": 0}
    told = {**kind.get("headers", headers), **kind.get("more", {})}
    body = kind.get("body", BODY).replace(b"%s", reference.encode()).replace(b"%i", task_id.encode())
    names = ("content_type", "content_encoding")
    return task_id, Wire(body, told, **{key: kind[key] for key in names if key in kind})


def put_again(app: Any, queue: str, wire: Wire) -> None:
    """Put a message on a Redis queue as its broker does that brings it again."""
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        put(app, f"{queue}-again", wire)
        (text,) = channel.client.lrange(f"{queue}-again", 0, 0)
        channel.client.delete(f"{queue}-again")
        again = json.loads(text)
        again["properties"]["delivery_info"]["redelivered"] = True
        channel.client.lpush(queue, json.dumps(again))


def state(app: Any, task_id: str) -> str:
    """Return what Celery's result backend says."""
    return str(app.AsyncResult(task_id).state)


def revoke(app: Any, task_id: str, worker: str, name: str = "") -> None:
    """Revoke a task; with a signal's name, in its body."""
    more = {"terminate": True, "signal": name} if name else {}
    app.control.revoke(task_id, destination=[worker], reply=True, limit=1, timeout=PATIENCE_S, **more)


def fail_to_publish(app: Any, reference: str) -> str:
    """Publish to a broker that is not there."""
    task_id = f"unsent-{reference}"
    nowhere = app.connection_for_write(url="redis://127.0.0.1:1/0")
    try:
        app.tasks["well, early"].apply_async((reference,), task_id=task_id, connection=nowhere, retry=False)
    except OperationalError:
        return task_id
    raise AssertionError("it was published")


def run_eagerly(app: Any, reference: str) -> str:
    """Fail at once, here."""
    return str(app.tasks["raising, early"].apply((reference,)).id)


def call(app: Any, reference: str) -> None:
    """Call a task as a function."""
    assert app.tasks["well, early"](reference) == reference


def seen(app: Any, sent: Mapping[Cell, Sent], effects: Mapping[tuple[str, str], int]) -> dict[Cell, Seen]:
    """Look at what became of jobs."""
    store = runtime_of(app).store
    letters = {letter.submission: letter for letter in store.letters(limit=100_000)}
    bodies = [letter for letter in letters.values() if letter.reason is Reason.CHORD_FAILED]
    by_id: dict[str, list[Job]] = {}
    for job in store.find_jobs(limit=100_000):
        # Without an id, a message is known by its body alone.
        letter = letters.get(job.submission)
        by_id.setdefault(job.task_id or unpacked(letter).decode(errors="replace"), []).append(job)

    def look(one: Sent) -> Seen:
        jobs = by_id.get(one.task_id) or [
            job for text, found in by_id.items() if one.reference in text for job in found
        ]
        assert len(jobs) <= 1, jobs
        own = {path[1:]: count for (path, reference), count in effects.items() if reference == one.reference}
        body = counted([_told(letter) for letter in bodies if one.reference.encode() in unpacked(letter)])
        if not jobs:
            return Seen(("", "", "", canvas(own), body), None, None)
        job = jobs[0]
        ended = [str(attempt.outcome) for attempt in store.attempts(job.submission)]
        letter = letters.get(job.submission)
        return Seen((attempts(ended), _status(job), _told(letter), canvas(own), body), job, letter)

    return {cell: look(one) for cell, one in sent.items()}


def _status(job: Job) -> str:
    lost = job.status is Outcome.SUCCEEDED and job.failure
    return "succeeded, result lost" if lost else str(job.status)


def unpacked(letter: Letter | None) -> bytes:
    """Return the body of a letter's message."""
    return base64.b64decode(unpack(letter.message)["body"]) if letter and letter.message else b""


def _told(letter: Letter | None) -> str:
    # One that was cut off may have filed itself before its parent knew better; that letter has resolved itself.
    return str(letter.reason) if letter is not None and letter.state.unresolved else ""
