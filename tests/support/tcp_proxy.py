"""A TCP proxy that can refuse, cut and swallow: what networks and frozen servers do to clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.support.net import LOCALHOST, free_port


class TcpProxy:
    """Forwards connections to a server until told otherwise; start it as a context manager."""

    def __init__(self, host: str, port: int) -> None:
        self.port = free_port()
        self._target = (host, port)
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._ends: set[socket.socket] = set()
        self._flowing = threading.Event()
        self._flowing.set()

    def __enter__(self) -> TcpProxy:
        self.forward()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._flowing.set()

    def through(self, url: str) -> str:
        """Return the URL of the same thing, seen through this proxy."""
        parts = urlsplit(url)
        user = f"{parts.username}@" if parts.username else ""
        return parts._replace(netloc=f"{user}{LOCALHOST}:{self.port}").geturl()

    def forward(self) -> None:
        """Let everything pass."""
        self._flowing.set()
        self._listen()

    def swallow(self) -> None:
        """Be a black hole: accept, keep everything open, and never answer."""
        self._flowing.clear()
        self._listen()

    def refuse(self) -> None:
        """Be a server that is down: cut what is connected, and accept nothing."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            # Closing alone would not wake the thread that accepts.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut()

    def cut(self) -> None:
        """Break the connections that there are; new ones are accepted."""
        with self._lock:
            ends = list(self._ends)
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        with self._lock:
            if self._listener is None:
                self._listener = socket.create_server((LOCALHOST, self.port))
                threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, self._cuttable(client):
            self._flowing.wait()
            try:
                server = socket.create_connection(self._target)
            except OSError:
                return
            with server, self._cuttable(server):
                back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
                back.start()
                self._pump(client, server)
                back.join()

    @contextmanager
    def _cuttable(self, end: socket.socket) -> Iterator[None]:
        with self._lock:
            self._ends.add(end)
        try:
            yield
        finally:
            with self._lock:
                self._ends.discard(end)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
