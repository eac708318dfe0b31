"""The package, built once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from that; return their folder."""
    pytest.importorskip("build", reason="`make wheel` has what this needs")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=100, check=True)
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    """Return the one wheel."""
    (found,) = built.glob("*.whl")
    return found
