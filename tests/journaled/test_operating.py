"""What whoever looks after two stores sees of them, and what the steward does."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from click.testing import CliRunner

from celery_replay import ReplayTask
from celery_replay.cli import replay
from celery_replay.config import Settings
from celery_replay.runtime import open_store, reset, runtime_of, use_store
from celery_replay.states import Reason, Verdict
from celery_replay.steward import Steward
from celery_replay.stores import journaled
from celery_replay.stores.journaled import JournaledStore
from tests.django_store.builders import ask
from tests.journaled.conftest import Places
from tests.journaled.test_archiving import archive, fails, journal_down, runs, succeeds

pytestmark = pytest.mark.parametrize("places", [("redis", "sqlite")], indirect=True, ids=["redis-sqlite"])
Types = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def app(store: JournaledStore, tmp_path: Path) -> Iterator[Celery]:
    with Celery("shop", task_cls=ReplayTask, set_as_current=False, broker="memory://") as app:
        app.conf.update(replay_store="memory://", replay_spool_dir=str(tmp_path))
        use_store(app, store)
        yield app
        reset(app)


@pytest.fixture
def reads(app: Celery) -> Types:
    """Return what types a line with --json, and returns its objects."""

    def reads(line: str) -> list[dict[str, Any]]:
        obj = SimpleNamespace(app=app)
        result = CliRunner().invoke(replay, [*line.split(), "--json"], obj=obj, prog_name="replay")
        return [json.loads(text) for text in result.stdout.splitlines()]

    return reads


def test_status_tells_how_far_the_journal_is_behind(
    store: JournaledStore, reads: Types, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.lead("steward", 10_000_000)
    succeeds(store)
    (glance,) = reads("status")
    assert (glance["healthy"], glance["journal_waiting"]) == (True, 1)
    assert glance["journal_waiting_for"] is not None

    with journal_down(store):
        (glance,) = reads("status")
        assert (glance["healthy"], glance["reachable"]) == (False, True)
        assert "the journal can't be written" in glance["attention"][0]

    archive(store)
    succeeds(store)
    monkeypatch.setattr(journaled, "BEHIND_US", -1)
    (glance,) = reads("status")
    assert "behind by 1 changes" in glance["attention"][0]


def test_commands_show_what_is_in_flight_and_what_is_over(store: JournaledStore, reads: Types, places: Places) -> None:
    old = fails(store, key="old")
    archive(store)
    places.wipe()
    new = fails(store, key="new")
    _, running = runs(store, key="busy")
    assert store.open(ask("waiter", key="busy")).verdict is Verdict.PARKED

    assert {letter["id"] for letter in reads("dlq list")} == {old.submission, new.submission}
    for key, job in (("old", old), ("new", new), ("busy", running)):
        assert job.submission in [found["id"] for found in reads(f"jobs find --key {key}")]
    assert [row["id"] for row in reads("parked list")] == ["waiter"]
    (shown,) = reads(f"dlq show {old.submission}")
    assert shown["letter"]["id"] == old.submission if "letter" in shown else shown["id"] == old.submission


def test_the_steward_tells_what_has_settled(
    app: Celery, store: JournaledStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = succeeds(store)
    steward = Steward(runtime_of(app))
    # Pruning looks at what waits, settled or not.
    steward._next_prune = math.inf
    steward.round()
    assert store.journal.job(job.submission) is None

    monkeypatch.setattr(journaled, "SETTLE_US", 0)
    steward.round()
    assert store.journal.job(job.submission) is not None


def test_the_steward_does_its_other_work_while_the_journal_is_down_and_asks_it_now_and_then(
    app: Celery, store: JournaledStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journaled, "SETTLE_US", 0)
    job = succeeds(store)
    steward = Steward(runtime_of(app))
    released: list[int] = []
    monkeypatch.setattr(store, "release_due", lambda: released.append(1) or [])
    with journal_down(store), caplog.at_level(logging.WARNING):
        for _ in range(3):
            steward.round()
    assert len(released) == 3
    assert [record.work for record in caplog.records if record.msg == "replay.steward_failed"] == [  # type: ignore[attr-defined]
        "operate",
        "archive",
        "prune",
    ]
    assert store.journal.job(job.submission) is None

    steward._next_archive = 0.0
    steward.round()
    assert store.journal.job(job.submission) is not None


def test_a_journal_remembers_which_tokens_a_ledger_gave(store: JournaledStore, places: Places) -> None:
    settings = Settings(ledger=places.ledger, journal=f"django://{store.alias}", lease_ttl_max=60)
    first = open_store(settings)
    begun = first.open(ask("a", resources=("order:7",)))
    first.keep_mark()
    places.wipe()

    # Another process: it never met the server that was there before.
    second = open_store(settings)
    waits = second.open(ask("b", resources=("order:7",)))
    runs = second.open(ask("c", claim=None))

    assert (begun.verdict, waits.verdict, waits.reason) == (Verdict.RUN, Verdict.PARKED, Reason.GRANTS_PAUSED)
    assert runs.verdict is Verdict.RUN
    assert runs.facts.job.fence > begun.facts.places[0].lease.fence
    for one in (first, second):
        one.close_connections()
