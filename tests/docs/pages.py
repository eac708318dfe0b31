"""The pages of the documentation, and the blocks of code on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from tests.support.workers import ROOT

RUN = ("python", "console")
"""Languages of blocks that are executed."""
SHOWN = ("", "text")
"""Languages of blocks that are only looked at: drawings, and what a program prints."""
_EXCUSE = re.compile(r"<!-- not run: (.+?) -->")
_PROJECT = re.compile(r"<!-- project: ([\w ]+) -->")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block."""

    page: str
    line: int
    language: str
    text: str
    excuse: str = ""
    """Why it is not run; empty where it is."""

    @property
    def place(self) -> str:
        """Where it is, as editors take it."""
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Return the names of all pages, from the root of the repository."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(page.relative_to(ROOT)) for page in found if page.exists()]


def text_of(page: str) -> str:
    """Return a page's source."""
    return (ROOT / page).read_text()


def project_of(page: str) -> list[Path]:
    """Return the folders of the project that the page takes as given, one laid over the other; none at first."""
    found = _PROJECT.search(text_of(page))
    return [Path(__file__).parent / "given" / name for name in found[1].split()] if found else []


def blocks(page: str) -> Iterator[Block]:
    """Yield a page's blocks in their order; directives of the documentation's builder are none."""
    before = ""
    for token in MarkdownIt("commonmark").parse(text_of(page)):
        if token.type == "fence" and not token.info.startswith("{"):
            excuse = _EXCUSE.search(before)
            yield Block(
                page=page,
                line=token.map[0] + 1 if token.map else 0,
                language=token.info.strip(),
                text=token.content,
                excuse=excuse[1] if excuse else "",
            )
        before = token.content if token.type == "html_block" else ""
