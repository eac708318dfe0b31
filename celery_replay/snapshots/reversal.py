"""Putting back what an attempt changed: for each record what is to be written, and whether it can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ..redaction import REDACTED
from .capture import StateProvider
from .changes import ROW, RecordChange
from .values import Opaque, Redacted, encoded, plain


class Way(str, Enum):
    """How a record is put back."""

    UPDATE = "update"
    """The fields that were changed get the values that they had."""
    INSERT = "insert"
    """It was removed, and is added again."""
    DELETE = "delete"
    """It was added, and is removed again."""


@dataclass(frozen=True, kw_only=True)
class Reversal:
    """What becomes of one record."""

    change: RecordChange
    """What the attempt did."""
    refusal: str = ""
    """Why it can't be put back; empty where it can, or was."""

    @property
    def way(self) -> Way:
        """How it is put back."""
        if self.change.before is None:
            return Way.DELETE
        return Way.INSERT if self.change.after is None else Way.UPDATE

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield what is written, as JSON data: one row for each field, or for all of a record that goes."""
        said = {"way": self.way.value, "said": self.refusal}
        names = {"state": self.change.state, "record": self.change.record}
        if self.way is Way.DELETE:
            yield {**names, "field": "(all)", "now": "", "then": "(absent)", **said}
            return
        for field in self.change.fields:
            now = "(absent)" if self.way is Way.INSERT else plain(field.after)
            yield {**names, "field": field.name, "now": now, "then": plain(field.before), **said}


COLUMNS = (*ROW[:3], "now", "then", "way", "said")


class Reverter(StateProvider, Protocol):
    """A provider whose `reverts` is true: it can put its values back."""

    def revert(
        self, changes: Sequence[RecordChange], *, using: str = "", version_field: str = "", apply: bool, partly: bool
    ) -> Sequence[Reversal]:
        """Put records back, each only where it still is as the attempt left it; return one reversal for each.

        Args:
            changes: what an attempt did, for records of this provider's kinds and others, which it refuses.
            using: the database; by default each record's own.
            version_field: where a record has it, it alone is compared, and raised by one.
            apply: write. Otherwise only look.
            partly: write what can be; otherwise nothing where something can't.
        """


def is_redacted(value: Any) -> bool:
    """Was a value, or a part of it, not written down?"""
    return value is Redacted.REDACTED or REDACTED.encode() in encoded(value)


def unwritable(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    """Say which of these fields can't be written, as their values were not recorded; empty where all can."""
    for name in names:
        value = fields.get(name)
        if is_redacted(value):
            return f"{name} is secret, and was not recorded"
        if isinstance(value, Opaque):
            return f"{name} was recorded as text: its type is not known"
    return ""
