"""Every block of code in the documentation is run, in its page's order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import RUN, SHOWN, blocks, pages, project_of
from tests.docs.reader import Reader
from tests.support.net import free_port

_FOLLOWED = [page for page in pages() if any(block.language in RUN for block in blocks(page))]
EXCUSED = 2
"""How many blocks are not run, each with its reason on the page."""


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path: Path, clean_redis_url: str) -> Iterator[Reader]:
    """Lend a reader of the page, in the project that it takes as given."""
    here = {"redis://localhost:6379/0": clean_redis_url, "6390": str(free_port())}
    reader = Reader(tmp_path / "here", here, project_of(request.param))
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
    done = (shop / "outside.log").read_text().split()
    assert sorted(done) == ["label-5", "mail-5", "pickup-5", "points-5"]


_AFTERWARDS = {"README.md": _each_effect_once}
"""What is looked at from outside once a page was followed."""


def test_hardly_any_block_is_not_run() -> None:
    every = [block for page in pages() for block in blocks(page)]
    assert {block.language for block in every} - {*RUN, *SHOWN} == set(), "a language that is neither run nor excused"
    assert [block.place for block in every if block.excuse][EXCUSED:] == []
