"""The built package in empty environments: it works as a user installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

OPTIONAL = {"django", "httpx", "opentelemetry-api", "orjson", "redis", "requests", "rich", "time-machine", "zstandard"}

APP = """
from celery import Celery

app = Celery("shop", task_cls="{task_cls}", broker="memory://")
{configure}

@app.task(idempotency_key="ship:{{order_id}}")
def ship(order_id):
    return order_id
"""
CORE = APP.format(
    task_cls="celery_replay:ReplayTask",
    configure='app.conf.update(replay_store="memory://", replay_eager="record", task_always_eager=True)',
)
DJANGO = APP.format(
    task_cls="django_celery_replay:ReplayTask",
    configure='app.config_from_object("django.conf:settings", namespace="CELERY")',
)
RUN_ONE = """
import tasks
from celery_replay.runtime import runtime_of
assert tasks.ship.delay(7).get() == 7
(job,) = runtime_of(tasks.app).store.find_jobs(key="ship:7")
print(job.status)
"""
SETTINGS = """
INSTALLED_APPS += ["django_celery_replay"]
DATABASES["replay"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "replay.sqlite3"}
CELERY_REPLAY_STORE = "django://replay"
CELERY_REPLAY_APP = "tasks:app"
"""

NO_STEWARD = 1
"""The exit code of `status` where all is well and no worker runs."""


def _run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """Run as somebody would who knows nothing of this repository, and see that it ends with this exit code."""
    env = {name: os.environ[name] for name in os.environ if name not in ("PYTHONPATH", "DJANGO_SETTINGS_MODULE")}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


class Place:
    """A folder with an environment that has the wheel, and what that asks for."""

    def __init__(self, folder: Path, wheel: Path, extras: str) -> None:
        self.folder = folder
        self._python = folder / "venv" / "bin" / "python"
        _run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=folder)
        self.pip("install", "--quiet", f"{wheel}{extras}")

    def pip(self, *arguments: str) -> str:
        """Run pip from outside: the environment has none."""
        options = ("--python", self._python, "--disable-pip-version-check", "--no-input")
        return _run(sys.executable, "-m", "pip", *options, *arguments, cwd=self.folder)

    def python(self, *arguments: str, code: int = 0) -> str:
        """Run its Python, where a warning is an error."""
        return _run(self._python, "-W", "error", *arguments, cwd=self.folder, code=code)


@pytest.fixture(scope="session")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Place]:
    """Return what makes a place, with extras of the package or without."""
    return lambda extras: Place(tmp_path_factory.mktemp("place"), wheel, extras)


def test_the_core_runs_jobs_and_commands_with_celery_alone(place: Callable[[str], Place]) -> None:
    bare = place("")
    installed = {each["name"].lower() for each in json.loads(bare.pip("list", "--format", "json"))}
    assert "celery" in installed
    assert not installed & OPTIONAL
    (bare.folder / "tasks.py").write_text(CORE)
    assert bare.python("-c", RUN_ONE) == "succeeded\n"
    assert "Look at jobs" in bare.python("-m", "celery", "-A", "tasks", "replay", "--help")
    assert "reachable       yes" in bare.python("-m", "celery", "-A", "tasks", "replay", "status", code=NO_STEWARD)


def test_a_django_project_migrates_and_shows_its_status(place: Callable[[str], Place]) -> None:
    project = place("[django]")
    project.python("-m", "django", "startproject", "shop", ".")
    with (project.folder / "shop" / "settings.py").open("a") as settings:
        settings.write(SETTINGS)
    (project.folder / "tasks.py").write_text(DJANGO)
    project.python("manage.py", "check")
    for alias in ("default", "replay"):
        project.python("manage.py", "migrate", "--database", alias)
    project.python("manage.py", "makemigrations", "--check", "--dry-run")
    status = project.python("manage.py", "celery_replay", "status", code=NO_STEWARD)
    assert "store           database 'replay' (sqlite)\nreachable       yes" in status
