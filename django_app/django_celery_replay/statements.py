"""SQL text, made once per dialect and process."""

from __future__ import annotations

from functools import cache
from typing import Any

from .dialects import Dialect
from .tables import Table

BY_CLAIM = " ORDER BY claimed_at, step_id"
"""The order of steps."""


class Statements:
    """The statements of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        # Per instance: a cache on the class would keep every store alive.
        self.select = cache(self._select)
        self.insert = cache(self._insert)
        self.upsert = cache(self._upsert)
        self.update = cache(self._update)
        self.delete = cache(self._delete)

    def columns(self, names: tuple[str, ...]) -> str:
        """Return a list of quoted names."""
        return ", ".join(map(self.dialect.name, names))

    def marks(self, count: int) -> str:
        """Return that many placeholders."""
        return ", ".join([self.dialect.mark] * count)

    def every(self, names: tuple[str, ...]) -> str:
        """Return a condition that compares every named column with a parameter."""
        return " AND ".join(f"{self.dialect.name(name)} = {self.dialect.mark}" for name in names)

    def _select(self, table: Table[Any], where: tuple[str, ...], tail: str = "") -> str:
        condition = f" WHERE {self.every(where)}" if where else ""
        return f"SELECT {self.columns(table.fields)} FROM {table.name}{condition}{tail}"

    def _insert(self, table: Table[Any]) -> str:
        return f"INSERT INTO {table.name} ({self.columns(table.columns)}) VALUES ({self.marks(len(table.columns))})"

    def _upsert(self, table: Table[Any]) -> str:
        return self._insert(table) + self.dialect.upsert(table.key, table.columns)

    def _update(self, table: Table[Any], names: tuple[str, ...], where: tuple[str, ...]) -> str:
        news = ", ".join(f"{self.dialect.name(name)} = {self.dialect.mark}" for name in names)
        return f"UPDATE {table.name} SET {news} WHERE {self.every(where)}"

    def _delete(self, table: Table[Any], where: tuple[str, ...]) -> str:
        return f"DELETE FROM {table.name} WHERE {self.every(where)}"
