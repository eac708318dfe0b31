"""The task class for Django projects."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from celery import Celery
from django.db import transaction

from celery_replay.targets import target_of
from celery_replay.task import ReplayTask as CoreTask
from django_celery_replay import ReplayTask
from django_celery_replay.models import Marker


@pytest.fixture
def app() -> Celery:
    return Celery(task_cls="django_celery_replay:ReplayTask", set_as_current=False)


def test_tasks_keep_djangos_and_celery_replays_ways(app: Celery) -> None:
    @app.task(shared=False)
    def ship() -> None: ...

    assert isinstance(ship, CoreTask)
    assert callable(ship.delay_on_commit)
    assert callable(ship.apply_async_on_commit)


def test_the_target_writes_to_djangos_databases(app: Celery, business: str) -> None:
    @app.task(shared=False)
    def ship() -> None: ...

    target = target_of(ship)
    with target.watch() as watch, target.marked(business, "job", "n") as marker:
        marker.complete("1")
    with target.watch() as seen, target.fenced(business, "order", 1):
        transaction.set_rollback(True, using=business)
    assert (watch.seen, seen.seen) == (False, True)
    assert Marker.objects.using(business).get().result == "1"


def test_the_class_can_be_imported_before_django_is_set_up() -> None:
    code = "from django_celery_replay import ReplayTask; print(ReplayTask.__mro__[1].__module__)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "celery_replay.task", done.stderr


def test_other_names_are_attribute_errors() -> None:
    import django_celery_replay

    with pytest.raises(AttributeError, match="nothing"):
        django_celery_replay.nothing  # noqa: B018
    assert ReplayTask is django_celery_replay.ReplayTask
