from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from errno import ENOSYS
from pathlib import Path
from typing import Any

import pytest

from celery_replay import sandbox
from celery_replay.sandbox import Report, audit, kernel, libc
from tests.sandbox.outside import Outside

Runs = Callable[..., Report]


@pytest.fixture(autouse=True)
def _runner_with_threads() -> Iterator[None]:
    """Let a test runner that has threads of its own fork."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        yield


@pytest.fixture(scope="session")
def layers() -> kernel.Layers:
    """Tell which layers this machine has."""
    return kernel.available()


@pytest.fixture
def enforced(layers: kernel.Layers) -> None:
    """Have a kernel that enforces the sandbox."""
    if not layers.enforced:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(layers))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "sandbox"
    made.mkdir()
    return made


@pytest.fixture
def runs(folder: Path) -> Runs:
    """Run a body in the folder; a minute is for ever here."""

    def run(body: Callable[[], Any], timeout_s: float = 60, **options: Any) -> Report:
        return sandbox.run(body, folder=folder, timeout_s=timeout_s, **options)

    return run


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    made = Outside(tmp_path / "outside")
    yield made
    made.close()


@pytest.fixture
def kernel_alone(enforced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the interpreter's hook out, so that whatever is refused is refused by the kernel."""
    monkeypatch.setattr(audit, "install", lambda *_: None)


@pytest.fixture
def old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a kernel that knows neither of the layers."""

    def none(name: str, *_: int) -> int:
        raise OSError(ENOSYS, f"no {name}")

    monkeypatch.setattr(libc, "syscall", none)
