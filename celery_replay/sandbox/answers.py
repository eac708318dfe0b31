"""What the child tells the parent: lines of JSON through a pipe, which the parent does not trust."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from .audit import Blocked
from .kernel import Layers
from .report import Raised

VALUE_LIMIT = 4_000_000
"""Characters of JSON that a body may return."""
BLOCKED_LIMIT = 1_000
"""Attempts that are told; a body may try one for ever."""
_BYTES_LIMIT = 4 * VALUE_LIMIT + 4_000_000


class Teller:
    """The child's end."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._blocked = 0
        self._ended = False

    def layers(self, layers: Layers) -> None:
        """Tell which layers are on."""
        self._tell({"layers": [layers.seccomp, layers.landlock, layers.audit, list(layers.reasons)]})

    def blocked(self, blocked: Blocked) -> None:
        """Tell of an attempt at once: the child may not live to its end."""
        self._blocked += 1
        if self._blocked <= BLOCKED_LIMIT and not self._ended:
            self._tell({"blocked": [blocked.what, blocked.detail, blocked.step]})

    def value(self, value: Any) -> None:
        """Tell what the body returned.

        Raises:
            ValueError: it is too large, or can't be JSON.
            TypeError: it is of a type that JSON has not.
        """
        _check_size(value)
        text = json.dumps(value)
        if len(text) > VALUE_LIMIT:
            raise ValueError(_TOO_LARGE)
        self._ended = True
        self._write(f'{{"value":{text}}}')

    def error(self, raised: Raised) -> None:
        """Tell of the error that ended it."""
        self._ended = True
        self._tell({"error": [raised.stage, raised.type, raised.message, raised.traceback]})

    def _tell(self, message: dict[str, Any]) -> None:
        self._write(json.dumps(message, ensure_ascii=False))

    def _write(self, line: str) -> None:
        # A line of its own even where the body has written into the pipe; short ones go in one piece from any thread.
        rest = memoryview(f"\n{line}\n".encode("utf-8", "backslashreplace"))
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]


_TOO_LARGE = f"what it returned is larger than {VALUE_LIMIT:,} characters of JSON"


def _check_size(value: Any) -> None:
    """Refuse what is too large before it is copied."""
    size, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        size += len(item) if isinstance(item, (str, list, tuple, dict)) else 1
        if size > VALUE_LIMIT:
            raise ValueError(_TOO_LARGE)
        if isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple)):
            waiting += item


@dataclass(kw_only=True)
class Answers:
    """The parent's end: what was told so far."""

    layers: Layers | None = None
    blocked: list[Blocked] = field(default_factory=list)
    value: Any = None
    error: Raised | None = None
    ended: bool = False
    """Has the last word been said?"""
    unreadable: int = 0
    _size: int = 0
    _rest: bytearray = field(default_factory=bytearray)

    @property
    def too_long(self) -> bool:
        """Has more come than an honest child could say?"""
        return self._size > _BYTES_LIMIT

    def take(self, data: bytes) -> None:
        """Take in what came through the pipe, up to the last word."""
        self._size += len(data)
        self._rest += data
        if b"\n" not in data:
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            if line and not self.ended:
                self._read(bytes(line))

    def _read(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        match message:
            case {"layers": [bool() as seccomp, int() as landlock, bool() as audit, [*reasons]]} if not self.layers:
                told = tuple(str(reason) for reason in reasons)
                self.layers = Layers(seccomp=seccomp, landlock=landlock, audit=audit, reasons=told)
            case {"blocked": [str() as what, str() as detail, str() as step]} if len(self.blocked) < BLOCKED_LIMIT:
                self.blocked.append(Blocked(what=what, detail=detail, step=step))
            case {"error": [str() as stage, str() as kind, str() as says, str() as where]}:
                self.error, self.ended = Raised(stage=stage, type=kind, message=says, traceback=where), True
            case {"value": value}:
                self.value, self.ended = value, True
            case _:
                self.unreadable += 1
