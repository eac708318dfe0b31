"""A PgBouncer of our own in front of a PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.net import LOCALHOST, answers, free_port
from tests.support.processes import LoggedProcess

UNPRIVILEGED_USER = "nobody"


def binary() -> str | None:
    """Find the program; None where it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def start(url: str, mode: str, stack: ExitStack) -> int:
    """Start one in front of the server of a database; return its port.

    Args:
        mode: `session`, `transaction` or `statement`: when a connection is given back.
    """
    folder = Path(tempfile.mkdtemp(prefix="celery-replay-pgbouncer-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    server, port = urlsplit(url), free_port()
    (folder / "users.txt").write_text('"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={server.hostname} port={server.port or 5432}\n"
        f"[pgbouncer]\nlisten_addr = {LOCALHOST}\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {folder}/users.txt\npool_mode = {mode}\n"
    )
    # It refuses to run as root.
    user = UNPRIVILEGED_USER if os.geteuid() == 0 else None
    folder.chmod(0o755)
    process = LoggedProcess([str(binary()), str(folder / "pgbouncer.ini")], folder / "log", user=user)
    process.launch()
    stack.callback(process.kill)
    process.wait_for(lambda: answers(port), 10, "PgBouncer answers")
    return port
