"""A database for one run."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

from tests.support import mariadb_server, postgres_server, project_database
from tests.support.net import ServerUnavailable

VENDORS = ("postgresql", "mariadb", "sqlite")


def create(vendor: str, stack: ExitStack) -> str:
    """Create one, on a server that runs here or on one of our own; return its URL. It goes with the stack."""
    if vendor == "sqlite":
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="celery-replay-scale-"))
        return f"sqlite:///{folder}/replay.sqlite3"
    if vendor == "mariadb":
        found = mariadb_server.shared(stack)
        if found is None:
            raise ServerUnavailable("no MariaDB: start one on port 3306 that lets root in")
        return found
    if named := os.environ.get("REPLAY_POSTGRES_URL"):
        return project_database.copied(named, "template1", stack)
    return postgres_server.shared(stack) or postgres_server.private(stack)
