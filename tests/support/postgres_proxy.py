"""A proxy in front of PostgreSQL that writes down every statement that is executed through it.

Counted on the wire, so that nothing of the client's has to be patched, and in all of its processes at once.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

from tests.support.net import LOCALHOST

_NO_ENCRYPTION = (80877103, 80877104)
"""Codes of the requests for TLS and GSSAPI, which are answered with "no"."""


class PostgresProxy:
    """Passes connections on to a server; a context manager.

    Args:
        url: a database's address, as a URL.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or LOCALHOST, parts.port or 5432)
        self._listener = socket.create_server((LOCALHOST, 0))
        port = self._listener.getsockname()[1]
        user, at, _ = parts.netloc.rpartition("@")
        self.url = urlunsplit(parts._replace(netloc=f"{user}{at}{LOCALHOST}:{port}"))
        """The same database, by way of the proxy."""
        self.statements: list[str] = []
        """The text of each statement, as often as it was executed, in the order of their coming."""
        self.connections = 0
        """How many clients came."""

    def __enter__(self) -> PostgresProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Else the thread's accept() would keep the port open.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self.connections += 1
        session = _Session(self.statements)
        with suppress(OSError), client, socket.create_connection(self._server) as server:
            for end in (client, server):
                # Else each answer would wait for the other side's delayed acknowledgement.
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.sendall(_start(client))
            threading.Thread(target=_copy, args=(server, client), daemon=True).start()
            while header := _exactly(client, 5):
                body = _exactly(client, int.from_bytes(header[1:], "big") - 4)
                # Noted first: whoever has the answer finds it counted.
                session.note(header[:1], body)
                server.sendall(header + body)


class _Session:
    """What one client has prepared and bound."""

    def __init__(self, statements: list[str]) -> None:
        self._statements = statements
        self._prepared: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}

    def note(self, kind: bytes, body: bytes) -> None:
        """Take note of a message of the client's: Parse, Bind, Execute or Query."""
        first, _, rest = body.partition(b"\0")
        second = rest.partition(b"\0")[0]
        if kind == b"P":
            self._prepared[first] = second.decode()
        elif kind == b"B":
            self._portals[first] = self._prepared[second]
        elif kind == b"E":
            self._statements.append(self._portals[first])
        elif kind == b"Q":
            self._statements.append(first.decode())


def _start(client: socket.socket) -> bytes:
    """Return the client's first message, after saying no to encryption."""
    while True:
        length = _exactly(client, 4)
        body = _exactly(client, int.from_bytes(length, "big") - 4)
        if int.from_bytes(body[:4], "big") not in _NO_ENCRYPTION:
            return length + body
        client.sendall(b"N")


def _exactly(source: socket.socket, count: int) -> bytes:
    """Receive so many bytes; none where the other side hung up."""
    received = b""
    while len(received) < count:
        part = source.recv(count - len(received))
        if not part:
            return b""
        received += part
    return received


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)
