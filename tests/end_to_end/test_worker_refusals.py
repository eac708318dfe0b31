"""A store that can't be what was meant: whoever depends on it says so, says what to do, and does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
