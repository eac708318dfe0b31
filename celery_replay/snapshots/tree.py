"""Many records as few blobs under their digests: what did not change is stored once, in however many snapshots it is.

A blob is lines of text, compressed: what it is, then its records, an id and the fields each. A manifest has the records
of small states itself; those of others are in parts, and where there are many parts, so are the lists of them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

from ..exceptions import SnapshotUnreadable
from ..serialization import bytes_digest, canonical_bytes, packed, unpacked

Bodies = Mapping[str, bytes]
"""Records by their ids: the fields of each as `values.encoded` makes them."""
Fetch = Callable[[Sequence[str]], Mapping[str, bytes]]
"""Gets blobs by their references; those that are gone are not among them."""

T = TypeVar("T")

FORMAT = 1
INLINE = 2_048
"""Bytes of records that a manifest holds itself; most snapshots are of a few rows."""
_TOGETHER = 16
"""How many make one part, on average. Its last name decides where one ends, so whatever is added moves no other end."""
_MOST = 128


@dataclass(frozen=True, kw_only=True)
class Built:
    """A snapshot, not stored yet."""

    reference: str
    """Of its manifest: equal where, and only where, all records are."""
    blobs: Mapping[str, bytes] = field(repr=False)
    """All that it consists of."""
    count: int


def build(states: Mapping[str, Bodies]) -> Built:
    """Lay out records by the names of the states that they belong to."""
    blobs: dict[str, bytes] = {}
    laid_out, own = {}, []
    for name, bodies in sorted(states.items()):
        ordered = sorted(bodies.items())
        if sum(len(record) + len(body) for record, body in ordered) <= INLINE:
            laid_out[name] = {"records": len(ordered)}
            own += ordered
        else:
            laid_out[name] = _lay_out(ordered, blobs)
    reference = _put(blobs, {"states": laid_out}, own)
    return Built(reference=reference, blobs=blobs, count=sum(map(len, states.values())))


def _lay_out(ordered: Sequence[tuple[str, bytes]], blobs: dict[str, bytes]) -> dict[str, Any]:
    parts = [_put(blobs, {}, some) for some in _cut(ordered, itemgetter(0))]
    depth = 0
    while len(parts) > _MOST:
        parts = [_put(blobs, {"parts": some}) for some in _cut(parts, str)]
        depth += 1
    return {"depth": depth, "parts": parts}


def _cut(items: Sequence[T], name: Callable[[T], str]) -> Iterator[Sequence[T]]:
    begun = 0
    for number, item in enumerate(items, 1):
        if number - begun >= _MOST or zlib.crc32(name(item).encode("utf-8", "surrogatepass")) % _TOGETHER == 0:
            yield items[begun:number]
            begun = number
    if begun < len(items):
        yield items[begun:]


def _put(blobs: dict[str, bytes], head: Mapping[str, Any], records: Sequence[tuple[str, bytes]] = ()) -> str:
    lines = [
        canonical_bytes({"v": FORMAT, **head}),
        *(b"%b\t%b" % (_quoted(name), body) for name, body in records),
    ]
    text = b"\n".join(lines)
    # By what it says, not by how that is compressed.
    reference = bytes_digest(text)
    blobs[reference] = packed(text)
    return reference


def _quoted(name: str) -> bytes:
    """Return a name as JSON; most have nothing that is written in another way."""
    if name.isascii() and name.isprintable() and '"' not in name and "\\" not in name:
        return b'"%b"' % name.encode()
    return canonical_bytes(name)


@dataclass(frozen=True, kw_only=True)
class _Level:
    """A state as it is known so far."""

    depth: int
    """How many lists of parts are between these parts and the records."""
    parts: tuple[str, ...] = ()
    own: Bodies = field(default_factory=dict)
    """The records that the manifest holds itself."""

    def without(self, parts: Collection[str]) -> _Level:
        return replace(self, parts=tuple(part for part in self.parts if part not in parts))


class Tree:
    """A stored snapshot; blobs are fetched as they are needed, each once.

    Raises `SnapshotUnreadable` where one is gone or damaged.
    """

    def __init__(self, reference: str, fetch: Fetch) -> None:
        self.reference = reference
        self._fetch = fetch
        manifest = self._load([reference])[reference]
        rest = iter(manifest.records)
        self._states = {name: _level(state, rest) for name, state in manifest.head["states"].items()}

    @property
    def names(self) -> Sequence[str]:
        """The names of its states."""
        return sorted(self._states)

    def records(self, name: str) -> Bodies:
        """Return a state's records."""
        level = self._top(name)
        while level.depth:
            level = self._down(level)
        return self._open(level)

    def differing(self, other: Tree, name: str) -> tuple[Bodies, Bodies]:
        """Return those records of a state, here and there, that may differ: what is surely equal is not fetched."""
        here, there = self._top(name), other._top(name)
        while True:
            if here.depth == there.depth:
                common = {*here.parts} & {*there.parts}
                here, there = here.without(common), there.without(common)
                if not here.depth:
                    return self._open(here), other._open(there)
            deeper = here.depth - there.depth
            here = self._down(here) if deeper >= 0 else here
            there = other._down(there) if deeper <= 0 else there

    def references(self) -> set[str]:
        """Return the references of all that it consists of."""
        found = {self.reference}
        for name in self._states:
            level = self._top(name)
            found.update(level.parts)
            while level.depth:
                level = self._down(level)
                found.update(level.parts)
        return found

    def _top(self, name: str) -> _Level:
        return self._states.get(name) or _Level(depth=0)

    def _down(self, level: _Level) -> _Level:
        found = self._load(level.parts)
        return _Level(
            depth=level.depth - 1, parts=tuple(p for above in level.parts for p in found[above].head["parts"])
        )

    def _open(self, level: _Level) -> Bodies:
        found = self._load(level.parts)
        return {**level.own, **{name: body for part in level.parts for name, body in found[part].records}}

    def _load(self, references: Sequence[str]) -> Mapping[str, _Blob]:
        found = self._fetch(references) if references else {}
        return {reference: _read(reference, found.get(reference)) for reference in references}


def _level(state: Mapping[str, Any], rest: Iterator[tuple[str, bytes]]) -> _Level:
    if "records" in state:
        return _Level(depth=0, own=dict(islice(rest, state["records"])))
    return _Level(depth=state["depth"], parts=tuple(state["parts"]))


@dataclass(frozen=True, kw_only=True)
class _Blob:
    head: Mapping[str, Any]
    records: Sequence[tuple[str, bytes]]


def _read(reference: str, body: bytes | None) -> _Blob:
    if body is None:
        raise SnapshotUnreadable(f"its part {reference} is gone; was its trace pruned?")
    try:
        text = unpacked(body)
        if bytes_digest(text) != reference:
            raise SnapshotUnreadable(f"its part {reference} is damaged")
        first, *lines = text.split(b"\n")
        head = json.loads(first)
        if head["v"] != FORMAT:
            raise SnapshotUnreadable(
                f"it was written in format {head['v']!r}, and this version reads {FORMAT}: upgrade"
            )
        named = (line.partition(b"\t") for line in lines)
        return _Blob(head=head, records=[(_name(name), fields) for name, _, fields in named])
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error) as error:
        raise SnapshotUnreadable(f"its part {reference} can't be read: {type(error).__name__}") from error


def _name(line: bytes) -> str:
    return str(json.loads(line.decode("utf-8", "surrogatepass")))
