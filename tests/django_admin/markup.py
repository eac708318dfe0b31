"""Pages as text and as tags."""

from __future__ import annotations

from html.parser import HTMLParser


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.extend(data.split())


def text_of(html: str) -> str:
    """Return what a reader sees, in one line."""
    reader = _Reader()
    reader.feed(html.replace("<wbr>", ""))
    return " ".join(reader.words)


def tags_of(html: str) -> list[tuple[str, dict[str, str | None]]]:
    """Return all tags with their attributes."""
    reader = _Reader()
    reader.feed(html)
    return reader.tags
