"""Dry runs in a Django project, in a process of their own: its rows, mail, caches and files stay as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.counting_server import CountingServer
from tests.support.workers import ROOT


@pytest.fixture
def ran(tmp_path: Path) -> Any:
    """Return what runs a job by one of the project's bodies."""

    def run(body: str, *settings: str) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'django_app'}"}
        command = [sys.executable, "-m", "tests.dry_run.django_project", str(folder), body, *settings]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert found["unchanged"]
        assert not (folder / "media").exists()
        return found

    return run


def test_what_it_writes_is_told_and_not_done(ran: Any) -> None:
    found = ran("write")
    assert (found["ends"], found["result"], found["began_as_then"]) == ("succeeds", [7, 0], True)
    changed = {(row["record"], row["field"]): (row["before"], row["after"]) for row in found["state"]}
    assert changed["rows.customer:1", "points"] == (0, 7)
    assert changed["rows.customer:2", "name"] == ("(absent)", "Bob")


def test_mail_is_told_and_not_sent(ran: Any) -> None:
    found = ran("send_mail")
    assert (found["ends"], found["blocked"], found["surroundings"]["mail"]) == ("succeeds", [], "Thanks to 1")


def test_caches_and_files_are_of_its_own(ran: Any) -> None:
    found = ran("keep")
    assert (found["ends"], found["result"]) == ("succeeds", [1, "label.txt", True])


def test_a_table_of_which_nothing_is_recorded_is_told(ran: Any) -> None:
    found = ran("ask_of_orders")
    assert (found["ends"], found["result"]) == ("succeeds", 0)
    assert found["said"] == "it would succeed now, if there is nothing in rows_order: no row of it is recorded"


@pytest.mark.parametrize("way", ["ROWS_ROUTER=1", "ROWS_RECEIVER=1"])
def test_what_a_project_does_on_the_way_is_held_too(ran: Any, counting_server: CountingServer, way: str) -> None:
    found = ran("write", way, f"ROWS_OUTSIDE={counting_server.url}/asked?reference=1")
    assert counting_server.requests() == 0
    # Receivers of new connections are not called; routers are, and are refused.
    assert found["ends"] == ("blocked" if "ROUTER" in way else "succeeds")


def test_from_a_step_on_the_state_is_compared_with_the_last_snapshot_before_it(ran: Any) -> None:
    at = ran("go_on", 'VARY={"at": "pay"}')["at"]
    assert (at["reached"], at["compared"], at["differs"]) == (True, "half", [])
    assert [(row["field"], row["before"], row["after"]) for row in at["since"]] == [("name", "Ann", "Anna")]
    at = ran("go_on_otherwise", 'VARY={"at": "pay"}')["at"]
    assert [(row["field"], row["before"], row["after"]) for row in at["differs"]] == [("points", 3, 5)]


def test_from_a_snapshot_on_the_state_is_compared_with_that(ran: Any) -> None:
    found = ran("go_on_otherwise", 'VARY={"at": "half"}')
    assert (found["at"]["compared"], len(found["at"]["differs"])) == ("half", 1)
    assert [(one["when"], len(one["differs"])) for one in found["moments"]] == [("half", 1)]


def test_a_live_step_can_not_reach_the_real_database(ran: Any) -> None:
    found = ran("pay_really", 'VARY={"at": "pay"}')
    assert (found["ends"], found["blocked"]) == ("blocked", ["sqlite3.connect"])


@pytest.mark.parametrize(("snapshot", "points"), [("before", 0), ("half", 3), ("after", 4)])
def test_a_run_begins_with_the_snapshot_that_is_named(ran: Any, snapshot: str, points: int) -> None:
    found = ran("begun_with", f'VARY={{"begin_with": "{snapshot}"}}')
    assert (found["result"], found["began_as_then"]) == ([points], True)


def test_in_a_transaction_of_its_own_a_failure_leaves_nothing(ran: Any) -> None:
    plain = ran("fail")
    atomic = ran("fail", 'VARY={"options": {"atomic": "default"}}')
    assert [(row["before"], row["after"]) for row in plain["state"]] == [(0, 4)]
    assert (atomic["ends"], atomic["state"]) == ("fails_the_same_way", [])
    assert ran("go_on", 'VARY={"options": {"atomic": "default"}}')["ends"] == "succeeds"


def test_a_job_that_is_followed_finds_what_the_one_before_has_left_in_the_sandbox(ran: Any) -> None:
    found = ran("publish", 'VARY={"follow": 3}')
    assert [(one["task"], one["outcome"], one["result"]) for one in found["followed"]] == [
        ("count", "succeeded", [3, "by the first"])
    ]
