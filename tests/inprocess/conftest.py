from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.inprocess.lab import Lab, make_app, running

POOLS = {"threads": 4, "solo": 1}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Group the tests by pool: two workers in one process would mix up each other's tasks."""
    if "any_lab" in metafunc.fixturenames:
        metafunc.parametrize("worker", POOLS, indirect=True, scope="session")
    elif "lab" in metafunc.fixturenames:
        metafunc.parametrize("worker", ["threads"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def worker(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Run a worker in this process for as long as tests want its pool."""
    with running(make_app(request.param), request.param, POOLS[request.param]) as worker:
        yield worker


@pytest.fixture
def lab(worker: Any) -> Iterator[Lab]:
    """Lend a lab with a store of its own and a worker with four threads."""
    lab = Lab(worker.app, worker)
    yield lab
    lab.close()


@pytest.fixture
def any_lab(lab: Lab) -> Lab:
    """Lend a lab with each kind of worker that does not fork."""
    return lab
