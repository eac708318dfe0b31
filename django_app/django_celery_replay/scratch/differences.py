"""What a scratch database has otherwise than the live one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from celery_replay.serialization import safe_text
from celery_replay.states import Word


class Kind(Word):
    """What differs."""

    REDACTED = "redacted"
    """A secret was never written down; a stand-in is in its place, or its text is redacted in part."""
    NEW_FIELD = "new-field"
    """The field did not exist when the snapshot was taken; it has its default, null or a stand-in."""
    FIELD_GONE = "field-gone"
    """The field does not exist today, under this name at least; its value is left out."""
    MODEL_GONE = "model-gone"
    """The model does not exist today, under this name at least; its rows are left out."""
    NOT_HELD = "not-held"
    """The value can't be in this field today, or not on SQLite; a stand-in is in its place."""
    ALTERED = "altered"
    """The row was filled, and says something else than the snapshot."""
    LEFT_OUT = "left-out"
    """The row could not be filled."""
    READ_TWICE = "read-twice"
    """Two states of the snapshot have the row, and it changed between them; the first one is filled."""
    NO_TABLE = "no-table"
    """SQLite can't have the model's table."""
    NOT_ENFORCED = "not-enforced"
    """A constraint, an index or a default of the live database is not there."""
    KEPT_AS_TEXT = "kept-as-text"
    """The field is of PostgreSQL; it can be read and written, not searched."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that differs, and where."""

    kind: Kind
    model: str
    """Its label, such as `shop.order`; empty where it is true of all."""
    field: str = ""
    """The name of its column in records, such as `customer_id`; empty where it is of whole rows or tables."""
    detail: str = ""
    records: Sequence[str] = ()
    """Ids of the records; none where it is of the table."""

    def __str__(self) -> str:
        place = ".".join(filter(None, (self.model, self.field)))
        more = f" and {len(self.records) - 1} more" if self.records[1:] else ""
        of = f" of {self.records[0]}{more}" if self.records else ""
        told = f"{self.kind.value.replace('-', ' ')} {place}".rstrip() + of
        return f"{told}: {self.detail}" if self.detail else told


class Differences:
    """Collects differences; those of many rows are one."""

    def __init__(self) -> None:
        self._found: dict[tuple[Kind, str, str, str], dict[str, None]] = {}
        self._places: set[tuple[str, str]] = set()

    def add(self, kind: Kind, model: str, field: str = "", detail: object = "", record: str = "") -> None:
        """Note one."""
        records = self._found.setdefault((kind, model, field, safe_text(detail, 300)), {})
        if record:
            records[record] = None
            if kind is not Kind.READ_TWICE:
                self._places.add((record, field))

    def has(self, record: str, field: str = "") -> bool:
        """Is it noted already that this field, or the whole of the record, is not as it was?"""
        return (record, field) in self._places

    def listed(self) -> Sequence[Difference]:
        """Return them all, in the order in which they were found."""
        return [
            Difference(kind=kind, model=model, field=field, detail=detail, records=tuple(records))
            for (kind, model, field, detail), records in self._found.items()
        ]
