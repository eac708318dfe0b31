from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.inprocess.lab import Lab, make_app, running


@pytest.fixture(scope="session")
def threads_worker() -> Iterator[Any]:
    with running(make_app("threads"), "threads", 4) as worker:
        yield worker


@pytest.fixture(scope="session")
def solo_worker() -> Iterator[Any]:
    with running(make_app("solo"), "solo", 1) as worker:
        yield worker


def _lab(worker: Any) -> Iterator[Lab]:
    lab = Lab(worker.app, worker)
    settings = {key: value for key, value in worker.app.conf.items() if key.startswith("replay_")}
    yield lab
    lab.idle()
    lab.forget_tasks()
    for key in [key for key in worker.app.conf if key.startswith("replay_")]:
        worker.app.conf[key] = settings.get(key)


@pytest.fixture
def lab(threads_worker: Any) -> Iterator[Lab]:
    """Lend a lab with four threads."""
    yield from _lab(threads_worker)


@pytest.fixture
def solo_lab(solo_worker: Any) -> Iterator[Lab]:
    """Lend a lab whose worker does one thing at a time."""
    yield from _lab(solo_worker)


@pytest.fixture(params=["threads", "solo"])
def any_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Lend a lab of either kind."""
    yield from _lab(request.getfixturevalue(f"{request.param}_worker"))
