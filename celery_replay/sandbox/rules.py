"""Which of the interpreter's audit events lead out of a sandbox, and what may be told of each.

Told are addresses, the names of programs, and paths; never arguments, environments or content, which may hold secrets.
The events are in the table of audit events of Python's documentation.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Rule = Callable[..., "str | None"]
"""Takes an event's arguments; returns what it was after if that leads out, else None."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def rules(folder: Path) -> dict[str, Rule]:
    """Return the rule of each event that may lead out of this folder."""
    paths = _Paths(folder)
    return {**_NETWORK, **_PROCESSES, **_DATABASES, **paths.rules()}


class _Paths:
    """Rules of what writes to files."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.path.realpath(folder)

    def rules(self) -> dict[str, Rule]:
        first = ("os.mkdir", "os.chmod", "os.chown", "os.utime")
        return {
            "open": self.opened,
            "sqlite3.connect": self.database,
            "os.truncate": lambda path, *_: None if isinstance(path, int) else self.outside(path),
            "os.chflags": lambda path, *_: self.outside(path),
            "os.setxattr": lambda path, *_: self.outside(path),
            "os.removexattr": lambda path, *_: self.outside(path),
            "os.remove": self.entry,
            "os.rmdir": self.entry,
            "os.symlink": lambda _, path, at: self.entry(path, at),
            "os.rename": lambda path, to, at, to_at: self.entry(path, at) or self.entry(to, to_at),
            "os.link": lambda path, to, at, to_at: self.entry(path, at) or self.entry(to, to_at),
            **dict.fromkeys(first, lambda path, *others: self.outside(path, others[-1])),
        }

    def opened(self, path: Any, mode: Any, flags: int) -> str | None:
        # A number stands for a file that was opened before, and judged then. A folder that the path is relative to by
        # its descriptor is not told of.
        return self.outside(path) if flags & _WRITES and not isinstance(path, int) else None

    def database(self, name: Any) -> str | None:
        text = os.fsdecode(name)
        if text.startswith("file:"):
            address = urlsplit(text)
            text = unquote(address.path)
            if parse_qs(address.query).get("mode") == ["memory"]:
                return None
        return self.outside(text) if text not in {"", ":memory:"} else None

    def entry(self, path: Any, at: int = -1) -> str | None:
        """Judge a name in a folder, which is not followed if it is a link."""
        where, name = os.path.split(_joined(path, at).rstrip("/"))
        return self._unless_inside(str(Path(os.path.realpath(where), name)))

    def outside(self, path: Any, at: int = -1) -> str | None:
        """Judge what a path leads to."""
        return self._unless_inside(os.path.realpath(_joined(path, at)))

    def _unless_inside(self, path: str) -> str | None:
        inside = path == os.devnull or os.path.commonpath((self.folder, path)) == self.folder
        return None if inside else path


def _joined(path: Any, at: int) -> str:
    if isinstance(path, int):
        return _opened_as(path)
    text = os.fsdecode(path)
    return os.path.join(_opened_as(at), text) if at >= 0 else text  # noqa: PTH118 - of any type of path


def _opened_as(descriptor: int) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    # Elsewhere nobody can say.
    return f"/dev/fd/{descriptor}"


def _address(address: Any) -> str:
    match address:
        case (host, port, *_):
            return f"{_text(host)}:{_text(port)}"
        case str() | bytes():
            return _text(address).replace("\x00", "@")
        case _:
            return ""


def _text(value: Any) -> str:
    return os.fsdecode(value) if isinstance(value, bytes) else str(value)


def _created(_: Any, family: int, kind: int, *__: Any) -> str | None:
    # The kernel refuses all others, and then this is the last that the interpreter hears.
    if family == socket.AF_UNIX and kind & 0xF in {socket.SOCK_STREAM, socket.SOCK_SEQPACKET}:
        return None
    return f"of {_named(socket.AddressFamily, family)}"


def _named(enum: type[IntEnum], value: int) -> str:
    with suppress(ValueError):
        return enum(value).name
    return str(value)


def _second(_: Any, address: Any, *__: Any) -> str:
    return _address(address)


def _addressed(_: Any, address: Any = None, *__: Any) -> str | None:
    return None if address is None else _address(address)


def _host_and_port(_: Any, host: Any, port: Any, *__: Any) -> str:
    return _address((host, port))


_NETWORK: dict[str, Rule] = {
    "socket.__new__": _created,
    "socket.connect": _second,
    "socket.bind": _second,
    "socket.sendto": _second,
    "socket.sendmsg": _addressed,
    "socket.getaddrinfo": lambda host, port, *_: _address((host, port)),
    "socket.gethostbyname": _text,
    "socket.gethostbyaddr": _text,
    "socket.getnameinfo": _address,
    "socket.sethostname": _text,
    **dict.fromkeys(
        ("http.client.connect", "smtplib.connect", "ftplib.connect", "imaplib.open", "poplib.connect"), _host_and_port
    ),
    **dict.fromkeys(("nntplib.connect", "telnetlib.Telnet.open"), _host_and_port),
    "syslog.syslog": lambda *_: "",
}


_DATABASES: dict[str, Rule] = {
    # Raised by whoever stands in front of a database that the sandbox has a connection to.
    "database.statement": _text,
}


def _program(path: Any, *_: Any) -> str:
    return _text(os.fspath(path))


def _started(executable: Any, arguments: Any, *_: Any) -> str:
    first = arguments if isinstance(arguments, (str, bytes, os.PathLike)) else next(iter(arguments), "")
    return _program(executable or first)


def _shell(command: Any) -> str:
    # What comes before may set variables of the environment.
    return next((word for word in _text(command).split() if "=" not in word), "")


def _signal(pid: int, number: int) -> str | None:
    return None if pid == os.getpid() else f"signal {int(number)} to process {pid}"


_PROCESSES: dict[str, Rule] = {
    "subprocess.Popen": _started,
    "os.system": _shell,
    "os.exec": _program,
    "os.posix_spawn": _program,
    "os.spawn": lambda _, path, *__: _program(path),
    "pty.spawn": lambda arguments: _program(arguments[0]),
    "os.kill": _signal,
    "os.killpg": lambda group, number: f"signal {int(number)} to group {group}",
    "resource.prlimit": lambda pid, *_: None if pid in {0, os.getpid()} else f"limits of process {pid}",
    "sys.remote_exec": lambda pid, *_: f"code in process {pid}",
}
