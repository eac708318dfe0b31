"""Django's backend of a shadow: the project's own, on the one connection that the process has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.db import InterfaceError
from django.db.utils import load_backend
from psycopg import adapters
from psycopg.pq import Format

from ..unannounced import Unannounced
from .session import Session, sessions
from .tables import number

ENGINE = __package__
_ENGINE, _OWNER = "REPLAY_ENGINE", "REPLAY_SHADOW"


def entry(given: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Return the entry of `DATABASES` for a shadow: without addresses and passwords, which nobody needs any more.

    Args:
        given: the live database's.
        owner: the alias that the session was opened for.
    """
    options = {name: value for name, value in given["OPTIONS"].items() if name == "server_side_binding"}
    empty = dict.fromkeys(("USER", "PASSWORD", "HOST", "PORT"), "")
    return {
        **given, **empty, "ENGINE": ENGINE, "OPTIONS": options, "CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False,
        "AUTOCOMMIT": True, "ATOMIC_REQUESTS": False, _ENGINE: given["ENGINE"], _OWNER: owner,
    }  # fmt: skip


class Wrapper(Unannounced):
    """Makes Django's transactions savepoints of the session's."""

    many_rows = True
    overriding = "OVERRIDING SYSTEM VALUE "
    _in_block = False

    @property
    def owner(self) -> str:
        """The alias that its session was opened for."""
        return str(self.settings_dict[_OWNER])

    @property
    def place(self) -> str:
        """What aliases of one database have in common."""
        return f"shadow of {self.owner}"

    def holds(self, table: str) -> bool:
        """Has it a copy of this table?"""
        return table in sessions[self.owner].tables

    def storable(self, value: Any) -> Any:
        """Return a value as the driver takes it."""
        if isinstance(value, str) and "\0" in value:
            raise ValueError("PostgreSQL has no NUL in texts")
        return value

    def number(self, highest: Mapping[str, int]) -> None:
        """Let new rows have numbers above these."""
        number(sessions[self.owner], highest)

    def get_new_connection(self, conn_params: Any) -> Session:
        """Return the process's connection; there can't be another one."""
        found = sessions.get(self.owner)
        if found is None or found.closed:
            raise InterfaceError("this process has no shadow of that database, or has it no more")
        return found

    def connect(self) -> None:
        """Begin to use it."""
        super().connect()
        _register_types(self)

    def create_cursor(self, name: Any = None) -> Any:
        """Make a cursor."""
        from django.db.backends.postgresql.psycopg_any import register_tzloader

        cursor = self.connection.cursor(name, scrollable=False) if name else self.connection.cursor()
        known: Any = self.connection.adapters.get_loader(adapters.types["timestamptz"].oid, Format.TEXT)
        if self.timezone != known.timezone:
            register_tzloader(self.timezone, cursor)
        return cursor

    def _set_autocommit(self, autocommit: bool) -> None:
        with self.wrap_database_errors:
            if autocommit and self._in_block:
                self._in_block = False
                self.connection.end_block()
            elif not autocommit and not self._in_block:
                self.connection.begin_block()
                self._in_block = True

    def _commit(self) -> None:
        if self.connection is not None and self._in_block:
            with self.wrap_database_errors:
                self.connection.commit_block()

    def _rollback(self) -> None:
        if self.connection is not None and self._in_block:
            with self.wrap_database_errors:
                self.connection.roll_block_back()

    def _close(self) -> None:
        if self.connection is not None and self._in_block:
            self._in_block = False
            try:
                self.connection.roll_block_back()
            finally:
                self.connection.end_block()


def _register_types(wrapper: Any) -> None:
    """Do what `django.contrib.postgres` does for each new connection; no other receiver is told of it."""
    from django.apps import apps

    if apps.is_installed("django.contrib.postgres"):
        from django.contrib.postgres.signals import register_type_handlers

        register_type_handlers(wrapper)


def DatabaseWrapper(settings_dict: dict[str, Any], alias: str) -> Any:  # noqa: N802 - Django asks for that name
    """Make a connection's wrapper, from the class that the project has."""
    return _mixed(settings_dict[_ENGINE])(settings_dict, alias)


@cache
def _mixed(engine: str) -> Any:
    theirs = load_backend(engine).DatabaseWrapper
    return type("DatabaseWrapper", (Wrapper, theirs), {})
