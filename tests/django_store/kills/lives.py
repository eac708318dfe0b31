"""Runs jobs with `atomic=` in children of its own, each killed at its moment, and says what is left.

A process of its own, which opens no connection: each child opens those that it needs. It reads a plan from its input
and writes JSON: for each job what was found after each of its deaths, and in the end.

A moment is the number of a call or return of Python's, or of a C function's, counted from OPEN on: so a job dies at the
same place again when its plan is run again. Between a statement that the server has got and its answer there is no such
moment; what the server does after a death is the same for all of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from celery import Celery
from celery.app.trace import build_tracer
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from celery_replay import clock
from celery_replay.attempts import Attempt
from celery_replay.runtime import runtime_of, use_store
from celery_replay.stores.base import Store
from celery_replay.stores.memory import MemoryStore
from celery_replay.stores.redis.store import RedisStore
from django_celery_replay.store import DjangoStore
from tests.support.database_urls import django_database

EFFECTS = "tests_kills"
"""The business table."""
PREFIX = f"kills-{os.getpid()}"
HOUR = 3_600 * clock.SECOND
"""How far the store's clock goes between two deliveries: nobody waits for a lease to lapse."""
TOGETHER = 4
NEAR = 60
"""So close to a COMMIT dies half of those that are killed."""

app = Celery("kills", task_cls="django_celery_replay:ReplayTask", broker="memory://", set_as_current=False)
app.conf.update(task_ignore_result=True, replay_store="memory://", replay_flush_interval=0.05, replay_poison_cap=50)


def declare(name: str, aliases: list[str]) -> None:
    """Register the task of one kind of job."""

    def pay(self: Any, reference: str) -> str:
        for alias in aliases:
            if alias not in self.attempt.committed:
                with connections[alias].cursor() as cursor:
                    cursor.execute(f"INSERT INTO {EFFECTS} (reference) VALUES (%s)", [reference])
        return reference

    app.task(pay, name=name, bind=True, lazy=False, shared=False, idempotency_key="pay:{reference}", atomic=aliases)


class Life:
    """Counts what one delivery does from OPEN on, and ends its process at the moment that the plan names."""

    def __init__(self, dies_at: int) -> None:
        self.count = 0
        self.commits: list[int] = []
        self._dies_at = dies_at
        self._began = False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if not self._began:
            self._began = event == "call" and frame.f_code is Attempt.open.__code__
            return
        self.count += 1
        if event == "call" and frame.f_code is BaseDatabaseWrapper._commit.__code__:
            self.commits.append(self.count)
        if self.count == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


def deliver(kind: dict[str, Any], reference: str, round_: int, dies_at: int) -> dict[str, Any]:
    """Run one delivery from OPEN to its acknowledgement."""
    use_store(app, _ledger(kind["ledger"], lambda: clock.wall() + round_ * HOUR))
    trace = build_tracer(kind["name"], app.tasks[kind["name"]], app=app)
    life = Life(dies_at)
    sys.setprofile(life)
    outcome = trace(reference, (reference,), {}, _request(kind["name"], reference, redelivered=round_ > 0))
    sys.setprofile(None)
    runtime_of(app).heartbeat.drain()
    jobs = runtime_of(app).store.find_jobs(key=f"pay:{reference}")
    return {
        "count": life.count,
        "commits": life.commits,
        "result": outcome[0] if isinstance(outcome[0], str) else None,
        "error": repr(outcome[1]) if outcome[1] is not None and outcome[1].state == "FAILURE" else None,
        "jobs": [str(job.status) for job in jobs],
    }


def _ledger(place: str | None, now: Callable[[], clock.Micros]) -> Store:
    if place is None:
        return MemoryStore(now=now)
    return RedisStore(place, prefix=PREFIX, now=now) if "://" in place else DjangoStore(place, now=now)


