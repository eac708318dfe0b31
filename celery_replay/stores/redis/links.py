"""Connections to the server, held by this process: a pooled client's layers cost more than the round trip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from redis import exceptions

from .scripts import Script

try:
    import hiredis
except ImportError:
    _packed: Callable[[Any], bytes] | None = None
else:
    _packed = hiredis.pack_command

Argument = bytes | str | int

_AWAY = (
    exceptions.ConnectionError,  # also: it is loading its data
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.MasterDownError,
    exceptions.ClusterDownError,
    OSError,
)


class Lost(Exception):
    """The connection went away, or the server can't serve now."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Refused(Exception):
    """The server does not do that."""


class Link:
    """One connection.

    Args:
        connection: redis-py's, not yet connected.
        prefix: what all keys begin with.
    """

    __slots__ = ("_connection", "_pack", "prefix")

    def __init__(self, connection: Any, prefix: str) -> None:
        self._connection = connection
        # What redis-py does around it costs more than the packing.
        self._pack: Callable[[Any], Any] = _plainly if _packed else lambda command: connection.pack_command(*command)
        self.prefix = prefix.encode()

    def connect(self) -> None:
        """Connect.

        Raises:
            Lost: it can't be reached.
        """
        try:
            self._connection.connect()
        except _AWAY as error:
            raise Lost(str(error), sent=False) from error
        except exceptions.RedisError as error:
            raise Refused(str(error)) from error

    def call(self, script: Script, *arguments: Argument) -> Any:
        """Run a script; one round trip, two where the server does not know it yet."""
        try:
            return self._do("EVALSHA", script.sha, 1, self.prefix, *arguments)
        except exceptions.NoScriptError:
            return self._guarded(lambda: self._do("EVAL", script.source, 1, self.prefix, *arguments))
        except exceptions.ResponseError as error:
            raise _refusal(error) from error

    def do(self, command: str, key: str = "", *arguments: Argument) -> Any:
        """Run a command on one key."""
        return self._guarded(lambda: self._do(command, self.prefix + _raw(key), *arguments))

    def ask(self, *command: Argument) -> Any:
        """Run a command on no key."""
        return self._guarded(lambda: self._do(*command))

    def many(self, command: str, keys: Sequence[str]) -> list[Any]:
        """Run a command on each of some keys, in one round trip."""
        return self.each(command, [(key,) for key in keys])

    def each(self, command: str, calls: Sequence[tuple[str, ...]]) -> list[Any]:
        """Run a command with each of some keys and arguments, in one round trip."""
        if not calls:
            return []
        packed = self._connection.pack_commands(
            [(command, self.prefix + _raw(key), *map(_raw, arguments)) for key, *arguments in calls]
        )

        def run() -> list[Any]:
            self._connection.send_packed_command(packed, check_health=False)
            # All answers, before any is looked at: those left behind would be taken for those of the next command.
            answers = [self._answer() for _ in calls]
            for answer in answers:
                if isinstance(answer, exceptions.ResponseError):
                    raise answer
            return answers

        found: list[Any] = self._guarded(run)
        return found

    def _answer(self) -> Any:
        try:
            return self._connection.read_response(disable_decoding=True)
        except exceptions.ResponseError as error:
            return error

    def _do(self, *command: Any) -> Any:
        try:
            self._connection.send_packed_command(self._pack(command), check_health=False)
            return self._connection.read_response(disable_decoding=True)
        except _AWAY as error:
            raise Lost(str(error), sent=True) from error

    def _guarded(self, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except exceptions.ResponseError as error:
            raise _refusal(error) from error
        except _AWAY as error:
            raise Lost(str(error), sent=True) from error

    def close(self) -> None:
        """Close the connection, whatever state it is in."""
        with suppress(Exception):
            self._connection.disconnect()


def _plainly(command: Any) -> list[bytes]:
    assert _packed is not None
    return [_packed(command)]


def _refusal(error: exceptions.ResponseError) -> Exception:
    if isinstance(error, exceptions.OutOfMemoryError):
        return Lost(f"it is full, and keeps what it has: give it more memory ({error})", sent=False)
    return Refused(str(error))


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
