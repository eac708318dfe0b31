"""The supported versions of Celery and Django, each pair in an environment of its own: `make test-versions`.

The package is installed as it is handed out, and the tests run on a copy without its source.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.envdir = "build/versions"
nox.options.reuse_venv = "yes"

NEWEST_DJANGO = "6.0" if sys.version_info >= (3, 12) else "5.2"
# Every version is in one pair, and oldest and newest are paired with both ends of the other.
PAIRS = [("5.5", "4.2"), ("5.5", NEWEST_DJANGO), ("5.6", "5.2"), ("5.7", "4.2"), ("5.7", NEWEST_DJANGO)]

BESIDE = ["unit", "rules", "cli", "conformance", "django_store", "django_admin"]
ALONE = ["inprocess"]
WORKERS = ["test_canvas_flows.py", "test_canvas_chords.py", "test_canvas_copies.py", "test_workers_deaths.py"]


def _name(celery: str, django: str) -> str:
    return f"celery{celery}-django{django}".replace(".", "")


@nox.session
@nox.parametrize("celery,django", [nox.param(*pair, id=_name(*pair)) for pair in PAIRS])
def tests(session: nox.Session, celery: str, django: str) -> None:
    """Run what depends on the versions: all but most of the tests with workers."""
    if django == "4.2" and sys.version_info >= (3, 13):
        session.skip("Django 4.2 is for Python 3.12 and older")
    session.install("--upgrade", "pip")
    # With the extra, redis-py is one that this Celery can use.
    session.install(".[test]", f"celery[redis]~={celery}.0", f"django~={django}.0")
    folder = Path(session.create_tmp()) / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("docs", "tests"):
        shutil.copytree(name, folder / name)
    shutil.copy("pyproject.toml", folder)
    session.chdir(folder)
    run = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    session.run(*run, "-n", "2", *(f"tests/{name}" for name in BESIDE))
    session.run(*run, *(f"tests/{name}" for name in ALONE))
    session.run(*run, "-n", "2", "--dist", "loadfile", *(f"tests/end_to_end/{name}" for name in WORKERS))
