"""Writing the rows of a snapshot into scratch databases."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import Error, connections, router, transaction
from django.db.models import Field, Model, QuerySet

from celery_replay.snapshots.tree import Tree
from celery_replay.snapshots.values import encoded

from ..state_provider import DjangoState
from ..unannounced import Unannounced
from .differences import Difference, Differences, Kind
from .rows import Decoder, Recorded, Row, own_fields, recorded, tables_of

_BATCH = 500
_NUMBERED = frozenset({"AutoField", "SmallAutoField", "BigAutoField"})


@dataclass(frozen=True, kw_only=True)
class Filled:
    """What a scratch database was given."""

    rows: Mapping[str, int]
    """How many rows of each model are there as records of the snapshot, by its label."""
    differences: Sequence[Difference]


def fill(tree: Tree, aliases: Collection[str] | None = None) -> Filled:
    """Write the rows of a snapshot, with their ids, as they were: no signals are sent, and nothing is set to now.

    Afterwards they are read as a snapshot reads them; what is not what was recorded is among the differences. New rows
    get ids above those that are there or are referred to.

    Args:
        aliases: the databases that are given them. A snapshot does not tell where its rows were: where there are none
            the routers say, for each model, where it is read and written.

    Raises:
        SnapshotUnreadable: a part of the snapshot is gone or damaged.
        RuntimeError: a database is no scratch database; nothing was written.
    """
    found = Differences()
    records = recorded(tree, found)
    places = {model: places_of(model, aliases) for model in records}
    used = sorted({alias for some in places.values() for alias in some})
    for alias in used:
        if not isinstance(connections[alias], Unannounced):
            raise RuntimeError(f"{alias!r} is no scratch database: call replace_databases() first")
    rows: dict[str, int] = {}
    for alias in used:
        here = {model: records[model] for model in records if alias in places[model]}
        _Filling(alias, found).fill(here)
        rows |= {model._meta.label_lower: _confirmed(model, here[model], alias, found) for model in here}
    return Filled(rows=rows, differences=found.listed())


def places_of(model: type[Model], aliases: Collection[str] | None) -> Sequence[str]:
    """Return one alias of each database."""
    named = aliases or [router.db_for_write(model), router.db_for_read(model)]
    places: dict[str, str] = {}
    for alias in sorted(named):
        places[getattr(connections[alias], "place", alias)] = alias
    return [*places.values()]


class _Filling:
    def __init__(self, alias: str, found: Differences) -> None:
        self._alias = alias
        self._found = found
        self._connection: Any = connections[alias]
        self._highest: dict[str, int] = {}
        """What ids of a table are in use, as far as is known."""

    def fill(self, records: Recorded) -> None:
        tables: dict[type[Model], dict[tuple[Any, ...], tuple[str, Row]]] = {}
        for model, some in records.items():
            for record, row in Decoder(model, self._connection, self._found).rows(some):
                for table in tables_of(model):
                    # A parent's row may be recorded by itself, too.
                    tables.setdefault(table, {}).setdefault(_key(table, row), (record, row))
        with transaction.atomic(using=self._alias):
            for table, rows in tables.items():
                self._write(table, [*rows.values()])
            self._connection.number(self._highest)

    def _write(self, table: type[Model], rows: Sequence[tuple[str, Row]]) -> None:
        if not self._connection.holds(table._meta.db_table):
            for record, _ in rows:
                self._found.add(Kind.LEFT_OUT, table._meta.label_lower, detail="it has no table", record=record)
            return
        fields = own_fields(table)
        # What a row is not given has the database's default.
        alike: dict[tuple[Any, ...], list[tuple[str, Row]]] = {}
        for record, row in rows:
            alike.setdefault(tuple(one for one in fields if one.attname in row), []).append((record, row))
        for given, some in alike.items():
            for begun in range(0, len(some), _BATCH):
                self._write_batch(table, given, some[begun : begun + _BATCH])
            for field in given:
                self._note_highest(field, [row[field.attname] for _, row in some])

    def _write_batch(self, table: type[Model], fields: Sequence[Any], rows: Sequence[tuple[str, Row]]) -> None:
        if self._insert(table, fields, [row for _, row in rows]) is None:
            return
        for record, row in rows:
            error = self._insert(table, fields, [row])
            if error is not None:
                self._found.add(Kind.LEFT_OUT, table._meta.label_lower, detail=error, record=record)

    def _insert(self, table: type[Model], fields: Sequence[Any], rows: Sequence[Row]) -> Error | None:
        quote = self._connection.ops.quote_name
        columns = ", ".join(quote(field.column) for field in fields).replace("%", "%%")
        into = quote(table._meta.db_table).replace("%", "%%")
        values = "(" + ", ".join(["%s"] * len(fields)) + ")"
        sql = f"INSERT INTO {into} ({columns}) {self._connection.overriding}VALUES "
        given = [[row[field.attname] for field in fields] for row in rows]
        try:
            with transaction.atomic(using=self._alias), self._connection.cursor() as cursor:
                if self._connection.many_rows:
                    cursor.execute(sql + ", ".join([values] * len(given)), [one for row in given for one in row])
                else:
                    cursor.executemany(sql + values, given)
        except Error as error:
            return error
        return None

    def _note_highest(self, field: Field[Any, Any], values: Sequence[Any]) -> None:
        target: Any = field
        while target.remote_field:
            target = target.target_field
        if target.primary_key and target.get_internal_type() in _NUMBERED:
            table = target.model._meta.db_table
            numbers = [value for value in values if isinstance(value, int)]
            self._highest[table] = max([self._highest.get(table, 0), *numbers])


def _key(table: type[Model], row: Row) -> tuple[Any, ...]:
    fields = getattr(table._meta, "pk_fields", [table._meta.pk])
    return tuple(row.get(field.attname) for field in fields)


def _confirmed(model: type[Model], records: Mapping[str, Mapping[str, Any]], alias: str, found: Differences) -> int:
    """Compare what is there with what was recorded; return how many rows are there."""
    label = model._meta.label_lower
    wrapper: Any = connections[alias]
    if not all(wrapper.holds(table._meta.db_table) for table in tables_of(model)):
        return 0
    try:
        there = dict(DjangoState().records(QuerySet(model, using=alias), len(records) + _MORE) or ())
    except Exception as error:  # there is no such table, or a user's field can't read what is there
        found.add(Kind.LEFT_OUT, label, detail=error)
        return 0
    for record, fields in records.items():
        if record in there:
            for name in _altered(fields, there[record]):
                if not found.has(record, name):
                    found.add(Kind.ALTERED, label, name, record=record)
        elif not found.has(record):
            found.add(Kind.LEFT_OUT, label, detail="it has another id", record=record)
    return len(records.keys() & there.keys())


_MORE = 10_000_000
"""A parent's table has the rows of its children, too."""


def _altered(recorded: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    for name in recorded.keys() & there.keys():
        if encoded(recorded[name]) != encoded(there[name]):
            yield name
