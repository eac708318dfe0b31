"""Django's SQLite backend, made to hold what richer databases hold: exact decimals, arrays, ranges.

Foreign keys are not enforced: a snapshot has the rows that a job works on, not all that they refer to.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from decimal import Context, Decimal, DecimalException
from typing import Any

from django.db.backends.sqlite3 import base, features, operations, schema
from django.db.models.expressions import Col

from celery_replay.snapshots.values import decoded, encoded

from ..state_provider import RANGE, is_range, kept_range
from ..unannounced import Unannounced

ENGINE = __package__
_DECIMAL = "replay_decimal"
"""A collation: decimals are text, and are compared as numbers."""
_PLAIN = frozenset({"binary", "nocase", "rtrim"})
_CAST = re.compile(r"%s::\w+(?: unsigned| precision| varying)?(?:\([\d, ]+\))?(?:\[\d*\])*")
"""PostgreSQL's cast, which its fields add to their parameters."""
_FIFTEEN = Context(prec=15)

sqlite3.register_converter("decimaltext", lambda text: Decimal(text.decode()))


def adapted(value: Any) -> Any:
    """Return a parameter as SQLite can store it: arrays, mappings and ranges as text that keeps their types."""
    if isinstance(value, (list, tuple, dict)) or is_range(value):
        return encoded(_without_ranges(value)).decode("utf-8", "surrogatepass")
    return value


def _without_ranges(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_without_ranges(item) for item in value]
    return kept_range(value) if is_range(value) else value


def as_range(field: Any, value: Any) -> Any:
    """Return a range as the field has it; any other field's value is returned as it is."""
    if not hasattr(field, "range_type") or not isinstance(value, Mapping):
        return value
    made_from = value[RANGE]
    return field.range_type(empty=True) if made_from is None else field.range_type(*made_from)


tables_used: set[str] = set()
"""Tables that statements of this process were about, as far as Django wrote them."""
_TABLE = re.compile(r'(?:FROM|JOIN|UPDATE|INTO)\s+"([^"]+)"')


class Cursor(base.SQLiteCursorWrapper):
    """Takes parameters that SQLite has no type for."""

    def execute(self, query: Any, params: Any = None) -> Any:
        """Run a statement."""
        tables_used.update(_TABLE.findall(query))
        return super().execute(query, None if params is None else _all_adapted(params))

    def executemany(self, query: Any, param_list: Iterable[Any]) -> Any:
        """Run a statement for each list of parameters."""
        tables_used.update(_TABLE.findall(query))
        return super().executemany(query, (_all_adapted(params) for params in param_list))

    def convert_query(self, query: str, **named: Any) -> str:
        """Convert placeholders."""
        found: str = super().convert_query(_CAST.sub("%s", query) if "%s::" in query else query, **named)
        return found


def _all_adapted(params: Any) -> Any:
    if isinstance(params, Mapping):
        return {name: adapted(value) for name, value in params.items()}
    return tuple(map(adapted, params))


class Features(features.DatabaseFeatures):
    """What this backend can do."""

    supports_foreign_keys = False


class Operations(operations.DatabaseOperations):
    """Conversions of values."""

    def get_db_converters(self, expression: Any) -> list[Any]:
        """Return what converts the values of an expression."""
        return [*super().get_db_converters(expression), *self._own(expression.output_field)]

    def _own(self, field: Any) -> list[Any]:
        if hasattr(field, "range_type"):
            return [_decoding(lambda value: as_range(field, value))]
        if hasattr(field, "base_field"):
            return [_decoding(self._array(field.base_field))]
        is_mapping = any(kind.__name__ == "HStoreField" for kind in type(field).__mro__)
        return [_decoding(lambda value: value)] if is_mapping else []

    def _array(self, field: Any) -> Any:
        expression = Col("", field)
        converters = self.get_db_converters(expression)
        if not hasattr(field, "from_db_value"):  # an array calls this itself
            converters += field.get_db_converters(self.connection)

        def convert(items: Any) -> list[Any]:
            for one in converters:
                items = [one(item, expression, self.connection) for item in items]
            return list(items)

        return convert

    def get_decimalfield_converter(self, expression: Any) -> Any:
        """Return what converts a decimal; a calculated one has the fifteen digits that SQLite calculates with."""
        field = expression.output_field if isinstance(expression, Col) else None

        def convert(value: Any, *_: Any) -> Decimal | None:
            if value is None:
                return None
            number = _FIFTEEN.create_decimal_from_float(value) if isinstance(value, float) else Decimal(value)
            return number if field is None else _rounded(number, field)

        return convert


