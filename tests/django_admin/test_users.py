"""Projects with users of their own kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_users_with_uuids_decide_in_their_names_which_outlive_them(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.django_people.settings",
        "PEOPLE_FOLDER": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "django_app")]),
    }
    command = [sys.executable, "-m", "django", "walk_the_admin"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for page, said in {
        "nobody": "No user has this name.",
        "assigned": "Assigned. ",
        "replayed": "It is being replayed, as task",
        "discarded": "Discarded. ",
        "his": "1 in all",
        "s": "replayed ann@example.org up",
        "t": "discarded ann@example.org a test",
    }.items():
        assert said in found["told"][page]
    assert found["statuses"] == [200]
    assert found["history"] == [["assigned", "ann@example.org"], ["replayed", "ann@example.org"]]