def _request(task: str, reference: str, *, redelivered: bool) -> dict[str, Any]:
    names = ("args", "kwargs", "callbacks", "errbacks", "chain", "chord", "reply_to", "expires", "eta")
    return {
        **dict.fromkeys(names),
        "id": reference,
        "root_id": reference,
        "correlation_id": reference,
        "task": task,
        "lang": "py",
        "retries": 0,
        "is_eager": False,
        "hostname": "kills@localhost",
        "content_type": "application/json",
        "delivery_info": {"exchange": "", "routing_key": "celery", "priority": 0, "redelivered": redelivered},
        "celery_replay": {"v": 1, "s": reference, "t": reference, "a": clock.wall()},
    }


def look(plan: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    """Count, for each job and database, its effects and its markers, both in one statement."""
    found: dict[str, dict[str, list[int]]] = {reference: {} for reference in plan["jobs"]}
    for kind in plan["kinds"].values():
        own = [reference for reference, job in plan["jobs"].items() if job["kind"] == kind["name"]]
        for alias in kind["aliases"]:
            with connections[alias].cursor() as cursor:
                for reference in own:
                    cursor.execute(
                        f"SELECT (SELECT count(*) FROM {EFFECTS} WHERE reference = %s),"
                        " (SELECT count(*) FROM django_celery_replay_marker WHERE result = %s)",
                        [reference, json.dumps(reference)],
                    )
                    found[reference][alias] = list(cursor.fetchone())
    return found


def start(work: Callable[[], Any]) -> tuple[int, int]:
    """Do something in a child; return its process id, and where its answer comes."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        # Threads and processes that may outlive this one must not keep the pipe.
        answer = json.dumps(work()).encode()
        os.write(writing, answer)
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(1)
    os._exit(0)


def answer_of(pid: int, reading: int) -> Any:
    """Wait for a child; None where it was killed."""
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    if status:
        raise RuntimeError(f"a child ended with {status}")
    return json.loads(text)


def moment(fraction: list[Any], measured: dict[str, Any]) -> int:
    """Turn a share of a whole life into the number of a call."""
    where, share = fraction
    if where == "anywhere":
        return 1 + int(share * measured["count"])
    commits = measured["commits"]
    middle = commits[int(share * len(commits))]
    offset = int((share * len(commits)) % 1 * 2 * NEAR) - NEAR
    return max(1, middle + offset)


def run(plan: dict[str, Any]) -> dict[str, Any]:
    """Run all jobs, round by round, until each has lived to its acknowledgement."""
    measured = {
        name: answer_of(*start(lambda kind=kind, name=name: deliver(kind, f"measured {name}", 0, 0)))
        for name, kind in plan["kinds"].items()
    }
    told: dict[str, dict[str, Any]] = {reference: {"found": [], "killed": 0} for reference in plan["jobs"]}
    for round_ in range(plan["rounds"]):
        waiting = [reference for reference in plan["jobs"] if "end" not in told[reference]]
        while waiting:
            batch, waiting = waiting[:TOGETHER], waiting[TOGETHER:]
            children = {reference: start(_life(plan, reference, round_, measured)) for reference in batch}
            for reference, child in children.items():
                end = answer_of(*child)
                if end is None:
                    told[reference]["killed"] += 1
                else:
                    told[reference]["end"] = end
        for reference, counts in answer_of(*start(lambda: look(plan))).items():
            told[reference]["found"].append(counts)
    return {"jobs": told, "measured": measured}


def _life(plan: dict[str, Any], reference: str, round_: int, measured: dict[str, Any]) -> Callable[[], Any]:
    job = plan["jobs"][reference]
    kind, deaths = plan["kinds"][job["kind"]], job["deaths"]
    dies_at = moment(deaths[round_], measured[job["kind"]]) if round_ < len(deaths) else 0
    return lambda: deliver(kind, reference, round_, dies_at)


def main() -> None:
    """Run the plan that comes in."""
    plan = json.load(sys.stdin)
    entries = {alias: django_database(url) for alias, url in plan["databases"].items()}
    connections.configure_settings({DEFAULT_DB_ALIAS: {}, **entries})
    connections.settings.update(entries)
    # Imported once, and nothing is opened: imports are not what a job shall die in.
    assert app.backend
    assert all(connections[alias].vendor for alias in entries)
    for name, kind in plan["kinds"].items():
        declare(name, kind["aliases"])
    json.dump(run(plan), sys.stdout)
