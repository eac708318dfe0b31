"""Connections to the server, held by this process: a pooled client's layers cost more than the round trip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis import exceptions

from .faults import TROUBLE, trouble_of
from .scripts import Script

if TYPE_CHECKING:
    from .runs import Run

try:
    import hiredis
except ImportError:
    _packed: Callable[[Any], bytes] | None = None
else:
    _packed = hiredis.pack_command

Argument = bytes | str | int


class Link:
    """One connection.

    Args:
        connection: redis-py's, not yet connected.
        prefix: what all keys begin with.
        notes: scripts are to note what changes.
    """

    __slots__ = ("_connection", "_pack", "notes", "prefix", "run")

    def __init__(self, connection: Any, prefix: str, *, notes: bool = False) -> None:
        self._connection = connection
        # What redis-py does around it costs more than the packing.
        self._pack: Callable[[Any], Any] = _plainly if _packed else lambda command: connection.pack_command(*command)
        self.prefix = prefix.encode()
        self.notes = notes
        self.run: Run | None = None
        """What it was told of the store; None where it has not asked yet."""

    def connect(self) -> None:
        """Connect.

        Raises:
            Lost: it can't be reached, or can't serve now.
            Denied: it lets nobody in who comes like that.
        """
        try:
            self._connection.connect()
        except TROUBLE as error:
            raise trouble_of(error, sent=False) from error

    def call(self, script: Script, *arguments: Argument) -> Any:
        """Run a script; one round trip, two where the server does not know it yet."""
        keys = (2, self.prefix, self.prefix + b"outbox") if self.notes else (1, self.prefix)
        try:
            try:
                return self._do("EVALSHA", script.sha, *keys, *arguments)
            except exceptions.NoScriptError:
                return self._do("EVAL", script.source, *keys, *arguments)
        except TROUBLE as error:
            raise trouble_of(error, sent=True) from error

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
        return self.all([(command, *call) for call in calls])

    def all(self, calls: Sequence[tuple[str, ...]]) -> list[Any]:
        """Run commands, each on a key, in one round trip."""
        if not calls:
            return []
        packed = self._packed([(command, self.prefix + _raw(key), *map(_raw, rest)) for command, key, *rest in calls])

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

    def _packed(self, commands: Sequence[Sequence[Any]]) -> Any:
        """Pack many commands: together, as each piece is a write of its own."""
        return [b"".join(map(_packed, commands))] if _packed else self._connection.pack_commands(commands)

    def _answer(self) -> Any:
        try:
            return self._connection.read_response(disable_decoding=True)
        except exceptions.ResponseError as error:
            return error

    def _do(self, *command: Any) -> Any:
        self._connection.send_packed_command(self._pack(command), check_health=False)
        return self._connection.read_response(disable_decoding=True)

    def _guarded(self, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except TROUBLE as error:
            raise trouble_of(error, sent=True) from error

    def close(self) -> None:
        """Close the connection, whatever state it is in."""
        with suppress(Exception):
            self._connection.disconnect()


def _plainly(command: Any) -> list[bytes]:
    assert _packed is not None
    return [_packed(command)]


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
