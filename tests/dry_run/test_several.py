"""Several at a time, from one process without threads: a slow one holds up nobody, and nothing is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from celery_replay.dry_run.engine import Begun, NotRunnable
from celery_replay.dry_run.several import run_several
from celery_replay.sandbox import child


class Body:
    """What is begun in place of a dry run: a body in a sandbox."""

    def __init__(self, folder: Path, seconds: float) -> None:
        folder.mkdir()
        self.running = child.start(partial(time.sleep, seconds), folder=folder, timeout_s=60)

    def look(self) -> bool:
        return self.running.look()

    def finish(self) -> Any:
        return self.running.finish()

    def abandon(self) -> None:
        self.running.abandon()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Any]:
    """Return what begins a body that takes so many seconds; a negative number can't be run."""
    process, begun = psutil.Process(), []
    known = {*process.children()}
    # What is opened once is opened by the first.
    child.run(int, folder=tmp_path, timeout_s=60)
    before, threads = process.num_fds(), threading.active_count()

    def begin(seconds: float) -> Begun:
        if seconds < 0:
            raise NotRunnable("it can't be run")
        begun.append(Body(tmp_path / str(len(begun)), seconds))
        return begun[-1]  # type: ignore[no-any-return]

    yield begin
    assert (process.num_fds(), threading.active_count()) == (before, threads)
    assert {*process.children()} <= known


def test_each_comes_when_it_ends_and_a_slow_one_holds_up_nobody(begin: Any) -> None:
    found = [(seconds, ran.ok) for seconds, ran in run_several([3.0, 0.0, 0.1, 0.2], begin, 2)]
    assert found == [(0.0, True), (0.1, True), (0.2, True), (3.0, True)]


def test_no_more_are_begun_than_may_run_at_once(begin: Any) -> None:
    most, others = 0, len(psutil.Process().children())

    def counted(seconds: float) -> Begun:
        nonlocal most
        one: Begun = begin(seconds)
        most = max(most, len(psutil.Process().children()) - others)
        return one

    assert len(list(run_several([0.1] * 7, counted, 3))) == 7
    assert most <= 3


def test_what_can_not_be_begun_is_told_and_the_others_go_on(begin: Any) -> None:
    found = dict(run_several([-1.0, 0.0, -2.0], begin, 1))
    assert (str(found[-1.0]), found[0.0].ok) == ("it can't be run [not-runnable]", True)  # type: ignore[union-attr]
    assert isinstance(found[-2.0], NotRunnable)


def test_whoever_stops_ends_all_that_are_being_done(begin: Any) -> None:
    others = {*psutil.Process().children()}
    results = run_several([0.0, 60.0, 60.0], begin, 3)
    next(results)
    children = {*psutil.Process().children()} - others
    assert len(children) == 2
    results.close()
    assert not any(child.is_running() for child in children)


def test_an_interruption_ends_all_and_none_is_a_zombie(begin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = child.wait

    def interrupted(running: Any) -> None:
        waits(running)
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(run_several([60.0, 60.0], begin, 2))


def test_by_default_there_is_one_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    from celery_replay.dry_run import several

    monkeypatch.setattr(several, "os", SimpleNamespace(sched_getaffinity=lambda _: {0, 2, 5}))
    assert several.cores() == 3
    monkeypatch.setattr(several, "os", SimpleNamespace(cpu_count=lambda: 4))
    assert several.cores() == 4
