"""Stewards: spawned by workers, revived, led by one, and gone with their parents."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import psutil
import psycopg
import pytest

from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.sending import send
from tests.end_to_end.stage import Stage, fresh, wait_for
from tests.support.processes import LoggedProcess
from tests.support.workers import ROOT, SOURCES, WorkerProcess

READY_S = 60
CELERY = """
from celery.bin.celery import celery
from celery_replay.cli import replay
celery.add_command(replay)
celery()
"""
"""The command `celery`, with ours also where this distribution is not installed."""
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def stage(make_stage: StageMaker) -> Iterator[Stage]:
    """Lend a stage without workers."""
    with make_stage("jobs", settings={"replay_lease_ttl": 2}) as lent:
        yield lent


def _steward(worker: WorkerProcess) -> psutil.Process | None:
    for process in worker.descendants():
        try:
            if "celery_replay.steward" in " ".join(process.cmdline()):
                return process
        except psutil.NoSuchProcess:
            continue
    return None


def _its_steward(worker: WorkerProcess) -> psutil.Process:
    found: psutil.Process = wait_for(lambda: _steward(worker), "steward")
    return found


def _leader(stage: Stage) -> str | None:
    with psycopg.connect(stage.database) as connection:
        row = connection.execute("SELECT nonce FROM django_celery_replay_lead").fetchone()
    return row[0] if row else None


def _watch_leader(stage: Stage, seconds: float) -> set[str | None]:
    seen, deadline = set(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen.add(_leader(stage))
        time.sleep(0.2)
    return seen


def _park_behind_a_dead_owner(stage: Stage) -> str:
    """Leave a parked job behind whose owner's message does not come again: only a steward can free it."""
    reference, queue = fresh(), f"{stage.queue}-{fresh()}"
    dying = stage.start(queue, concurrency=2, settings={"replay_steward": "off"}, ready_timeout_s=READY_S)
    send(stage, "keyed_early_held", reference, queue=queue)
    wait_for(lambda: stage.effects(reference, "begun") == 1, "the owner begins")
    send(stage, "keyed_early_held", reference, queue=queue)
    wait_for(stage.rows, "the other one is parked")
    dying.kill()
    stage.sign(reference)
    stage.start(queue, concurrency=1, settings={"replay_steward": "off"}, ready_timeout_s=READY_S)
    return reference


def test_a_steward_that_died_is_spawned_again_and_leads(stage: Stage) -> None:
    worker = stage.start(ready_timeout_s=READY_S)
    first = _its_steward(worker)
    nonce = wait_for(lambda: _leader(stage), "it leads")
    first.kill()
    wait_for(lambda: _steward(worker) not in (None, first), "another one")
    wait_for(lambda: _leader(stage) != nonce, "the other one leads")
    assert worker.running


def test_a_steward_ends_by_itself_when_its_worker_is_killed(stage: Stage) -> None:
    worker = stage.start(ready_timeout_s=READY_S)
    steward = _its_steward(worker)
    wait_for(lambda: _leader(stage), "it works")
    worker.kill_parent()
    wait_for(lambda: not steward.is_running(), "it is gone", 15)


def test_a_steward_ends_with_its_worker(stage: Stage) -> None:
    worker = stage.start(ready_timeout_s=READY_S)
    steward = _its_steward(worker)
    assert worker.stop(30) == 0
    assert not steward.is_running()


def test_one_of_two_stewards_leads_and_the_other_follows_it(stage: Stage) -> None:
    first = stage.start(ready_timeout_s=READY_S)
    nonce = wait_for(lambda: _leader(stage), "the first one leads")
    stage.start(ready_timeout_s=READY_S)
    assert _watch_leader(stage, 4) == {nonce}
    first.kill()
    wait_for(lambda: _leader(stage) != nonce, "the second one leads")
    reference = _park_behind_a_dead_owner(stage)
    wait_for(lambda: stage.effects(reference), "the parked job is freed")


def test_no_steward_is_spawned_where_none_is_wanted(stage: Stage) -> None:
    worker = stage.start(settings={"replay_steward": "off"}, ready_timeout_s=READY_S)
    assert _steward(worker) is None


def test_a_steward_of_its_own_does_the_work_and_the_embedded_ones_never_lead(stage: Stage) -> None:
    external = {"replay_steward": "external"}
    worker = stage.start(settings=external, ready_timeout_s=READY_S)
    assert _its_steward(worker)
    reference = _park_behind_a_dead_owner(stage)
    assert _watch_leader(stage, 4) == {None}
    assert not stage.effects(reference)
    command = [sys.executable, "-c", CELERY, "-A", stage.app, "replay", "steward"]
    steward = LoggedProcess(command, worker.log_path.with_name("steward.log"), cwd=ROOT)
    steward.launch({**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES), **stage.environment(external)})
    try:
        wait_for(lambda: stage.effects(reference), "the parked job is freed")
        steward.signal(signal.SIGTERM)
        assert steward.wait(20) == 0, steward.log_tail()
    finally:
        steward.kill()
