"""A steward takes large values elsewhere, and lets nothing wait for that."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_replay.records import Chunk
from celery_replay.runtime import runtime_of, use_store
from celery_replay.steward import Steward
from celery_replay.stores.memory import MemoryStore
from celery_replay.stores.places import Folder
from tests.conformance.callers import runs
from tests.end_to_end.stage import wait_for

BODY = b"j" + b"large" * 200


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Celery]:
    with Celery("shop", task_cls="celery_replay:ReplayTask", set_as_current=False, broker="memory://") as app:
        app.conf.update(
            replay_store="memory://", replay_spool_dir=str(tmp_path / "spool"), replay_blobs=str(tmp_path / "kept")
        )
        yield app


def files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def filled(app: Celery) -> Any:
    store = runtime_of(app).store
    job = runs(store, "a", claim=None)
    store.flush(chunks=[Chunk(trace_id="a", nonce=job.nonce, first=1, count=1, body=b"j[]", blobs=(("ref", BODY),))])
    return store


def test_the_setting_is_where_they_go(app: Celery, tmp_path: Path) -> None:
    store = filled(app)
    steward = Steward(runtime_of(app))
    steward.round()
    wait_for(lambda: files(tmp_path / "kept") == [BODY], "it is there")
    assert store.blob("ref") == BODY
    steward.stop()


def test_a_place_that_does_not_answer_holds_up_nobody(app: Celery, tmp_path: Path) -> None:
    class Silent(Folder):
        began, goes_on = threading.Event(), threading.Event()

        def put(self, bodies: Mapping[str, bytes]) -> None:
            self.began.set()
            assert self.goes_on.wait(30)
            super().put(bodies)

    store = filled(app)
    store.elsewhere = silent = Silent(tmp_path / "kept")
    steward = Steward(runtime_of(app))
    try:
        steward.round()
        assert silent.began.wait(10)
        steward._next_place = 0.0
        steward.round()
        assert store.blob("ref") == BODY
    finally:
        silent.goes_on.set()
        steward.stop()
    wait_for(lambda: files(tmp_path / "kept") == [BODY], "it is there, once")


def test_a_place_that_fails_is_tried_again(app: Celery, tmp_path: Path) -> None:
    filled(app)
    (tmp_path / "kept").write_text("no folder")
    steward = Steward(runtime_of(app))
    steward.round()
    wait_for(lambda: "blobs" in steward._failing, "it is told")
    (tmp_path / "kept").unlink()
    steward._next_place = 0.0
    wait_for(lambda: not steward._placing.is_alive(), "the first try is over")  # type: ignore[union-attr]
    steward.round()
    wait_for(lambda: files(tmp_path / "kept") == [BODY], "it is there")
    steward.stop()


def test_a_store_that_a_test_gives_keeps_its_values(app: Celery) -> None:
    use_store(app, MemoryStore())
    Steward(runtime_of(app)).round()
    assert runtime_of(app).store.elsewhere is None


def test_pages_read_from_there_though_no_app_is_loaded(tmp_path: Path, settings: Any) -> None:
    from django_celery_replay.conf import _own_store

    settings.CELERY_REPLAY_BLOBS = str(tmp_path)
    found = _own_store.__wrapped__("default").elsewhere
    assert found is not None
    assert found.place == f"folder {tmp_path}"
