"""The difference of two snapshots, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .tree import Tree
from .values import decoded, plain


class Nothing(Enum):
    """Stands for a value that is not there."""

    NOTHING = "nothing"


NOTHING = Nothing.NOTHING


@dataclass(frozen=True, kw_only=True)
class FieldChange:
    """One field of one record."""

    name: str
    before: Any
    after: Any
    """Values as they were; NOTHING where the field was not there."""


@dataclass(frozen=True, kw_only=True)
class RecordChange:
    """One record that was added, removed or changed."""

    state: str
    """The name under which the task declares it."""
    record: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    """All of its fields; None where it was not there."""

    @property
    def fields(self) -> tuple[FieldChange, ...]:
        """The fields that differ, in the order of their names."""
        before, after = self.before or {}, self.after or {}
        pairs = [(name, before.get(name, NOTHING), after.get(name, NOTHING)) for name in sorted({*before, *after})]
        return tuple(FieldChange(name=name, before=old, after=new) for name, old, new in pairs if not _same(old, new))


def changes(before: Tree, after: Tree) -> Iterator[RecordChange]:
    """Compare two snapshots; yield what differs, state by state, in the order of the records' ids."""
    for name in sorted({*before.names, *after.names}):
        old, new = before.differing(after, name)
        for record in sorted({*old, *new}):
            if old.get(record) != new.get(record):
                yield RecordChange(
                    state=name, record=record, before=_fields(old.get(record)), after=_fields(new.get(record))
                )


ROW = ("state", "record", "field", "before", "after")


def as_rows(before: Tree, after: Tree) -> Iterator[dict[str, Any]]:
    """Yield what differs as JSON data, one row for each field, by the names of `ROW`."""
    for change in changes(before, after):
        for field in change.fields:
            values = (change.state, change.record, field.name, _shown(field.before), _shown(field.after))
            yield dict(zip(ROW, values, strict=True))


def _shown(value: Any) -> Any:
    return "(absent)" if value is NOTHING else plain(value)


def _fields(body: bytes | None) -> Mapping[str, Any] | None:
    return None if body is None else decoded(body)


def _same(old: Any, new: Any) -> bool:
    # 1 is not True, and 1.0 is not 1, in a database.
    return type(old) is type(new) and bool(old == new)
