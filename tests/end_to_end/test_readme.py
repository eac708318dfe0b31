"""The README's quick start, followed to the letter: its blocks are the project, its commands are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workers import ROOT, SOURCES

README = (ROOT / "README.md").read_text()
BASE = """
from pathlib import Path
BASE_DIR = Path(__file__).parent.parent
SECRET_KEY = "only for tests"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}
"""
MANAGE = """
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
CELERY = "import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\nfrom celery import Celery\n"
# What the examples take from a shop of their reader's.
MODELS = """
from pathlib import Path
from types import SimpleNamespace

def did(what):
    with (Path(__file__).parent.parent / "outside.log").open("a") as log:
        log.write(what + "\\n")
    return what

class Order:
    objects = SimpleNamespace(get=lambda pk: SimpleNamespace(pk=pk, status="paid"))

class Customer:
    objects = SimpleNamespace(of=lambda pk: SimpleNamespace(add_points=lambda n: did(f"points {pk}")))

carrier = SimpleNamespace(
    label_of=lambda pk: None,
    buy_label=lambda order: did(f"label {order.pk}"),
    book_pickup=lambda pk: did(f"pickup {pk}"),
)
mailer = SimpleNamespace(send=lambda pk: did(f"mail {pk}"))
"""
SEND = """
import shop.celery
from shop.tasks import award_points, confirm, ship_order
results = [task.delay(5) for task in (ship_order, award_points, confirm) for _ in range(2)]
print([result.get(timeout=30) for result in results])
"""


def _block(title: str) -> str:
    """Return the Python block that begins with this comment."""
    (found,) = re.findall(rf"```python\n# {re.escape(title)}\n(.*?)```", README, re.DOTALL)
    return textwrap.dedent(found)


def _commands(start: str) -> list[list[str]]:
    return [line[2:].partition("#")[0].split() for line in README.splitlines() if line.startswith(f"$ {start}")]


@pytest.fixture
def shop(tmp_path: Path, redis_url: str) -> Iterator[Path]:
    """Lend the folder of a project that is made of the README's blocks, with a worker at work."""
    package = tmp_path / "shop"
    package.mkdir()
    broker = f"CELERY_BROKER_URL = CELERY_RESULT_BACKEND = {redis_url!r}\n"
    files = {
        "__init__.py": "from .celery import app as celery_app\n",
        "settings.py": BASE + _block("settings.py") + broker,
        "celery.py": CELERY + _block("celery.py"),
        "models.py": MODELS,
        "tasks.py": _block("tasks.py"),
    }
    for name, text in files.items():
        (package / name).write_text(text)
    (tmp_path / "manage.py").write_text(MANAGE)
    for command in _commands("python manage.py"):
        _run(tmp_path, [sys.executable, *command[1:]])
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "shop", "worker", "--concurrency=1", "--loglevel=ERROR"],
        cwd=tmp_path,
        env=_environment(tmp_path),
    )
    yield tmp_path
    worker.terminate()
    assert worker.wait(30) == 0


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "CELERY_"))}
    return {**kept, "PYTHONPATH": os.pathsep.join((str(folder), *SOURCES))}


def _run(folder: Path, command: list[str], *, codes: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(
        command, cwd=folder, env=_environment(folder), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in codes, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_quick_start_works_as_it_is_written(shop: Path) -> None:
    sent = _run(shop, [sys.executable, "-c", SEND])
    assert sent.count("'label 5'") == 2
    done = (shop / "outside.log").read_text().split("\n")
    assert sorted(line for line in done if line) == ["label 5", "mail 5", "pickup 5", "points 5"]
    time.sleep(1.5)  # until what was buffered is written
    commands = _commands("celery -A shop replay")
    assert len(commands) == 4
    for command in commands:
        # Nothing failed, and the id in the README is nobody's: nothing found.
        codes = (1,) if "dlq" in command or "show" in command else (0,)
        _run(shop, [sys.executable, "-m", *command], codes=codes)
    listed = _run(shop, [sys.executable, "-m", "celery", "-A", "shop", "replay", "trace", "list"])
    assert listed.count("shop.tasks.ship_order") == 2
