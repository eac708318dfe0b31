"""The demo, in short: what it promises on its screen is what its outside world saw."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support.versions import needs, quick_redelivery
from tests.support.workers import ROOT

HARM = (
    "orders charged twice",
    "labels bought twice",
    "customers with too many points",
    "day reports too many",
    "orders never charged",
    "orders without a label",
    "orders never shipped",
    "customers with too few points",
    "day reports missing",
    "euros charged again",
)


@pytest.mark.timeout(300)
@quick_redelivery
@needs("django", "5.1", "the demo sets how SQLite begins its transactions")
def test_the_demo_shows_no_duplicate_and_no_loss_though_workers_are_killed() -> None:
    command = [sys.executable, "-m", "example_project.demo", "celery-replay", "--orders", "8"]
    # As in an environment of its own: nothing of this one decides where its records go.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "CELERY_", "REPLAY_"))}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280, check=False)
    counted = dict(re.findall(r"^(\w[\w -]+?) {2,}(\d+)\b", done.stdout, re.MULTILINE))
    assert [counted.get(line) for line in HARM] == ["0"] * len(HARM), done.stdout + done.stderr
    assert int(counted["orders"]) == 8
    assert int(counted["workers killed in mid-job"]) > 0
    assert "whose worker was killed, as celery-replay recorded it" in done.stdout
    assert done.stdout.count("it would succeed now") == 2
    assert "The carrier sent 1 gift, and the customer got 100 points." in done.stdout
    assert "The mail server saw 7 receipts, 0 of them twice; 0 are missing." in done.stdout
