"""A job that failed, as it is recorded, and an engine to run it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from celery import Celery, _state
from celery.contrib.testing.worker import start_worker
from kombu.transport import memory

from celery_replay.dry_run.engine import DryRun, Engine
from celery_replay.dry_run.recording import Recording, recording_of
from celery_replay.dry_run.variation import AS_RECORDED, Variation
from celery_replay.runtime import reset, use_store
from celery_replay.states import Outcome
from celery_replay.stores.memory import MemoryStore
from tests.dry_run import shop

Try = Callable[..., DryRun]


@pytest.fixture(scope="session")
def recorded() -> Iterator[tuple[Celery, MemoryStore]]:
    """Let a worker fail at a job, once for all tests: nobody changes what is recorded."""
    # What other tests have sent in this process, its worker would take for its own.
    memory.Channel.queues.clear()
    app = shop.make_shop("dry-run-shop")
    store = MemoryStore()
    use_store(app, store)
    default, current = _state.default_app, _state._tls.current_app
    with start_worker(app, perform_ping_check=False, pool="threads"):
        result = app.tasks["shop.ship"].delay(7, who="bob")
        with pytest.raises(ValueError, match="no address of bob"):
            result.get(timeout=20)
    # It makes its app everybody's.
    _state.default_app, _state._tls.current_app = default, current
    assert shop.purchases == [7, -7]
    yield app, store
    reset(app)


@pytest.fixture
def recording(recorded: tuple[Celery, MemoryStore]) -> Recording:
    """Return what is recorded of it."""
    _, store = recorded
    (job,) = store.find_jobs(operation="shop.ship", limit=10)
    assert job.status is Outcome.FAILED
    letter = store.letter(job.submission)
    assert letter is not None
    return recording_of(store, job, letter.message)


@pytest.fixture
def today(recorded: tuple[Celery, MemoryStore], recording: Recording, monkeypatch: pytest.MonkeyPatch) -> Iterator[Try]:
    """Return what runs the recorded job by some version of the code."""
    app, store = recorded
    before, purchases = store.find_jobs(limit=100), list(shop.purchases)

    def run(version: str, how: Variation = AS_RECORDED, *, url: str = "", timeout_s: float = 30) -> DryRun:
        monkeypatch.setattr(shop.Code, "version", version)
        monkeypatch.setattr(shop.Code, "url", url)
        with Engine(app, timeout_s=timeout_s) as engine:
            return engine.run(recording, how)

    yield run
    # Nothing of it reached the records, or the outside.
    assert store.find_jobs(limit=100) == before
    assert shop.purchases == purchases
