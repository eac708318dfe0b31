"""The report says which layers were on, and whoever requires them all runs nothing without."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from celery_replay.exceptions import ConfigurationError, SandboxBlocked, SandboxUnavailable
from celery_replay.sandbox import Layers, audit, available, landlock, lock
from celery_replay.sandbox.kernel import Layers as LayersOfTheKernel
from tests.sandbox.conftest import Runs
from tests.support.workers import ROOT


def test_the_first_line_names_the_layers(layers: Layers, enforced: None, runs: Runs) -> None:
    report = runs(lambda: 1)
    assert report.layers is not None
    assert report.layers.enforced
    first = report.heading().splitlines()[0]
    assert first == f"kernel: seccomp, landlock {layers.landlock}; interpreter: audit"


def restrictions() -> list[str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("NoNewPrivs", "Seccomp"))]


def test_asking_what_is_available_leaves_the_caller_as_it_was(enforced: None, tmp_path: Path) -> None:
    before = restrictions()
    assert available().enforced
    (tmp_path / "file").write_text("x")
    assert restrictions() == before


def test_an_old_kernel_is_told_of(runs: Runs, old_kernel: None) -> None:
    first = runs(lambda: 1).heading().splitlines()[0]
    assert first.startswith("not enforced by the kernel: landlock: the kernel has none")
    assert "seccomp: " in first
    assert first.endswith("; interpreter: audit")


def test_whoever_requires_the_kernel_runs_nothing_on_an_old_one(runs: Runs, folder: Path, old_kernel: None) -> None:
    with pytest.raises(SandboxUnavailable, match=r"landlock: .*seccomp: ") as caught:
        runs((folder / "ran").touch, prepare=(folder / "prepared").touch, require_kernel=True)
    assert isinstance(caught.value, ConfigurationError)
    assert list(folder.iterdir()) == []


def test_whoever_requires_the_kernel_runs_where_it_enforces(runs: Runs, enforced: None) -> None:
    assert runs(lambda: 1, require_kernel=True).value == 1


def with_a_thread() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def test_no_body_runs_beside_threads_that_began_before_the_lock(runs: Runs, folder: Path, enforced: None) -> None:
    report = runs((folder / "ran").touch, prepare=with_a_thread)
    assert report.error is not None
    assert (report.error.stage, report.ok) == ("lock", False)
    assert "a thread runs in the child already" in str(report.error)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("version", range(1, landlock.NEWEST + 1))
def test_every_landlock_refuses_to_write_outside(
    version: int, layers: Layers, enforced: None, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version > layers.landlock:
        pytest.skip(f"the kernel offers {layers.landlock}")
    monkeypatch.setattr(audit, "install", lambda *_: None)
    monkeypatch.setattr(landlock, "abi", lambda: version)

    def body() -> str:
        Path(os.environ["TMPDIR"], "inside").write_text("x")
        try:
            (tmp_path / "outside").write_text("x")
        except PermissionError:
            return "refused"
        return "written"

    report = runs(body)
    assert report.value == "refused"
    assert report.heading().startswith(f"kernel: seccomp, landlock {version};")
    assert not (tmp_path / "outside").exists()


def test_the_public_names_are_those_of_the_modules() -> None:
    assert Layers is LayersOfTheKernel
    assert callable(lock)


def test_a_refusal_is_what_the_kernel_would_have_raised() -> None:
    with pytest.raises(PermissionError) as caught:
        raise SandboxBlocked
    assert caught.value.errno == 1


ELSEWHERE = """
import celery_replay, sqlite3, sys
sys.platform = "darwin"
from errno import EPERM
from pathlib import Path
from celery_replay import sandbox

def body():
    try:
        Path("/nowhere").write_text("x")
    except PermissionError:
        return "refused"

report = sandbox.run(body, folder=Path(sys.argv[1]), timeout_s=60)
print(report.value, report.heading().splitlines()[0])
"""


def test_elsewhere_the_interpreters_layer_is_on(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ELSEWHERE, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("refused not enforced by the kernel: ")
    assert done.stdout.endswith("Linux for x86-64 and aarch64 only; interpreter: audit\n")
