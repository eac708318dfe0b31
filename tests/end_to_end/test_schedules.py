"""Delays and schedules: what a beat sends is traced and deduplicated like everything else."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from celery_replay.states import Outcome
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage, fresh, references, wait_for
from tests.support.processes import LoggedProcess
from tests.support.workers import ROOT


@pytest.fixture(scope="module")
def stage(make_stage: StageMaker) -> Iterator[Stage]:
    with make_stage("schedule_app", django_settings="tests.django_settings") as lent:
        lent.start(concurrency=2)
        yield lent


def _send(app: Any, task: str, *args: Any, **options: Any) -> str:
    return str(app.signature(task, args).apply_async(**options).id)


@contextmanager
def _beat(stage: Stage, folder: Path, schedule: dict[str, Any], *arguments: str) -> Iterator[LoggedProcess]:
    command = [sys.executable, "-m", "celery", "-A", stage.app, "beat", "--loglevel=INFO", *arguments]
    command += [f"--pidfile={folder / 'beat.pid'}"]
    process = LoggedProcess(command, folder / "beat.log", cwd=ROOT)
    process.launch(stage.process_environment({"beat_schedule": schedule}))
    try:
        yield process
    finally:
        process.kill()


def _every(seconds: float, task: str, *args: Any) -> dict[str, Any]:
    return {"task": task, "schedule": seconds, "args": args}


@pytest.mark.parametrize("how", ["countdown", "eta"])
def test_a_delayed_job_runs_once_and_not_before_its_time(stage: Stage, how: str) -> None:
    name = fresh()
    task_id = stage.web(_send_later, name, how)
    stage.result(task_id)
    stage.settle()
    job = stage.job(task_id=task_id)
    assert job.published_at is not None
    # The delay begins a moment before the message is published.
    assert job.started_at - job.published_at > 800_000
    assert stage.effects(name) == 1


def _send_later(app: Any, name: str, how: str) -> str:
    delay = {"countdown": 1} if how == "countdown" else {"eta": datetime.now(timezone.utc) + timedelta(seconds=1)}
    return _send(app, "tick", name, **delay)


def test_a_job_delayed_beyond_its_messages_timeout_runs_once(stage: Stage) -> None:
    name = fresh()
    # The visibility timeout is three seconds.
    task_id = stage.web(_send, "tick", name, countdown=5)
    deadline = time.monotonic() + 5.5
    while time.monotonic() < deadline:
        stage.web(_restore)
        time.sleep(0.3)
    stage.result(task_id)
    stage.settle()
    assert stage.effects(name) == 1
    assert stage.job(task_id=task_id).attempts == 1


def _restore(app: Any) -> None:
    with app.connection_for_read() as connection:
        connection.default_channel.qos.restore_visible(num=100, interval=1)


def test_delayed_retries_keep_their_number_and_their_deadline(stage: Stage) -> None:
    name, late = references(2)
    kept = stage.web(_send, "flaky", name, 2, 0.3)
    # Its retry comes after the deadline of the whole job.
    expired = stage.web(_send, "flaky", late, 5, 3, expires=1.5)
    assert stage.result(kept) == name
    wait_for(lambda: stage.state(expired) == "REVOKED", "expired")
    assert (stage.effects(name, "tries"), stage.effects(name)) == (3, 1)
    assert (stage.effects(late, "tries"), stage.effects(late)) == (1, 0)


def test_what_beat_sends_runs_and_each_tick_is_a_job_of_its_own(stage: Stage, tmp_path: Path) -> None:
    name = fresh()
    schedule = {"ticks": _every(0.5, "tick", name)}
    with _beat(stage, tmp_path, schedule, f"--schedule={tmp_path / 'schedule'}"):
        wait_for(lambda: stage.effects(name) >= 3, "three ticks")
    _judge_ticks(stage, name)


def _judge_ticks(stage: Stage, name: str) -> None:
    stage.settle()
    jobs = [job for job in stage.jobs() if job.operation == "tick" and job.result == json.dumps(name)]
    assert len(jobs) == stage.effects(name) >= 3
    assert len({job.submission for job in jobs}) == len({job.trace_id for job in jobs}) == len(jobs)
    assert {job.status for job in jobs} == {Outcome.SUCCEEDED}
    # Stamped by the beat, not named by the worker for want of a stamp.
    assert all(job.published_at for job in jobs)
    assert stage.event_names(jobs[0]) == ["published", "received", "started", "succeeded"]


def test_two_beats_that_send_one_intent_have_one_effect(stage: Stage, tmp_path: Path) -> None:
    day, name = references(2)
    schedule = {"daily": _every(0.4, "daily", day), "ticks": _every(0.4, "tick", name)}
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    beats = [_beat(stage, folder, schedule, f"--schedule={folder / 'schedule'}") for folder in folders]
    with beats[0], beats[1]:
        wait_for(lambda: stage.effects(name) >= 5, "both beats at work")
    stage.settle()
    jobs = stage.jobs(key=f"daily:{day}")
    assert stage.effects(day) == 1
    assert len(jobs) >= 4
    assert sorted({str(job.status) for job in jobs}) == ["deduplicated", "succeeded"]


def test_what_the_database_scheduler_sends_runs_and_is_traced(stage: Stage, tmp_path: Path) -> None:
    name, key = references(2)
    stage.web(_periodic, name, key)
    scheduler = "--scheduler=django_celery_beat.schedulers:DatabaseScheduler"
    with _beat(stage, tmp_path, {}, scheduler):
        wait_for(lambda: stage.effects(name) >= 3, "three ticks")
        wait_for(lambda: len(stage.jobs(key=f"daily:{key}")) >= 2, "two sends of one intent")
    stage.web(_no_more)
    _judge_ticks(stage, name)
    assert stage.effects(key) == 1


def _periodic(app: Any, name: str, key: str) -> None:
    from django_celery_beat.models import IntervalSchedule, PeriodicTask

    every, _ = IntervalSchedule.objects.get_or_create(every=500_000, period=IntervalSchedule.MICROSECONDS)
    PeriodicTask.objects.create(name=name, task="tick", interval=every, args=json.dumps([name]))
    PeriodicTask.objects.create(name=key, task="daily", interval=every, args=json.dumps([key]))


def _no_more(app: Any) -> None:
    from django_celery_beat.models import PeriodicTask

    PeriodicTask.objects.all().delete()
