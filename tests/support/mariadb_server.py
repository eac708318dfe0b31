"""A database for the tests on a MariaDB server that runs here; there is no wheel to fall back on.

Django speaks to MariaDB by mysqlclient, which has to be compiled; tests use PyMySQL, the same interface in Python.
"""

from __future__ import annotations

import os
import uuid
from contextlib import ExitStack

import pymysql

from tests.support.net import LOCALHOST, answers

PORT = 3306

# Django asks the driver's version; PyMySQL would give its own.
pymysql.version_info = (2, 2, 7, "final", 0)
pymysql.install_as_MySQLdb()


def shared(stack: ExitStack, host: str = LOCALHOST, port: int = PORT) -> str | None:
    """Create a database on a running server that lets us in; None when there is none."""
    if not answers(port, host):
        return None
    name = f"celery_replay_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    try:
        _execute(host, port, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    except pymysql.err.OperationalError:
        return None
    stack.callback(_execute, host, port, f"DROP DATABASE IF EXISTS {name}")
    return f"mysql://root@{host}:{port}/{name}"


def _execute(host: str, port: int, statement: str) -> None:
    connection = pymysql.connect(host=host, port=port, user="root", connect_timeout=2, autocommit=True)
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
