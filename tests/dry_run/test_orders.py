"""Orders of dry runs: what a message has, and which workers take them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from celery import Celery

from celery_replay import ReplayTask
from celery_replay.dry_run.errand import name_of
from celery_replay.dry_run.orders import TASK, Changes, Order, give
from celery_replay.exceptions import ConfigurationError
from celery_replay.policy import is_excluded
from celery_replay.runtime import runtime_of, use_store
from celery_replay.stores.memory import MemoryStore
from celery_replay.worker import TrialStep

CHANGES = Changes(args="[1]", kwargs="{}", variation={"stubs": {"a": 1}})
ORDER = Order(operation_id="o", actor="ann", letters={"s": 3}, changes=CHANGES)


def make_app(**settings: object) -> Celery:
    app = Celery("orders", task_cls=ReplayTask, broker="memory://", set_as_current=False)
    app.conf.update(replay_store="memory://", **settings)
    return app


def test_an_order_comes_as_it_was_sent_also_from_a_newer_version() -> None:
    packed = json.loads(json.dumps(ORDER.pack()))
    assert Order.unpack({**packed, "more": 1, "changes": {**packed["changes"], "more": 2}}) == ORDER


def test_what_changes_nothing_is_a_dry_run() -> None:
    assert (Changes().mode, ORDER.changes.mode, Changes(variation={"at": "a"}).mode) == ("dry-run", "fork", "fork")


def test_each_worker_knows_the_task_which_is_none_of_those_that_are_recorded() -> None:
    with make_app() as app:
        TrialStep(SimpleNamespace(app=app))
        TrialStep(SimpleNamespace(app=app))
        assert not hasattr(app.tasks[TASK], "replay_target")
        assert is_excluded(TASK, ())


def test_where_the_queue_is_empty_no_worker_knows_it_and_nothing_is_sent() -> None:
    with make_app(replay_trial_queue="") as app:
        TrialStep(SimpleNamespace(app=app))
        assert TASK not in app.tasks
        store = MemoryStore()
        use_store(app, store)
        with pytest.raises(ConfigurationError, match="replay_trial_queue is empty"):
            give(runtime_of(app), ORDER)
        assert store.history(operation_id="o") == []


def test_an_app_is_named_by_its_setting_or_by_the_module_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with make_app(replay_app="shop.celery:app") as app:
        assert name_of(app) == "shop.celery:app"
    with make_app() as app:
        monkeypatch.setattr("tests.dry_run.shop.main_app", app, raising=False)
        assert name_of(app) == "tests.dry_run.shop:main_app"
