"""How records become rows and rows become records: columns follow from the dataclasses' fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from django.db import models

from celery_replay import records
from celery_replay.serialization import digest

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
        derived: columns that are computed from the record, to be looked for; not read back.
        leave: fields that are kept elsewhere.
    """

    def __init__(
        self,
        record: type[R],
        model: type[models.Model],
        derived: dict[str, Callable[[R], Any]] | None = None,
        leave: Sequence[str] = (),
    ) -> None:
        derived = derived or {}
        hints = get_type_hints(record)
        self.record = record
        self.name: str = model._meta.db_table
        self.key: str = str(model._meta.pk.attname)
        self.fields = tuple(f.name for f in fields(record) if f.name not in leave)  # type: ignore[arg-type]
        self.columns = (*self.fields, *derived)
        columns = {f.attname: f for f in model._meta.concrete_fields}
        self.encoders: dict[str, Codec] = {n: _encoder(columns[n], hints.get(n)) for n in self.columns}
        self._encode = tuple(self.encoders[name] for name in self.fields)
        self._derive = tuple((self.encoders[name], make) for name, make in derived.items())
        self._decode = tuple(_decoder(columns[name], hints[name]) for name in self.fields)
        self._values = attrgetter(*self.fields)

    def row(self, record: R) -> list[Any]:
        """Return a record's values in the order of `columns`."""
        values = [
            v if e is None or v is None else e(v) for e, v in zip(self._encode, self._values(record), strict=True)
        ]
        for encode, make in self._derive:
            value = make(record)
            values.append(value if encode is None or value is None else encode(value))
        return values

    def read(self, row: Sequence[Any]) -> R:
        """Return the record of a row selected by `fields`."""
        values = [v if d is None or v is None else d(v) for d, v in zip(self._decode, row, strict=True)]
        return self.record(**dict(zip(self.fields, values, strict=True)))

    def encode(self, name: str, value: Any) -> Any:
        """Return a value as its column has it."""
        encoder = self.encoders[name]
        return value if encoder is None or value is None else encoder(value)


def _encoder(column: models.Field[Any, Any], hint: Any) -> Codec:
    if _enum(hint):
        return attrgetter("_value_")
    if isinstance(column, TokenField):
        return partial(token, limit=column.max_length or 255)
    return stored if isinstance(column, models.TextField) else None


def _decoder(column: models.Field[Any, Any], hint: Any) -> Codec:
    if enum := _enum(hint):
        return {member.value: member for member in enum}.__getitem__
    if isinstance(column, (models.CharField, models.TextField)):
        return restored
    if isinstance(column, models.BinaryField):
        return bytes
    return bool if isinstance(column, models.BooleanField) else None


def _enum(hint: Any) -> type[Enum] | None:
    found = (h for h in (hint, *get_args(hint)) if isinstance(h, type) and issubclass(h, Enum))
    return next(found, None)


def step_id(step: records.StepRecord) -> str:
    """Name a step in its table."""
    return digest(step.scope, step.key)


JOBS = Table(records.Job, tables.ProcessedJob, derived={"reap_at": lambda job: job.reap_at})
ROWS = Table(records.Row, tables.ParkedJob)
LETTERS = Table(records.Letter, tables.DeadLetter)
ATTEMPTS = Table(records.AttemptRecord, tables.Attempt)
STEPS = Table(records.StepRecord, tables.StepRecord, derived={"step_id": step_id})
CHUNKS = Table(
    records.Chunk,
    tables.TraceChunk,
    derived={"chunk_id": lambda chunk: f"{chunk.nonce}:{chunk.first}"},
    leave=["blobs"],
)
