"""How records become rows and rows become records: columns follow from the dataclasses' fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from django.db import models

from celery_replay import records
from celery_replay.exceptions import SchemaMismatch
from celery_replay.states import Word

from . import models as tables
from .fields import TokenField
from .text import restored, stored, token

R = TypeVar("R")
Codec = Callable[[Any], Any] | None


class Table(Generic[R]):
    """One record's table.

    Args:
        record: the dataclass.
        model: the table's model.
        derived: properties of the record that have columns too, to be looked for; not read back.
        leave: fields that are kept elsewhere.
    """

    def __init__(
        self, record: type[R], model: type[models.Model], derived: Sequence[str] = (), leave: Sequence[str] = ()
    ) -> None:
        hints = get_type_hints(record)
        self.record = record
        self.name: str = model._meta.db_table
        self.key: str = str(model._meta.pk.attname)
        self.fields = tuple(f.name for f in fields(record) if f.name not in leave)  # type: ignore[arg-type]
        self.columns = (*self.fields, *derived)
        columns = {f.attname: f for f in model._meta.concrete_fields}
        self._encoders: dict[str, Codec] = {n: _encoder(columns[n], hints.get(n)) for n in self.columns}
        self._decode = tuple(_decoder(columns[name], hints[name]) for name in self.fields)
        self._show = tuple(_decoder(columns[name], hints[name], newer=True) for name in self.fields)
        self.row = self.values(self.columns)
        """Returns a record's values in the order of `columns`."""

    def values(self, names: Sequence[str]) -> Callable[[R], list[Any]]:
        """Return a function that returns a record's values of these columns, as the database takes them."""
        get = attrgetter(*names)
        encoders = tuple(self._encoders[name] for name in names)

        def values(record: R) -> list[Any]:
            return [v if e is None or v is None else e(v) for e, v in zip(encoders, get(record), strict=True)]

        return values

    def read(self, row: Sequence[Any]) -> R:
        """Return the record of a row selected by `fields`.

        Raises:
            SchemaMismatch: it has a word that this version does not know.
        """
        try:
            return self._record(row, self._decode)
        except KeyError as error:
            raise SchemaMismatch(
                f"a row of {self.name} has the word {error}, which this version does not know; upgrade this process"
            ) from error

    def record_of(self, row: models.Model) -> R:
        """Return the record of a row that the ORM has read, for showing: it may have words of a newer version."""
        columns = {f.attname: f for f in row._meta.concrete_fields}
        return self._record([columns[n].get_prep_value(getattr(row, n)) for n in self.fields], self._show)

    def _record(self, row: Sequence[Any], decoders: Sequence[Codec]) -> R:
        values = [v if d is None or v is None else d(v) for d, v in zip(decoders, row, strict=True)]
        return self.record(**dict(zip(self.fields, values, strict=True)))

    def encode(self, name: str, value: Any) -> Any:
        """Return a value as its column has it."""
        encoder = self._encoders[name]
        return value if encoder is None or value is None else encoder(value)


def _encoder(column: models.Field[Any, Any], hint: Any) -> Codec:
    if _words(hint):
        return attrgetter("_value_")
    if isinstance(column, TokenField):
        return partial(token, limit=column.max_length or 255)
    return stored if isinstance(column, models.TextField) else None


def _decoder(column: models.Field[Any, Any], hint: Any, *, newer: bool = False) -> Codec:
    if words := _words(hint):
        return words.known_or_newer if newer else {word.value: word for word in words}.__getitem__
    if isinstance(column, (models.CharField, models.TextField)):
        return restored
    if isinstance(column, models.BinaryField):
        return bytes
    return bool if isinstance(column, models.BooleanField) else None


def _words(hint: Any) -> type[Word] | None:
    found = (h for h in (hint, *get_args(hint)) if isinstance(h, type) and issubclass(h, Word))
    return next(found, None)


JOBS = Table(records.Job, tables.ProcessedJob, derived=["reap_at"])
ROWS = Table(records.Row, tables.ParkedJob)
LETTERS = Table(records.Letter, tables.DeadLetter)
ATTEMPTS = Table(records.AttemptRecord, tables.Attempt)
STEPS = Table(records.StepRecord, tables.StepRecord, derived=["step_id"])
CHUNKS = Table(records.Chunk, tables.TraceChunk, derived=["chunk_id"], leave=["blobs"])
GROUPS = Table(records.Group, tables.LetterGroup)
UNCOUNTED = Table(records.Group, tables.UncountedLetter)
HISTORY = Table(records.HistoryEntry, tables.HistoryEntry)
LEASES = Table(records.Lease, tables.ResourceLease)
HOLDINGS = Table(records.Holding, tables.LeaseHolding, derived=["holding_id"])
PLACED = Table(records.Placed, tables.PlacedBlob)
OPERATIONS = Table(records.Operation, tables.ReplayOperation, derived=["active", "keep_until"])
PORTIONS = Table(records.Portion, tables.OperationPortion, derived=["portion_id"])
WAITERS = Table(records.Waiter, tables.LeaseWaiter, derived=["waiter_id"])
