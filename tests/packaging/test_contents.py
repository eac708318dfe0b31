"""What is in the built package, and what it says of itself."""

from __future__ import annotations

import re
import runpy
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT

PACKAGES = (ROOT / "celery_replay", ROOT / "django_app" / "django_celery_replay")
FOR_TESTS = {"docs/reference/settings.md", "example_project/demo.py", "noxfile.py", "tests/conftest.py"}


def test_the_wheel_has_the_code_with_its_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = [(package, file) for package in PACKAGES for file in package.rglob("*") if file.is_file()]
    wanted = {str(file.relative_to(package.parent)) for package, file in files if "__pycache__" not in file.parts}
    assert found == wanted


def test_the_source_distribution_can_be_tested(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "README.md", "CHANGELOG.md", "LICENSE", *FOR_TESTS} <= found


@pytest.fixture
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@pytest.fixture
def stated() -> dict[str, list[str]]:
    """Return what the documentation says, by package."""
    page = (ROOT / "docs/reference/versions.md").read_text()
    rows = re.findall(r"^\| (Python|Celery|Django) \| ([^|]*) \|", page, re.MULTILINE)
    return {name: re.findall(r"[\d.]+\d", versions) for name, versions in rows}


def _classified(metadata: Message, prefix: str) -> list[str]:
    found = [each.removeprefix(prefix) for each in metadata.get_all("Classifier", []) if each.startswith(prefix)]
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def test_the_metadata_names_the_versions_that_are_documented(metadata: Message, stated: dict[str, list[str]]) -> None:
    requirements = metadata.get_all("Requires-Dist", [])
    assert f"celery>={stated['Celery'][0]}" in requirements
    assert f"django>={stated['Django'][0]}; extra == 'django'" in requirements
    assert _classified(metadata, "Framework :: Django :: ") == stated["Django"]
    pythons = _classified(metadata, "Programming Language :: Python :: 3.")
    assert [f"3.{pythons[0]}", f"3.{pythons[-1]}"] == stated["Python"]
    assert metadata["Requires-Python"] == f">=3.{pythons[0]}"


def test_the_tests_run_on_the_versions_that_are_documented(stated: dict[str, list[str]]) -> None:
    pytest.importorskip("nox")
    celeries, djangos = zip(*runpy.run_path(str(ROOT / "noxfile.py"))["PAIRS"], strict=True)
    assert sorted(set(celeries)) == stated["Celery"]
    assert sorted(set(djangos)) == [each for each in stated["Django"] if each in djangos] != []
