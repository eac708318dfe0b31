"""Verdicts are honest: what would happen outside, or can't be known here, is told, and nothing else decides them."""

from __future__ import annotations

import logging
import logging.handlers
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import task_prerun

from celery_replay import ReplayTask, step
from celery_replay.dry_run import engine as engines
from celery_replay.dry_run.comparison import Ends
from celery_replay.dry_run.engine import DryRun, Engine
from celery_replay.dry_run.recording import recording_of
from celery_replay.dry_run.variation import AS_RECORDED, Variation
from celery_replay.runtime import reset, use_store
from celery_replay.stores.memory import MemoryStore

Tried = Callable[..., DryRun]


@step(side_effect=True, key="pay:{which}")
def pay(which: str) -> str:
    raise ConnectionRefusedError(f"bank {which} is down")


@pytest.fixture
def tried() -> Iterator[Tried]:
    """Return what records a job by one body, and runs it by another."""
    apps: list[Celery] = []

    def run(
        then: Callable[[Any], Any], now: Callable[[Any], Any], how: Variation = AS_RECORDED, **options: Any
    ) -> DryRun:
        app = Celery(f"a{len(apps)}", task_cls=ReplayTask, broker="memory://", set_as_current=False)
        app.conf.update(replay_store="memory://", worker_hijack_root_logger=False, result_backend="cache+memory://")
        app.conf.replay_eager = "record"
        apps.append(app)
        store, body = MemoryStore(), [then]
        use_store(app, store)

        @app.task(name="job", bind=True, shared=False, **options)
        def job(self: Any) -> Any:
            return body[0](self)

        @app.task(name="other", shared=False)
        def other() -> None: ...

        # A worker takes its time to end; what is recorded is the same.
        assert job.apply().failed()
        (known,) = store.find_jobs(operation="job", limit=10)
        letter = store.letter(known.submission)
        assert letter is not None
        body[0] = now
        with Engine(app, timeout_s=20) as engine:
            return engine.run(recording_of(store, known, letter.message), how)

    yield run
    for app in apps:
        reset(app)


def fail(_: Any) -> None:
    raise ValueError("then")


def test_a_recorded_failure_belongs_to_its_call(tried: Tried) -> None:
    same = tried(lambda _: pay("a"), lambda _: pay("a"))
    other = tried(lambda _: pay("a"), lambda _: pay("b"))
    assert (same.comparison.ends, other.comparison.ends) == (Ends.SAME, Ends.DIVERGES)
    given = tried(lambda _: pay("a"), lambda _: pay("a"), Variation(stubs={"pay": "paid"}))
    assert (given.comparison.ends, given.found and given.found["result"]) == (Ends.WELL, "paid")


@step(side_effect=True, key="look")
def look() -> None:
    raise KeyError("street")


def test_an_error_that_is_made_again_says_the_same(tried: Tried) -> None:
    assert tried(lambda _: look(), lambda _: look()).comparison.ends is Ends.SAME


def test_a_soft_time_limit_holds(tried: Tried) -> None:
    def slow(_: Any) -> None:
        time.sleep(10)

    def cut_off(_: Any) -> None:
        raise SoftTimeLimitExceeded

    ran = tried(cut_off, slow, soft_time_limit=1)
    assert (ran.comparison.ends, ran.comparison.failure and ran.comparison.failure["type"]) == (
        Ends.SAME,
        "billiard.exceptions.SoftTimeLimitExceeded",
    )


def test_a_hard_time_limit_holds(tried: Tried) -> None:
    ran = tried(fail, lambda _: time.sleep(10), time_limit=1)
    assert (ran.comparison.ends, ran.comparison.said) == (Ends.DIED, "it did not come to an end: killed after 1 s")


def test_whatever_is_sent_is_told(tried: Tried) -> None:
    def send(task: Any) -> None:
        task.app.tasks["other"].delay()
        task.app.control.broadcast("shutdown")
        with task.app.producer_pool.acquire() as producer:
            producer.publish({"a": 1}, exchange="prices", routing_key="eur")

    ran = tried(fail, send)
    assert ran.found is not None
    assert ran.found["published"] == ["other", "a message to celery.pidbox", "a message to prices"]
    assert ran.comparison.ends is Ends.WELL


def test_a_task_that_takes_its_place_is_no_success(tried: Tried) -> None:
    ran = tried(fail, lambda task: task.replace(task.app.tasks["other"].s()))
    assert (ran.comparison.ends, ran.comparison.said) == (
        Ends.RETRIES,
        "another task would take its place, which is not run here",
    )


def test_a_thread_that_outlives_the_body_is_told(tried: Tried) -> None:
    ran = tried(fail, lambda _: threading.Thread(target=time.sleep, args=(30,), name="later", daemon=True).start())
    assert ran.found is not None
    assert ran.found["left_running"] == ["later"]


def test_names_of_this_host_are_no_attempt_to_get_out(tried: Tried) -> None:
    ran = tried(fail, lambda _: f"{socket.getfqdn()} {uuid.uuid1()}")
    assert (ran.comparison.ends, ran.report.blocked) == (Ends.WELL, ())


def test_environment_variables_do_not_lead_out(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "redis://127.0.0.1:1/0"

    def run(task: Any) -> None:
        task.app.tasks["other"].delay()

    def then(task: Any) -> None:
        for name in ("BROKER_URL", "BROKER_READ_URL", "BROKER_WRITE_URL", "RESULT_BACKEND"):
            monkeypatch.setenv(f"CELERY_{name}", nowhere)
        fail(task)

    ran = tried(then, run)
    assert os.environ["CELERY_RESULT_BACKEND"] == nowhere
    assert (ran.comparison.ends, ran.report.blocked) == (Ends.WELL, ())


def test_what_reports_to_others_does_not_decide(tried: Tried) -> None:
    def report(**_: Any) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.sendto(b"job:1|c", ("127.0.0.1", 9))

    handler = logging.handlers.SocketHandler("127.0.0.1", 9)
    logging.getLogger("shop").addHandler(handler)
    task_prerun.connect(report)
    try:
        ran = tried(fail, lambda _: logging.getLogger("shop").error("said"))
    finally:
        task_prerun.disconnect(report)
        logging.getLogger("shop").removeHandler(handler)
    assert (ran.comparison.ends, ran.report.blocked) == (Ends.WELL, ())
    assert ran.report.stderr.text == "said\n"


def test_an_answer_that_is_none_is_not_believed(tried: Tried) -> None:
    def forge(_: Any) -> None:
        for number in range(3, 50):
            for line in (b'{"value": 5}\n', b'{"value": {"outcome": "splendid"}}\n'):
                with suppress(OSError):
                    os.write(number, line)
        os._exit(0)

    assert tried(fail, forge).comparison.ends is Ends.DIED


def test_what_a_killed_run_left_behind_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_MEMORY", tmp_path)
    left, living = tmp_path / "celery-replay-dry-run-4194305-x", tmp_path / f"celery-replay-dry-run-{os.getpid()}-x"
    for folder in (left, living):
        folder.mkdir()
        (folder / "0.sqlite3").touch()
    with Engine(Celery("any", set_as_current=False)):
        assert (left.exists(), living.exists()) == (False, True)
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == [living]
