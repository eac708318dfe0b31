"""What can't be what was meant is said when a worker starts, with what to do. Where nothing could work, it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import LoggedProcess
from tests.support.workers import ROOT, SOURCES

APP = """
from celery import Celery
app = Celery("shop", broker="memory://", task_cls="celery_replay:ReplayTask")
app.conf.replay_store = "{store}"
"""
SETTINGS = """
SECRET_KEY = "only for tests"
USE_TZ = True
INSTALLED_APPS = {apps}
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "{folder}/db.sqlite3"}}}}
"""
INSTALLED = ["django.contrib.contenttypes", "django_celery_replay"]
CASES = {
    "no tables": ("django", INSTALLED, "run `manage.py migrate django_celery_replay --database default`"),
    "not installed": ("django", INSTALLED[:1], "'django_celery_replay' is not in INSTALLED_APPS"),
    "no such database": ("django://rplay", INSTALLED, "database 'rplay', which is not in DATABASES"),
    "no such store": ("mongodb://localhost", INSTALLED, 'use "django", "django://alias", "redis://host/0"'),
}


@pytest.mark.parametrize("command", [("worker", "--pool=solo"), ("worker", "--concurrency=1"), ("replay", "steward")])
@pytest.mark.parametrize("case", CASES)
def test_a_store_that_can_not_be_meant_stops_the_start(tmp_path: Path, case: str, command: tuple[str, ...]) -> None:
    store, apps, hint = CASES[case]
    (tmp_path / "shop.py").write_text(APP.format(store=store))
    (tmp_path / "shop_settings.py").write_text(SETTINGS.format(apps=apps, folder=tmp_path))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(tmp_path), *SOURCES)),
        "DJANGO_SETTINGS_MODULE": "shop_settings",
    }
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "shop", *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode not in (0, None), done.stdout + done.stderr
    assert hint in done.stdout + done.stderr


UNPROTECTED = """
from celery import Celery, Task
app = Celery("shop", broker="memory://"{options})
app.conf.replay_store = "memory://"
@app.task(base=Task, idempotency_key="ship:{{order_id}}")
def ship(order_id): pass
@app.task
def other(): pass
"""


@pytest.mark.parametrize("options", ["", ', task_cls="celery_replay:ReplayTask"'], ids=["no task_cls", "its own base"])
def test_a_worker_tells_of_tasks_whose_declarations_are_not_in_force(tmp_path: Path, options: str) -> None:
    (tmp_path / "shop.py").write_text(UNPROTECTED.format(options=options))
    (tmp_path / "shop_settings.py").write_text(SETTINGS.format(apps=INSTALLED, folder=tmp_path))
    worker = LoggedProcess(
        [sys.executable, "-m", "celery", "-A", "shop", "worker", "--pool=solo", "--loglevel=WARNING"],
        tmp_path / "worker.log",
        cwd=ROOT,
    )
    worker.launch(
        {
            **os.environ,
            "C_FORCE_ROOT": "1",
            "PYTHONPATH": os.pathsep.join((str(tmp_path), *SOURCES)),
            "DJANGO_SETTINGS_MODULE": "shop_settings",
        }
    )
    try:
        worker.wait_for(lambda: "[unprotected-task]" in worker.log(), 60, "a warning")
    finally:
        worker.kill()
    assert worker.log().count("task shop.ship declares idempotency_key, which is not in force") == 1
