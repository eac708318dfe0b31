"""Dead letters of workers that really died, triaged by both command lines."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from celery_replay.records import Letter
from celery_replay.states import Outcome
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.sending import send
from tests.end_to_end.stage import Stage, fresh, references, wait_for
from tests.support.workers import ROOT

pytestmark = pytest.mark.timeout(300)
ENTRY_POINTS = {
    "celery": ["-m", "celery", "-A", "{app}", "replay"],
    "manage.py": ["-m", "django", "celery_replay", "-A", "{app}:app"],
}


@pytest.fixture(scope="module")
def stage(make_stage: StageMaker) -> Iterator[Stage]:
    """Lend a stage with a worker, whose steward leads."""
    with make_stage("jobs", settings={"replay_lease_ttl": 2}) as lent:
        lent.start(concurrency=2, ready_timeout_s=60)
        yield lent


class Typist:
    """Types at one of the two command lines."""

    def __init__(self, stage: Stage, entry: str) -> None:
        self._stage = stage
        self._command = [sys.executable, *(part.format(app=stage.app) for part in ENTRY_POINTS[entry])]

    def types(self, line: str, *more: str, code: int = 0) -> str:
        done = subprocess.run(
            [*self._command, *line.split(), *more],
            cwd=ROOT,
            env=self._stage.process_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def answers(self, line: str, answer: str) -> tuple[int, str]:
        """Type a line at a terminal, and an answer where it asks; return the exit code and what stood there."""
        terminal, end = pty.openpty()
        environment = {**self._stage.process_environment(), "COLUMNS": "200", "TERM": "xterm"}
        process = subprocess.Popen(
            [*self._command, *line.split()], cwd=ROOT, env=environment, stdin=end, stdout=end, stderr=end
        )
        os.close(end)
        shown = b""
        while True:
            try:
                shown += os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            if answer and shown.rstrip().endswith(b"[y/N]:"):
                os.write(terminal, f"{answer}\n".encode())
                answer = ""
        os.close(terminal)
        return process.wait(timeout=60), shown.decode()

    def reads(self, line: str, *more: str, code: int = 0) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self.types(line, *more, "--json", code=code).splitlines()]


@pytest.fixture(params=ENTRY_POINTS)
def typist(request: pytest.FixtureRequest, stage: Stage) -> Typist:
    """Lend a typist at each command line."""
    return Typist(stage, request.param)


def letter_of(stage: Stage, task_id: str) -> Letter:
    (letter,) = wait_for(lambda: stage.letters(task_id), "letter")
    return letter


def test_a_job_that_killed_its_worker_is_found_mended_and_replayed(stage: Stage, typist: Typist) -> None:
    reference = fresh()
    letter = letter_of(stage, send(stage, "fatal", reference))

    groups = [group for group in typist.reads("dlq groups --task fatal") if group["newest"] == letter.submission]
    assert [(group["reason"], group["unresolved"]) for group in groups] == [("worker_lost", 1)]
    (shown,) = typist.reads(f"dlq show {letter.task_id}")
    assert (shown["effect"], shown["evidence"]["safe_to_replay"]) == ("unknown", False)
    typist.types(f"dlq edit {letter.submission} --set dies=false --because", "it need not die")
    (left,) = typist.reads(f"dlq replay {letter.submission} --because x --yes", code=4)
    assert left["hindrance"] == "effect_unknown"
    (ended,) = typist.reads(f"dlq replay {letter.submission} --because seen --yes --wait --include-unknown 1")

    assert ended["verdict"] == "resolved"
    assert stage.result(ended["task_id"]) == reference
    assert stage.effects(reference) == 1
    assert stage.job(task_id=ended["task_id"]).original == letter.submission
    assert typist.types(f"dlq show {letter.task_id}").count("resolved") >= 1


@pytest.mark.parametrize("typist", ["celery"], indirect=True)
def test_on_a_terminal_it_shows_and_asks_and_no_means_no(stage: Stage, typist: Typist) -> None:
    name = fresh()
    letter = letter_of(stage, send(stage, "failing", name))
    stage.sign(name)
    line = f"dlq replay {letter.submission} --because mended --wait"

    code, shown = typist.answers(line, "n")
    assert (code, stage.effects(name)) == (1, 0)
    assert shown.index("ready") < shown.index("Replay 1? [y/N]:")
    code, shown = typist.answers(line, "y")
    assert (code, stage.effects(name)) == (0, 1)
    assert "resolved" in shown


def test_a_rate_is_kept_by_the_steward_and_an_abort_keeps_the_rest(stage: Stage, typist: Typist) -> None:
    names = references(2)
    letters = [letter_of(stage, send(stage, "failing", name)) for name in names]
    for name in names:
        stage.sign(name)
    ids = " ".join(letter.submission for letter in letters)

    # The second one is due 100 seconds later: time enough to start a process, however slow.
    sent = typist.reads(f"dlq replay {ids} --because mended --yes --rate 0.01 --detach")
    wait_for(lambda: stage.effects(names[0]), "the first one")
    (aborted,) = typist.reads(f"dlq abort {sent[0]['operation']} --because enough")
    ends = {one["id"]: one["verdict"] for one in typist.reads(f"dlq follow {sent[0]['operation']}", code=4)}

    assert aborted["verdict"] == "aborted"
    assert [ends[letter.submission] for letter in letters] == ["resolved", "not_sent"]
    assert [stage.effects(name) for name in names] == [1, 0]
    again = typist.reads(f"dlq replay {ids} --because mended --yes --wait", code=4)
    assert [one["verdict"] for one in again] == ["left_out", "resolved"]
    assert [stage.effects(name) for name in names] == [1] * 2
    assert {stage.jobs(key=name)[0].status for name in names} == {Outcome.SUCCEEDED}


def test_draining_ends_when_those_have_run_who_waited(stage: Stage, typist: Typist) -> None:
    reference = fresh()
    held, waiting = (send(stage, "keyed_held", reference) for _ in range(2))
    wait_for(stage.rows, "the second one to be parked")
    (left,) = typist.reads("drain --timeout 1", code=1)
    assert left["left"] == 1

    threading.Timer(1, stage.sign, [reference]).start()
    (left,) = typist.reads("drain --timeout 60")

    assert (left["left"], stage.rows()) == (0, [])
    assert [stage.result(held), stage.result(waiting)] == [reference, reference]
    assert stage.effects(reference) == 1
