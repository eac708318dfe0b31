"""What a body must not reach: files, servers, a process. It is compared afterwards with what it was."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

CONTENT = b"as it was\n"


class Outside:
    """All of it, in the test's own process, without a thread: what connects waits in a socket's backlog."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self.pid = os.getpid()
        self.folder = folder
        (folder / "filled").mkdir(parents=True)
        (folder / "empty").mkdir()
        self.file = folder / "file"
        for path in (self.file, folder / "other", folder / "filled" / "leaf"):
            path.write_bytes(CONTENT)
        (folder / "link").symlink_to(self.file)
        self.writable = self._enter((folder / "written").open("wb+", buffering=0))
        self.readable = self._enter(self.file.open("rb", buffering=0))
        self.mapped = self._mapped()
        self.shared = self._enter(mmap.mmap(-1, mmap.PAGESIZE))
        # Not beneath the test's folder: a socket's path is short.
        self.sockets = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self.tcp = self._bound(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self.udp = self._bound(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self.unix = self._bound(socket.AF_UNIX, socket.SOCK_STREAM, str(self.sockets / "stream"))
        self.log = self._bound(socket.AF_UNIX, socket.SOCK_DGRAM, str(self.sockets / "datagram"))
        self.abstract = self._bound(socket.AF_UNIX, socket.SOCK_STREAM, f"\x00celery-replay-{self.pid}-{id(self)}")
        # Asked for here: the child's copies of these sockets are closed.
        self.tcp_address, self.udp_address, self.unix_path, self.log_path, self.abstract_name = (
            bound.getsockname() for bound in (self.tcp, self.udp, self.unix, self.log, self.abstract)
        )
        self.inherited, self.peer = socket.socketpair()
        for end in (self.inherited, self.peer):
            end.setblocking(False)
            self._stack.callback(end.close)
        self.signals: list[int] = []
        self._handler = signal.signal(signal.SIGUSR1, lambda number, _: self.signals.append(number))
        self._stack.callback(signal.signal, signal.SIGUSR1, self._handler)
        self.memory = ctypes.create_string_buffer(CONTENT)
        self._before = self._files()

    def close(self) -> None:
        self._stack.close()

    def check(self) -> None:
        """Compare it with what it was."""
        assert self._files() == self._before
        for server in (self.tcp, self.unix, self.abstract):
            assert _nothing(server.accept), f"somebody connected to {server.getsockname()!r}"
        for receiver in (self.udp, self.log, self.peer):
            assert _nothing(lambda receiver=receiver: receiver.recv(99)), "somebody sent something"
        assert self.signals == []
        assert bytes(self.shared[:4]) == bytes(4)
        assert self.memory.value == CONTENT
        assert self.readable.tell() == 0

    def _files(self) -> dict[str, Any]:
        return {str(path): _state(path) for path in [self.folder, *self.folder.rglob("*"), *self.sockets.rglob("*")]}

    def _mapped(self) -> mmap.mmap:
        with (self.folder / "mapped").open("wb+") as file:
            file.write(CONTENT.ljust(mmap.PAGESIZE))
            file.flush()
            return self._enter(mmap.mmap(file.fileno(), mmap.PAGESIZE))

    def _bound(self, family: int, kind: int, address: Any) -> socket.socket:
        made = self._enter(socket.socket(family, kind))
        made.bind(address)
        made.setblocking(False)
        if kind == socket.SOCK_STREAM:
            made.listen()
        return made

    def _enter(self, resource: Any) -> Any:
        return self._stack.enter_context(resource)


def _state(path: Path) -> tuple[Any, ...]:
    found = path.lstat()
    if path.is_symlink():
        return "link", str(path.readlink())
    content = path.read_bytes() if path.is_file() else b""
    return found.st_mode, found.st_uid, found.st_mtime_ns, found.st_nlink, content, tuple(os.listxattr(path))


def _nothing(take: Any) -> bool:
    try:
        take()
    except BlockingIOError:
        return True
    return False
