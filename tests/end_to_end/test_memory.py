"""A worker's child holds no more memory after many jobs than after a few."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.workers import ROOT, SOURCES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WARM = 5_000
"""By then every cache has filled, and the allocator has what it needs."""
END = 20_000
LEAK_BYTES = 100
"""Per job, what breaks the bound. By itself the allocator moves by a tenth of that."""


@pytest.fixture(scope="module")
def held() -> tuple[tuple[int, int], tuple[int, int]]:
    """Return resident bytes and allocated blocks at both marks."""
    env = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.tracer_loop", str(WARM), str(END)],
        env={**env, "PYTHONPATH": os.pathsep.join(SOURCES)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    warm, end = json.loads(done.stdout)
    return tuple(warm), tuple(end)


def test_resident_memory_is_flat_over_many_jobs(held: tuple[tuple[int, int], tuple[int, int]]) -> None:
    (warm, _), (end, _) = held
    assert end - warm < LEAK_BYTES * (END - WARM)


def test_no_object_is_left_behind_by_a_job(held: tuple[tuple[int, int], tuple[int, int]]) -> None:
    (_, warm), (_, end) = held
    # One object that is kept by every job would be as many blocks as there were jobs.
    assert end - warm < (END - WARM) / 10
