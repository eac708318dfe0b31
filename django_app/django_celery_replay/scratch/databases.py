"""Taking a forked child's databases away from it, and giving it scratch databases in their place."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.db import InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from .schema import Template, entry

_SERVER = ("ENGINE", "HOST", "PORT", "NAME")
_NONE: Mapping[str, Any] = {}


def replace_databases(folder: Path, template: Template, others: Mapping[str, Mapping[str, Any]] = _NONE) -> None:
    """Replace all databases of the project, for all threads of this process, by scratch databases.

    It is for a child process, just after its fork and before its first query. The connections that it inherited belong
    to its parent: they are neither closed nor told anything; nobody can use them here any more. Aliases of the same
    live database, and mirrors of it (`TEST["MIRROR"]`), share one scratch database.

    Args:
        folder: private to this process, best in memory such as below /dev/shm; it is the caller's to remove.
        others: entries that databases are given which are to be no scratch ones, by their aliases.

    Raises:
        OSError: the folder can't be written. No live database is in reach then, either.
    """
    databases = connections.settings
    owners = owners_of(databases)
    numbers = {alias: number for number, alias in enumerate(databases)}
    files = {alias: folder / f"{numbers[owners[alias]]}.sqlite3" for alias in databases}
    replaced = {owners[alias]: other for alias, other in others.items()}
    inherited = connections.all(initialized_only=True)
    for alias, path in files.items():
        for known in (databases, settings.DATABASES):
            if alias in known:
                # In place: whoever holds an entry has its address and password no more.
                known[alias].clear()
                known[alias].update(replaced.get(owners[alias]) or entry(path))
    for wrapper in inherited:
        _forget(wrapper)
        del connections[wrapper.alias]
    for path in {*files.values()}:
        shutil.copyfile(template.path, path)


def owners_of(databases: Mapping[str, Any]) -> dict[str, str]:
    """Return for each alias the first one of the same live database."""
    owners: dict[str, str] = {}
    by_server: dict[tuple[str, ...], str] = {}
    for alias, known in databases.items():
        server = tuple(str(known.get(name, "")) for name in _SERVER)
        in_memory = not known.get("NAME") or ":memory:" in str(known["NAME"])
        owners[alias] = alias if in_memory else by_server.setdefault(server, alias)
    mirrors = {alias: known.get("TEST", {}).get("MIRROR") for alias, known in databases.items()}
    return {alias: owners[mirrored if mirrored in owners else alias] for alias, mirrored in mirrors.items()}


def _forget(wrapper: BaseDatabaseWrapper) -> None:
    """Make a connection of the parent's one that can't be used, without a word to its server.

    Its object must live on. Drivers end a session when they are collected, and SQLite would roll back what its parent
    has open.
    """
    connection, wrapper.connection = wrapper.connection, None
    wrapper.connect = _refuse  # type: ignore[method-assign]
    if connection is None:
        return
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    # The number stays taken, or the next file that is opened would be what the driver takes for its socket.
    with suppress(Exception):  # a driver that does not tell, or a connection that is lost already
        number = (connection if hasattr(connection, "fileno") else connection._sock).fileno()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, number, inheritable=False)
        os.close(nowhere)


def _refuse() -> NoReturn:
    raise InterfaceError("this connection is another process's; ask django.db.connections for the one of here")