def _rounded(number: Decimal, field: Any) -> Decimal:
    try:
        return number.quantize(Decimal(1).scaleb(-field.decimal_places), context=field.context)
    except DecimalException:  # it has more digits than the field; no length is enforced here
        return number


def _decoding(convert: Any) -> Any:
    def from_text(value: Any, *_: Any) -> Any:
        return convert(decoded(value.encode("utf-8", "surrogatepass"))) if isinstance(value, str) else value

    return from_text


class SchemaEditor(schema.DatabaseSchemaEditor):
    """Makes tables without what SQLite does not have."""

    sql_create_inline_fk = None
    defaults = True
    """Are the database's own defaults made?"""

    def db_default_sql(self, field: Any) -> Any:
        """Return a column's default."""
        return super().db_default_sql(field) if self.defaults else ("NULL", [])

    def _iter_column_sql(self, column_db_type: str, *args: Any) -> Iterator[str]:
        # An array's type is no name to SQLite.
        yield from super()._iter_column_sql("text" if "[" in column_db_type else column_db_type, *args)  # type: ignore[misc]

    def _collate_sql(self, collation: Any, *args: Any, **named: Any) -> str:
        known = collation and collation.lower() in _PLAIN
        return str(super()._collate_sql(collation, *args, **named)) if known else ""  # type: ignore[misc]


class DatabaseWrapper(Unannounced, base.DatabaseWrapper):
    """A connection to a scratch database."""

    many_rows = False
    overriding = ""
    data_types = {**base.DatabaseWrapper.data_types, "DecimalField": "decimaltext"}
    data_types_suffix = {**base.DatabaseWrapper.data_types_suffix, "DecimalField": f"COLLATE {_DECIMAL}"}
    features_class = Features
    ops_class = Operations
    SchemaEditorClass = SchemaEditor

    @property
    def place(self) -> str:
        """What aliases of one database have in common."""
        return str(self.settings_dict["NAME"])

    def storable(self, value: Any) -> Any:
        """Return what the driver takes, and gives back."""
        value = adapted(value)
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, float) and math.isnan(value):
            raise ValueError("SQLite takes NaN for null")
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise OverflowError("SQLite has integers of 64 bits")
        return value

    def number(self, highest: Mapping[str, int]) -> None:
        """Let new rows have numbers above these."""
        with self.cursor() as cursor:
            there = self.introspection.table_names(cursor)
            for table, most in highest.items():
                if table not in there:
                    continue
                cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [table])
                cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table, most])

    def get_new_connection(self, conn_params: Any) -> Any:
        """Connect."""
        connection = super().get_new_connection(conn_params)
        connection.create_collation(_DECIMAL, _compared)
        connection.execute("PRAGMA foreign_keys = OFF")
        # It is thrown away anyway.
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def create_cursor(self, name: Any = None) -> Any:
        """Make a cursor."""
        return self.connection.cursor(factory=Cursor)


def _compared(one: str, other: str) -> int:
    a: Any
    b: Any
    try:
        a, b = Decimal(one), Decimal(other)
        return int(a > b) - int(a < b)
    except DecimalException:  # a text that is no number, or NaN
        return (one > other) - (one < other)
