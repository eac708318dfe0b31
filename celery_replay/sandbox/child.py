"""A body in a sandbox: a forked child that can't reach the outside, and a parent that looks for its answer."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from ..exceptions import SandboxUnavailable
from . import inside, kernel, libc
from .answers import Answers
from .report import Output, Report

OUTPUT_LIMIT = 64_000
"""Bytes of each stream that a report has: half from its beginning, half from its end."""
_GLANCE_S = 0.02
"""How often it is looked whether the child has ended, where something else holds its pipe open."""


def run(
    body: Callable[[], Any],
    *,
    prepare: Callable[[], Collection[int] | None] | None = None,
    folder: Path,
    timeout_s: float,
    require_kernel: bool = False,
) -> Report:
    """Do a body in a child of this process, as `start` does, and wait for its end."""
    running = start(body, prepare=prepare, folder=folder, timeout_s=timeout_s, require_kernel=require_kernel)
    try:
        while not running.look():
            wait([running])
        return running.finish()
    finally:
        running.abandon()


def start(
    body: Callable[[], Any],
    *,
    prepare: Callable[[], Collection[int] | None] | None = None,
    folder: Path,
    timeout_s: float,
    require_kernel: bool = False,
    tried: bool = False,
) -> Running:
    """Begin a body in a child of this process that can write beneath a folder, and reach nothing else.

    The child has all that is loaded here. It is killed at the deadline, with whatever it has forked; non-daemon threads
    that outlive the body are not waited for, and nothing of `atexit` runs.

    Args:
        body: returns what JSON can say.
        prepare: is run in the child before it is locked up, and may connect to what the body may use. It returns the
            descriptors that stay open; a socket, a pipe or a file open for writing that it does not name is closed.
            What it has inherited is still the parent's: to end a connection here would end the parent's.
        folder: exists; the output is captured there, in `stdout.txt` and `stderr.txt`.
        timeout_s: seconds for all of it.
        require_kernel: run nothing where the kernel does not enforce the sandbox.
        tried: it is known that the kernel does, so that no child needs to try it first.

    Raises:
        SandboxUnavailable: with `require_kernel`, where it does not.
    """
    if require_kernel and not tried:
        _refuse(kernel.available())
    folder = folder.resolve(strict=True)
    libc.load()
    with contextlib.ExitStack() as closing:
        stdout, stderr = (_captured(folder / name, closing) for name in ("stdout.txt", "stderr.txt"))
        reading, writing = os.pipe()
        closing.callback(os.close, reading)
        # Closed here before anything else is forked: a sibling would keep it open.
        with contextlib.closing(os.fdopen(writing, "wb", buffering=0)):
            errand = inside.Errand(
                body=body,
                prepare=prepare,
                folder=folder,
                require_kernel=require_kernel,
                parent=os.getpid(),
                answers=writing,
                stdout=stdout,
                stderr=stderr,
            )
            child = _Child(errand)
        return Running(child, reading, (stdout, stderr), timeout_s, closing.pop_all(), require_kernel=require_kernel)


def wait(running: Iterable[Running]) -> None:
    """Wait until one of these has told something, or it is time to look at all of them."""
    poll = select.poll()
    left = _GLANCE_S
    for one in running:
        left = min(left, one.left_s)
        if one.listening:
            poll.register(one.descriptor, select.POLLIN)
    poll.poll(max(left, 0) * 1_000)


class Running:
    """A body that is being done. To be looked at until it is over, and then finished; or abandoned."""

    def __init__(
        self,
        child: _Child,
        descriptor: int,
        outputs: tuple[int, int],
        timeout_s: float,
        closing: contextlib.ExitStack,
        *,
        require_kernel: bool,
    ) -> None:
        self.descriptor = descriptor
        """Of the pipe that its answers come through."""
        self.listening = True
        """May anything more come?"""
        self._child = child
        self._outputs = outputs
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._closing = closing
        self._require_kernel = require_kernel
        self._answers = Answers()
        self._end: str | None = None
        """How it ended, once it has; empty where it said its last word."""

    @property
    def left_s(self) -> float:
        """Seconds until its deadline."""
        return self._deadline - time.monotonic()

    def look(self) -> bool:
        """Take in what there is of its answers, without waiting; is it over?"""
        if self._end is None:
            self._end = self._looked()
        return self._end is not None

    def _looked(self) -> str | None:
        if self._is_readable():
            data = os.read(self.descriptor, 1 << 20)
            self._answers.take(data)
            if self._answers.ended:
                return ""
            if self._answers.too_long:
                return "it filled the result pipe with what is no answer"
            self.listening = bool(data)
        elif self._child.has_ended() and not self._is_readable():
            # Looked at once more: its last word may have come between the two looks.
            return self._child.how()
        return f"killed after {self._timeout_s:g} s" if self.left_s <= 0 else None

    def _is_readable(self) -> bool:
        if not self.listening:
            return False
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def finish(self) -> Report:
        """End it, with all that it has forked, and tell what became of it.

        Raises:
            SandboxUnavailable: the kernel was required, and did not enforce the sandbox.
        """
        with self._closing:
            self._child.end()
            answers = self._answers
            if self._require_kernel and answers.layers:
                _refuse(answers.layers)
            stdout, stderr = map(_output, self._outputs)
            return Report(
                layers=answers.layers,
                blocked=tuple(answers.blocked),
                value=answers.value,
                error=answers.error,
                died=self._end or "",
                stdout=stdout,
                stderr=stderr,
                unreadable=answers.unreadable,
            )

    def abandon(self) -> None:
        """End it, if that is not done yet."""
        with self._closing:
            self._child.end()


class _Child:
    """A forked process, and all of its group."""

    def __init__(self, errand: inside.Errand) -> None:
        for stream in (sys.stdout, sys.stderr):
            # Else the child would print what waits in the parent's buffer.
            with contextlib.suppress(Exception):
                stream.flush()
        self._status: int | None = None
        self._reaped = self._ended = False
        self.pid = os.fork()
        if not self.pid:
            inside.live(errand)

    def has_ended(self) -> bool:
        """Has it? Until it is reaped, nobody else is given its number."""
        try:
            if hasattr(os, "waitid"):
                return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            self._reap(os.WNOHANG)
        except ChildProcessError:
            self._reaped = True
        return self._reaped

    def end(self) -> None:
        """Kill it and what it has forked, and reap it; once, as its number may be somebody else's later."""
        if self._ended:
            return
        self._ended = True
        for kill in (os.killpg, os.kill):
            if kill is os.killpg or not self._reaped:
                # macOS says of a group that has only ended members that it may not be sent signals.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(self.pid, signal.SIGKILL)
        if not self._reaped:
            with contextlib.suppress(ChildProcessError):
                self._reap(0)

    def how(self) -> str:
        """Reap it, and say how it ended."""
        self.end()
        if self._status is None:
            return "somebody else has reaped it"
        code = os.waitstatus_to_exitcode(self._status)
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"

    def _reap(self, options: int) -> None:
        pid, status = os.waitpid(self.pid, options)
        if pid:
            self._reaped, self._status = True, status


def _refuse(layers: kernel.Layers) -> None:
    if not layers.enforced:
        missing = "; ".join(layers.reasons)
        raise SandboxUnavailable(
            f"the kernel can't enforce the sandbox here: {missing}; run where it can, or don't require it"
        )


def _captured(path: Path, closing: contextlib.ExitStack) -> int:
    # The body may put something else in the file's place; what is read in the end is the file that was opened here.
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    closing.callback(os.close, descriptor)
    return descriptor


def _output(descriptor: int) -> Output:
    size = os.fstat(descriptor).st_size
    if size <= OUTPUT_LIMIT:
        content = os.pread(descriptor, OUTPUT_LIMIT, 0)
    else:
        half = OUTPUT_LIMIT // 2
        content = os.pread(descriptor, half, 0) + b"\n...[cut]...\n" + os.pread(descriptor, half, size - half)
    return Output(text=content.decode("utf-8", "backslashreplace"), size=size)
