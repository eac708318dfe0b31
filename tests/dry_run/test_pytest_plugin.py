"""pytest runs bundles: in a process of its own, as a project's tests do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from celery_replay.dry_run.bundle import exported
from celery_replay.dry_run.comparison import Ends
from celery_replay.dry_run.recording import Recording
from tests.support.workers import ROOT

APP = """
from tests.dry_run import shop
app = shop.make_shop("project")
shop.Code.version = {version!r}
"""


@pytest.fixture
def project(tmp_path: Path, recording: Recording) -> Path:
    (tmp_path / "gift.replay.json").write_text(exported(recording, Ends.WELL))
    (tmp_path / "pytest.ini").write_text("[pytest]\ncelery_replay_app = project\npythonpath = .\n")
    return tmp_path


def run_pytest(project: Path, version: str) -> subprocess.CompletedProcess[str]:
    (project / "project.py").write_text(APP.format(version=version))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:django",
        "--rootdir",
        str(project),
    ]
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'django_app'}", "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_it_passes_once_the_code_is_mended(project: Path) -> None:
    done = run_pytest(project, "mended")
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_it_fails_with_what_went_otherwise(project: Path) -> None:
    done = run_pytest(project, "as it failed")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "expected: succeeds" in done.stdout
    assert (
        "came:     fails_the_same_way: it fails in the same way: builtins.ValueError: no address of bob" in done.stdout
    )


def test_nothing_is_collected_without_an_app(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\n")
    assert "no tests ran" in run_pytest(project, "mended").stdout


def test_a_damaged_file_is_an_error(project: Path) -> None:
    (project / "gift.replay.json").write_text("{}")
    done = run_pytest(project, "mended")
    assert done.returncode == 1
    assert "bundle-unreadable" in done.stdout
